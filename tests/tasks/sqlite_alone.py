"""Stores of the ledger in a file without a thread of their own: a test does what the thread would."""

from pathlib import Path

from gateway.tasks.sqlite import SqliteStore


def opened(path: Path) -> SqliteStore:
    """One process's store."""
    store = SqliteStore(path)
    store._file.open()
    return store


def ended(store: SqliteStore) -> None:
    """As a kill does: nothing is carried over."""
    store._carrier.let_go()
    if store._arrivals is not None:
        store._arrivals.close()
    store._file.close()
