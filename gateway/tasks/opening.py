"""The store that a configuration names."""

from gateway.config.state import StateUrl
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Store


def make(state: StateUrl, patience: float | None = None) -> Store:
    """A store, which has yet to be opened; relative paths are those of the working directory.

    Args:
        patience: Seconds for a reply over a network; left out, as few as a call has.

    Raises:
        StoreBroken: it can never work as it is written.
    """
    if state.kind != "redis":
        return SqliteStore(state.path if state.kind == "sqlite" else None)
    # Only a gateway that uses Redis pays for it.
    from gateway.tasks.redis import RedisStore  # noqa: PLC0415 - see above

    return RedisStore(state.url, patience=patience)
