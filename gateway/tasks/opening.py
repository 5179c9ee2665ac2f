"""The store that a configuration names."""

from gateway.config.state import StateUrl
from gateway.tasks.store import Store


def make(state: StateUrl, patience: float | None = None) -> Store:
    """A store, which has yet to be opened; relative paths are those of the working directory.

    Args:
        patience: Seconds for a reply over a network; left out, as few as a call has.

    Raises:
        StoreBroken: it can never work as it is written.
    """
    # A gateway needs one of the three, and none should cost it the libraries of the others.
    if state.kind == "memory":
        from gateway.tasks.memory import MemoryStore  # noqa: PLC0415 - see above

        return MemoryStore()
    if state.kind == "sqlite":
        from gateway.tasks.sqlite import SqliteStore  # noqa: PLC0415 - see above

        return SqliteStore(state.path)
    from gateway.tasks.redis import RedisStore  # noqa: PLC0415 - see above

    return RedisStore(state.url, patience=patience)
