"""An agent's record of one call: the caller that it was told, and everything that may be an id, in any place."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

CONTEXTS = frozenset({"contextid", "sessionid"})
"""Names of a context in any generation and spelling, as `folded` gives them."""
_FREE = frozenset({"parts", "content", "text", "data", "messageid", "pagetoken"})
"""Members whose values are the client's own words, or the agent's, and no ids to anybody else."""
_REFERENCES = "reference_task_ids_compat"
"""The member of the metadata in which messages translated from 0.1 keep their references."""
SESSION = "x-a2a-session"


@dataclass(frozen=True, slots=True)
class Heard:
    """One call at one agent.

    Attributes:
        agent: Which one.
        tenant: The caller's tenant as the gateway tells the agent; likewise `subject`.
        texts: Possible ids: every text of the call that is not the client's own words.
        spoken: Those of `texts` that stand where a context has its place.
        session: The context as the gateway tells the agent of it beside the call; empty where it does not.
        names: Those that stand where 0.1 has tasks that their clients name, and contexts.
        said: All of it, for people.
    """

    agent: str
    tenant: str | None
    subject: str | None
    texts: tuple[str, ...]
    spoken: frozenset[str]
    session: str
    names: frozenset[str]
    said: str

    @property
    def contexts(self) -> frozenset[str]:
        """All contexts that are named."""
        return self.spoken | {self.session} if self.session else self.spoken


def over_http(
    agent: str, method: str, target: str, headers: Mapping[str, str], body: bytes, *, kept: bool = False
) -> Heard:
    """A call over HTTP.

    Args:
        target: Path and query as they came, percent escapes and all.
        headers: By their names in lower case.
        kept: Whether ids may stand in metadata, too.
    """
    path, _, query = target.partition("?")
    found: list[tuple[str, str]] = [("path", segment) for segment in unquote(path).split("/") if segment]
    found += [pair for pair in parse_qsl(query, keep_blank_values=True) if folded(pair[0]) not in _FREE]
    if body:
        found += _texts(json.loads(body, object_pairs_hook=_Pairs), kept=kept)
    return _heard(agent, headers, found, f"{method} {target} {body.decode()}")


def over_grpc(agent: str, method: str, metadata: Iterable[tuple[str, Any]], request: Any) -> Heard:
    """A call over gRPC.

    Args:
        request: As ProtoJSON.
    """
    headers = {name: str(value) for name, value in metadata}
    found = list(_texts(request, kept=False))
    return _heard(agent, headers, found, f"{method} {json.dumps(request)}")


def folded(name: str) -> str:
    """A name as somebody may read it who takes any spelling of it."""
    return name.lower().replace("_", "").replace("-", "").replace("\u212a", "k")


def _heard(agent: str, headers: Mapping[str, str], found: list[tuple[str, str]], said: str) -> Heard:
    naming = ("id", "sessionId", _REFERENCES)
    return Heard(
        agent,
        headers.get("x-a2a-tenant"),
        headers.get("x-a2a-subject"),
        texts=tuple(text for _, text in found),
        spoken=frozenset(text for name, text in found if folded(name).rpartition(".")[2] in CONTEXTS and text),
        session=unquote(headers.get(SESSION, "")),
        names=frozenset(text for name, text in found if text and name in naming),
        said=said,
    )


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, also of one that has a member twice."""


def _texts(value: Any, name: str = "", *, kept: bool) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, dict | _Pairs):
        pairs = list(value.items()) if isinstance(value, dict) else value
        wrapped = any(key == "jsonrpc" for key, _ in pairs)
        for key, inside in pairs:
            if folded(key) in _FREE or (key == "metadata" and not kept) or (wrapped and key == "id"):
                continue
            yield from _texts(inside, key, kept=kept)
    elif isinstance(value, list):
        for inside in value:
            yield from _texts(inside, name, kept=kept)
