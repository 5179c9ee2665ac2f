"""What an agent says of itself, as clients may read it: known members only, and no upstream host in any string.

A `Portrait` is what is the same on all cards of an agent, wherever it is called and whatever callers must show. To
paint one costs work in proportion to the agent's card, which is another party's; to make a card of it costs next to
none. So it is painted when a card is read, never when one is asked for.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gateway.a2a.card import CardInvalid, authorities
from gateway.a2a.json import MAX_DEPTH, Tree
from gateway.a2a.redaction import Redaction

MOST_WORK = 16 * 1024 * 1024
"""Most hosts times characters that are searched for one portrait: 64 hosts in a card of 256 KiB; 30 to 70 ms."""

OVERRIDABLE = frozenset(
    {
        "name", "description", "version", "provider", "documentationUrl", "iconUrl", "capabilities", "skills",
        "defaultInputModes", "defaultOutputModes", "supportsAuthenticatedExtendedCard",
    }
)  # fmt: skip
"""Members that an operator may set; the others are computed, and setting them has no effect."""

_PLAIN = ("text/plain",)


@dataclass(frozen=True, slots=True)
class Discretion:
    """What the operator decides of an agent's card.

    Attributes:
        overrides: The operator's own values of whole top-level members; see `OVERRIDABLE`.
        secrets: Upstream hosts, with or without port, that must not be seen.
        own: Where the gateway itself is: hosts in lower case with the port that its URLs show, if any; `*.` before a
            suffix stands for any host. They may be seen, although an agent may name them as its own.
        name: What the agent is called where its card does not say.
    """

    overrides: Mapping[str, object] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Portrait:
    """What an agent says of itself; shared by many cards, so its trees must not change.

    Attributes:
        provider: `organization` and `url`, or None.
        streaming, push, history, extended: What it says it can do; None where it says nothing.
    """

    name: str = ""
    description: str = ""
    version: str = ""
    provider: Tree | None = None
    documentation_url: str | None = None
    icon_url: str | None = None
    streaming: bool | None = None
    push: bool | None = None
    history: bool | None = None
    extended: bool | None = None
    extensions: tuple[Tree, ...] = ()
    input_modes: tuple[str, ...] = _PLAIN
    output_modes: tuple[str, ...] = _PLAIN
    skills: tuple[Tree, ...] = ()

    def bare(self, name: str, overrides: Mapping[str, object]) -> "Portrait":
        """Only how to call the agent, and what the operator sets: what a stranger sees of a customer's own agent."""
        empty = Portrait()
        return replace(
            self,
            name=self.name if "name" in overrides else name,
            **{own: getattr(empty, own) for own, member in _PERSONAL.items() if member not in overrides},
        )


_PERSONAL = {
    "description": "description",
    "version": "version",
    "provider": "provider",
    "documentation_url": "documentationUrl",
    "icon_url": "iconUrl",
    "skills": "skills",
}


def paint(card: Tree, discretion: Discretion) -> Portrait:
    """The portrait of an agent, from its card.

    Members of a wrong type count as missing, and missing ones that a generation requires get a default, so any tree
    will do.

    Raises:
        CardInvalid: it names so many hosts, in so long a card, that searching it for them were more than `MOST_WORK`.
    """
    said = _said(card, discretion.overrides)
    cleaner = _Cleaner(said, (*discretion.secrets, *_addresses(card, discretion.own)))
    told = said.get("capabilities")
    capabilities: Tree = told if isinstance(told, dict) else {}
    return Portrait(
        name=cleaner.text(said.get("name")) or discretion.name,
        description=cleaner.text(said.get("description")),
        version=cleaner.text(said.get("version")),
        provider=_provider(said.get("provider"), cleaner),
        documentation_url=cleaner.link(said.get("documentationUrl")),
        icon_url=cleaner.link(said.get("iconUrl")),
        streaming=_flag(capabilities.get("streaming")),
        push=_flag(capabilities.get("pushNotifications")),
        history=_flag(capabilities.get("stateTransitionHistory")),
        extended=_extended(capabilities, said.get("supportsAuthenticatedExtendedCard")),
        extensions=tuple(_extensions(capabilities.get("extensions"), cleaner)),
        input_modes=tuple(cleaner.texts(said.get("defaultInputModes"))) or _PLAIN,
        output_modes=tuple(cleaner.texts(said.get("defaultOutputModes"))) or _PLAIN,
        skills=tuple(_skills(said.get("skills"), cleaner)),
    )


# ---- Whose addresses -----------------------------------------------------------------------------------------------


def _addresses(card: Tree, own: tuple[str, ...]) -> list[str]:
    """Hosts, with and without port, that the card's own interfaces name: no less the agent's than the file's are."""
    found: dict[str, None] = {}
    for place in authorities(card):
        host, port = _split(place)
        # What cannot be dialled is no address.
        if len(host) > _LONGEST_HOST or not place.isprintable():
            continue
        # The gateway's own stay, or a rebuilt card would lose them; behind its host another port is an agent's.
        if not _is_own(host, None, own):
            found[host] = None
        # Whoever looks for a host with a dot finds it with every port.
        if port is not None and (host not in found or "." not in host.rstrip(".")) and not _is_own(host, port, own):
            found[place] = None
    return list(found)


def _is_own(host: str, port: str | None, own: tuple[str, ...]) -> bool:
    for place in own:
        pattern, at = _split(place)
        if port not in (None, at):
            continue
        if host == pattern or (pattern.startswith("*.") and host.endswith(pattern[1:])):
            return True
    return False


def _split(place: str) -> tuple[str, str | None]:
    found = _PORT.search(place)
    return (place, None) if found is None else (place[: found.start()], found[0])


_LONGEST_HOST = 253  # RFC 1035: nothing longer can be dialled
_PORT = re.compile(r":[0-9]*\Z")


# ---- Which words ---------------------------------------------------------------------------------------------------


class _Cleaner:
    """Gives strings as clients may read them; all strings are searched at once, when it is made."""

    def __init__(self, said: Tree, hosts: tuple[str, ...]) -> None:
        redaction = Redaction(hosts)
        strings = dict.fromkeys(_strings(said.get(member) for member in OVERRIDABLE))
        length = sum(map(len, strings)) + len(strings)
        if redaction.breadth * length > MOST_WORK:
            raise CardInvalid(f"{redaction.breadth} hosts to look for in {length} characters")
        self._replaced = redaction.replacements(strings)

    def names_host(self, text: str) -> bool:
        return text in self._replaced

    def text(self, value: object) -> str:
        return self._replaced.get(value, value) if isinstance(value, str) else ""

    def texts(self, value: object) -> list[str]:
        if not isinstance(value, list):
            return []
        return [self._replaced.get(text, text) for text in value if isinstance(text, str)]

    def link(self, value: object) -> str | None:
        # These are clicked and loaded by people's browsers: no javascript:, no file:, no credentials, nothing unseen.
        if not isinstance(value, str) or _LINK.fullmatch(value) is None or not value.isprintable():
            return None
        return None if self.names_host(value) else value

    def value(self, value: object, depth: int = MAX_DEPTH) -> object:
        """A JSON value with every string in it cleaned; members whose name names a host go, and what is too deep."""
        if isinstance(value, str):
            return self._replaced.get(value, value)
        if isinstance(value, dict):
            return {
                name: self.value(part, depth - 1)
                for name, part in value.items()
                if depth > 0 and isinstance(name, str) and not self.names_host(name)
            }
        if isinstance(value, list):
            return [self.value(part, depth - 1) for part in value if depth > 0]
        return value


def _strings(values: Iterable[object]) -> Iterator[str]:
    """Every string of some JSON values, names of members included."""
    left: list[object] = list(values)
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += value.keys()
            left += value.values()


_LINK = re.compile(r"https?://[^\s/?#@\\]+(?:[/?#][^\s\\]*)?", re.IGNORECASE | re.ASCII)


# ---- What the agent and the operator say ---------------------------------------------------------------------------


def _said(card: Tree, overrides: Mapping[str, object]) -> Tree:
    own = {name: value for name, value in overrides.items() if name in OVERRIDABLE}
    said = {**card, **own}
    # Two spellings of one flag: the operator's word, in either, must silence the agent's in the other.
    if "supportsAuthenticatedExtendedCard" in own and "capabilities" not in own:
        said["capabilities"] = _without(card.get("capabilities"), "extendedAgentCard")
    elif "capabilities" in own and "supportsAuthenticatedExtendedCard" not in own:
        said.pop("supportsAuthenticatedExtendedCard", None)
    return said


def _without(value: object, member: str) -> Tree:
    return {name: part for name, part in value.items() if name != member} if isinstance(value, dict) else {}


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _extended(capabilities: Tree, legacy: object) -> bool | None:
    """Whether there is an extended card, in either spelling; None where nothing is said of it."""
    flags = [flag for flag in (capabilities.get("extendedAgentCard"), legacy) if isinstance(flag, bool)]
    return any(flags) if flags else None


def _extensions(value: object, cleaner: _Cleaner) -> Iterator[Tree]:
    for said in value if isinstance(value, list) else ():
        # The URI is the extension's identity: one that names the upstream cannot be changed, so the entry goes.
        if not isinstance(said, dict) or not isinstance(said.get("uri"), str) or cleaner.names_host(said["uri"]):
            continue
        entry: Tree = {"uri": said["uri"]}
        for name, kind in (("description", str), ("required", bool), ("params", dict)):
            if isinstance(said.get(name), kind):
                entry[name] = cleaner.value(said[name])
        yield entry


def _provider(value: object, cleaner: _Cleaner) -> Tree | None:
    if not isinstance(value, dict):
        return None
    # Both members are required from 0.2 on, so a URL that must go leaves an empty one.
    return {"organization": cleaner.text(value.get("organization")), "url": cleaner.link(value.get("url")) or ""}


def _skills(value: object, cleaner: _Cleaner) -> Iterator[Tree]:
    """Skills without their own security: what is asked of callers is the gateway's to say."""
    for said in value if isinstance(value, list) else ():
        if not isinstance(said, dict) or not isinstance(said.get("id"), str):
            continue
        own = cleaner.text(said["id"])
        skill: Tree = {"id": own, "name": own, "description": cleaner.text(said.get("description"))}
        if isinstance(said.get("name"), str):
            skill["name"] = cleaner.text(said["name"])
        skill["tags"] = cleaner.texts(said.get("tags"))
        for name in ("examples", "inputModes", "outputModes"):
            if texts := cleaner.texts(said.get(name)):
                skill[name] = texts
        yield skill
