"""Keys that the format had and this version refuses: each with the reason and the remedy."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from gateway.config.problem import KeyPath


class Removed(NamedTuple):
    """The fact and the remedy for a key that is refused."""

    fact: str
    remedy: str


REMOVED: Mapping[str, Removed] = {
    "gateway.body.aside": Removed("`aside` is no setting any more: it is always 256KiB", "remove it"),
    "push.deliver.max_waiting_bytes": Removed(
        "`max_waiting_bytes` is no setting any more: it is always 256MiB", "remove it"
    ),
    "gateway.grpc.resets": Removed("grpc-core bounds calls that clients take back by itself", "remove it"),
    "agents.*.upstream_auth.token_exchange": Removed("the key is called `exchange`", "write `exchange` instead"),
    "agents.*.upstream_auth.mtls": Removed(
        "an agent is shown a certificate by its `tls`",
        "write `tls: { cert: …, key: … }` at the agent, or in `defaults`",
    ),
}
"""By pattern of the path without indexes; `*` stands for any names."""

REMOVED_KEYS = frozenset(pattern.rpartition(".")[2] for pattern in REMOVED)
"""The last keys of the patterns."""


def removed(path: KeyPath) -> Removed | None:
    """Return why the key at a path is refused, or None if it never was a key."""
    if not path or path[-1] not in REMOVED_KEYS:
        return None
    spelled = ".".join(step for step in path if isinstance(step, str))
    return next((found for pattern, found in REMOVED.items() if fnmatchcase(spelled, pattern)), None)
