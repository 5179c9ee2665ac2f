"""What belongs to the format and is not in this version: refused with that reason, never ignored.

The keys are taken out of the tree before the models see it, so that they are neither unknown nor in the schema.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gateway.config.problem import KeyPath
from gateway.config.scalar import Value

UNBUILT: Mapping[tuple[str, ...], str] = {
    ("agents", "*", "trust"): "the catalog",
    ("agents", "*", "latency"): "the catalog",
    ("agents", "*", "match", "skill"): "the catalog",
    ("agents", "*", "match", "*", "skill"): "the catalog",
    ("agents", "*", "card", "sign"): "card signing",
    ("observe", "tracing"): "OTLP tracing",
}
"""Keys, with what they belong to; `*` stands for any one name or index."""

_UPSTREAM_AUTH: Mapping[str, str] = {
    "oauth2": "OAuth2 client credentials",
    "mtls": "client certificates",
    "token_exchange": "token exchange",
}


_SHOWN = ("upstream_auth", "mtls")
UNBUILT_KEYS = frozenset({path[-1] for path in UNBUILT}) | frozenset(_UPSTREAM_AUTH)
"""The keys alone."""


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A place where the file asks for what is not there yet.

    Attributes:
        what: What stands there, in words.
        feature: What it belongs to.
    """

    path: KeyPath
    what: str
    feature: str

    @property
    def fact(self) -> str:
        """The problem's fact."""
        if self.path[-2:] == _SHOWN:
            return "an agent is shown a certificate by its `tls`"
        belongs = "" if self.feature in self.what else f": it belongs to {self.feature}"
        return f"{self.what} is not available yet{belongs}"

    @property
    def remedy(self) -> str:
        """What would be right."""
        if self.path[-2:] == _SHOWN:
            return "write `tls: { cert: …, key: … }` at the agent, or in `defaults`"
        return "remove it for now"


@dataclass(slots=True)
class _Node:
    feature: str = ""
    below: dict[str, "_Node"] = field(default_factory=dict)


def take_out(tree: dict[str, Value]) -> list[Unbuilt]:
    """Remove from the tree what is not built, and tell what it was."""
    return list(_keys(tree, _root(), ()))


def _root() -> _Node:
    """The keys as a tree, so that one walk finds them all."""
    root = _Node()
    paths = dict(UNBUILT)
    for agent in (("agents", "*"), ("agents", "*", "by_tenant", "*")):
        paths |= {(*agent, "upstream_auth", key): feature for key, feature in _UPSTREAM_AUTH.items()}
    for path, feature in paths.items():
        node = root
        for step in path:
            node = node.below.setdefault(step, _Node())
        node.feature = feature
    return root


def _keys(value: Value, node: _Node, path: KeyPath) -> Iterator[Unbuilt]:
    if isinstance(value, list):
        below = node.below.get("*")
        for index, item in enumerate(value if below is not None else ()):
            yield from _keys(item, below or node, (*path, index))
    elif isinstance(value, dict):
        for key in list(value):
            below = node.below.get(key) or node.below.get("*")
            if below is None:
                continue
            if below.feature:
                yield Unbuilt((*path, key), f"`{key}`", below.feature)
                del value[key]
            else:
                yield from _keys(value[key], below, (*path, key))
