"""The sanitized card of an agent: known members only, and no upstream host in any string.

It holds the members that all cards of an agent share, for every endpoint and every credential. Sanitizing costs time in
proportion to the agent's card, which is untrusted; serving the result costs almost none. So a card is sanitized when it
is fetched, never when it is requested.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gateway.a2a.card import CardInvalid, authorities, mended
from gateway.a2a.json import MAX_DEPTH, Tree

MOST_WORK = 16 * 1024 * 1024
"""Most hosts times characters that are searched for one card: 64 hosts in a card of 256 KiB; 10 to 350 ms."""

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
    """The operator's rules for an agent's card.

    Attributes:
        overrides: The operator's own values of whole top-level members; see `OVERRIDABLE`.
        secrets: Upstream hosts, with or without port, that must be removed.
        own: The gateway's own hosts, in lower case, with the port that its URLs show, if any; `*.` before a suffix
            stands for any host. They are kept, even if the agent names them as its own.
        name: The agent's name where its card has none.
    """

    overrides: Mapping[str, object] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class SanitizedCard:
    """The sanitized members of an agent's card; shared by many cards, so its trees must not change.

    Attributes:
        provider: `organization` and `url`, or None.
        streaming, push, history, extended: Its capabilities; None where the card does not state them.
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

    def bare(self, name: str, overrides: Mapping[str, object]) -> "SanitizedCard":
        """Return the card without the agent's own descriptions, for strangers; members that the operator sets stay."""
        empty = SanitizedCard()
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


def sanitize(card: Tree, discretion: Discretion) -> SanitizedCard:
    """Return the sanitized card of an agent.

    Members of a wrong type count as missing, and missing ones that a version requires get a default.

    Raises:
        CardInvalid: searching it for all the hosts that it names would cost more than `MOST_WORK`.
    """
    members, _ = mended(_with_overrides(card, discretion.overrides))
    cleaner = _Cleaner(members, (*discretion.secrets, *_addresses(card, discretion.own)))
    capabilities: Tree = members.get("capabilities") or {}
    extended = [capabilities.get("extendedAgentCard"), members.get("supportsAuthenticatedExtendedCard")]
    return SanitizedCard(
        name=cleaner.text(members.get("name")) or discretion.name,
        description=cleaner.text(members.get("description")),
        version=cleaner.text(members.get("version")),
        provider=_provider(members.get("provider"), cleaner),
        documentation_url=cleaner.link(members.get("documentationUrl")),
        icon_url=cleaner.link(members.get("iconUrl")),
        streaming=capabilities.get("streaming"),
        push=capabilities.get("pushNotifications"),
        history=capabilities.get("stateTransitionHistory"),
        extended=None if extended == [None, None] else any(extended),
        extensions=tuple(_extensions(capabilities.get("extensions") or (), cleaner)),
        input_modes=tuple(cleaner.texts(members.get("defaultInputModes"))) or _PLAIN,
        output_modes=tuple(cleaner.texts(members.get("defaultOutputModes"))) or _PLAIN,
        skills=tuple(_skill(skill, cleaner) for skill in members.get("skills") or ()),
    )


# ---- Hosts to remove -------------------------------------------------------------------------------------------------


def _addresses(card: Tree, own: tuple[str, ...]) -> list[str]:
    """Return the hosts, with and without port, of the card's own interfaces: upstream hosts like the file's."""
    hosts: dict[str, None] = {}
    for place in authorities(card):
        host, port = _split(place)
        # A URL that cannot be dialled is no address.
        if len(host) > _LONGEST_HOST or not place.isprintable():
            continue
        # The gateway's own stay, or a rebuilt card would lose them; behind its host another port is an agent's.
        if not _is_own(host, None, own):
            hosts[host] = None
        # A host with a dot is found with every port.
        if port is not None and (host not in hosts or "." not in host.rstrip(".")) and not _is_own(host, port, own):
            hosts[place] = None
    return list(hosts)


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


# ---- Strings -------------------------------------------------------------------------------------------------------


class _Cleaner:
    """Removes hosts from strings; all strings are searched at once, when it is made."""

    def __init__(self, members: Tree, hosts: tuple[str, ...]) -> None:
        redaction = Redaction(hosts)
        strings = dict.fromkeys(_strings(members.get(member) for member in OVERRIDABLE))
        length = sum(map(len, strings)) + len(strings)
        if redaction.breadth * length > MOST_WORK:
            raise CardInvalid(f"{redaction.breadth} hosts to look for in {length} characters")
        self._replaced = redaction.replacements(strings)

    def names_host(self, text: str) -> bool:
        return text in self._replaced

    def text(self, value: str | None) -> str:
        return "" if value is None else self._replaced.get(value, value)

    def texts(self, value: list[str] | None) -> list[str]:
        return [self._replaced.get(text, text) for text in value or ()]

    def link(self, value: str | None) -> str | None:
        # Browsers open these: no javascript:, no file:, no credentials, no invisible characters.
        if value is None or _LINK.fullmatch(value) is None or not value.isprintable():
            return None
        return None if self.names_host(value) else value

    def value(self, value: object, depth: int = MAX_DEPTH) -> object:
        """Return a JSON value with clean strings, without members that have a host in their name, or are too deep."""
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
    """Yield every string of some JSON values, names of members included."""
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


# ---- Members -------------------------------------------------------------------------------------------------------


def _with_overrides(card: Tree, overrides: Mapping[str, object]) -> Tree:
    own = {name: value for name, value in overrides.items() if name in OVERRIDABLE}
    members = {**card, **own}
    # Two spellings of one flag: the operator's value, in either, must override the agent's in the other.
    if "supportsAuthenticatedExtendedCard" in own and "capabilities" not in own:
        members["capabilities"] = _without(card.get("capabilities"), "extendedAgentCard")
    elif "capabilities" in own and "supportsAuthenticatedExtendedCard" not in own:
        members.pop("supportsAuthenticatedExtendedCard", None)
    return members


def _without(value: object, member: str) -> Tree:
    return {name: part for name, part in value.items() if name != member} if isinstance(value, dict) else {}


def _extensions(extensions: Iterable[Tree], cleaner: _Cleaner) -> Iterator[Tree]:
    for extension in extensions:
        # The URI is the extension's identity: one that names the upstream cannot be changed, so the entry goes.
        if not cleaner.names_host(extension["uri"]):
            entry = {name: cleaner.value(extension[name]) for name in _EXTENSION if extension.get(name) is not None}
            yield {"uri": extension["uri"], **entry}


_EXTENSION = ("description", "required", "params")


def _provider(provider: Tree | None, cleaner: _Cleaner) -> Tree | None:
    if provider is None:
        return None
    # Both members are required from 0.2 on, so a URL that must go leaves an empty one.
    return {"organization": cleaner.text(provider.get("organization")), "url": cleaner.link(provider.get("url")) or ""}


def _skill(skill: Tree, cleaner: _Cleaner) -> Tree:
    """Return a skill without its own security: only the gateway states requirements for callers."""
    own = cleaner.text(skill["id"])
    name = skill.get("name")
    cleaned: Tree = {
        "id": own,
        "name": own if name is None else cleaner.text(name),
        "description": cleaner.text(skill.get("description")),
        "tags": cleaner.texts(skill.get("tags")),
    }
    for member in ("examples", "inputModes", "outputModes"):
        if texts := cleaner.texts(skill.get(member)):
            cleaned[member] = texts
    return cleaned


# ---- Upstream hosts in text ------------------------------------------------------------------------------------------

REMOVED = "[removed]"
"""Replaces an address; it contains none itself."""

# A URL ends at any of these; an address never holds one.
_BETWEEN_WORDS = re.compile(r"""([\s"'<>(){}|\\^`]+)""")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class Redaction:
    """Finds and removes upstream hosts.

    A host with a port, a dot or a colon is searched everywhere, also inside longer names: false positives are preferred
    to a leaked address. A bare label such as `support` is also an ordinary word (a skill's id, a tag), so it counts
    only in the position of an address: behind `//`, or before `:` and a digit. Letter case and percent-escapes do not
    hide a host.

    The whole word around it is removed, so a URL is removed with its port and path. The work is linear in the length of
    all texts times `breadth` for any text, because the texts are untrusted.

    Attributes:
        breadth: The number of names that are looked for.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        names = sorted({_fold(host.strip()).rstrip(".") for host in hosts} - {""}, key=lambda name: (len(name), name))
        anywhere: list[str] = []
        labels: list[str] = []
        # Shortest first: a name that contains a shorter one that is searched everywhere is found with it.
        for name in names:
            if "." not in name and ":" not in name:
                labels.append(name)
            elif not any(shorter in name for shorter in anywhere):
                anywhere.append(name)
        self._anywhere = anywhere
        self._labels = labels
        self.breadth = len(anywhere) + len(labels)
        # In a word, which is short, one pattern is faster than a search for each name; in a long text it is slower.
        self._in_word = re.compile("|".join(map(re.escape, (*anywhere, *labels))) or "(?!)")
        one = "|".join(map(re.escape, labels))
        # Each position is read a fixed number of times: userinfo ends at the next slash, a label starts a name.
        self._address = re.compile(rf"//(?:[^/@]*@)?(?:{one})(?!\.?[a-z0-9_-])|(?<![a-z0-9._-])(?:{one}):[0-9]")

    def finds(self, text: str) -> bool:
        """Return whether the text names one of the hosts."""
        return any(self._names(form) for form in _forms(text))

    def _names(self, form: str) -> bool:
        if "." not in form and ":" not in form and "//" not in form:
            # Every address has one of these, and few other words do.
            return False
        # Searching a substring is many times faster than a pattern, and most text holds no address.
        return any(map(form.__contains__, self._anywhere)) or (
            any(map(form.__contains__, self._labels)) and self._address.search(form) is not None
        )

    def clean(self, text: str) -> str:
        """Return the text with `REMOVED` for every word that names a host; cleaning it again changes nothing."""
        if not self.finds(text):
            return text
        pieces = _BETWEEN_WORDS.split(text)
        pieces[::2] = [REMOVED if self._is_in(word) and self.finds(word) else word for word in pieces[::2]]
        cleaned = "".join(pieces)
        # An address may span several words, if its userinfo holds spaces.
        return REMOVED if self.finds(cleaned) else cleaned

    def _is_in(self, word: str) -> bool:
        """Return whether a word may name one of the hosts."""
        return any(self._in_word.search(form) for form in _forms(word))

    def replacements(self, texts: Iterable[str]) -> dict[str, str]:
        """Return the replacement of each text that names a host; other texts are not in it."""
        distinct = dict.fromkeys(texts)
        # All together first: most cards name no host.
        if not self.finds("\n".join(distinct)):
            return {}
        return {text: cleaned for text in distinct if (cleaned := self.clean(text)) != text}


def _forms(text: str) -> tuple[str, ...]:
    """Return the text as it is and without its escapes, both in one letter case."""
    folded = _fold(text)
    if "%" not in text:
        return (folded,)
    raw = text.encode(errors="replace")
    plain = _without_escapes(raw)
    if b"%" in plain:
        # Twice: a URL inside another URL's query is escaped once more.
        plain = _without_escapes(plain)
    return (folded,) if plain == raw else (folded, _fold(plain.decode(errors="replace")))


def _without_escapes(raw: bytes) -> bytes:
    parts = _ESCAPE.split(raw)
    parts[1::2] = [_BYTES[digits] for digits in parts[1::2]]
    return b"".join(parts)


_BYTES = {
    (high + low).encode(): bytes.fromhex(high + low)
    for high in "0123456789abcdefABCDEF"
    for low in "0123456789abcdefABCDEF"
}


def _fold(text: str) -> str:
    # The two letters that look like an i but do not fold to it.
    return text.lower() if text.isascii() else text.replace("\u0130", "i").replace("\u0131", "i").casefold()
