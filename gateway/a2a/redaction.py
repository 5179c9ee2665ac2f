"""What must not be said: the addresses of upstreams, taken out of text that goes to clients."""

import re

from gateway.a2a.tree import MAX_DEPTH

REMOVED = "[removed]"
"""What stands where an address stood; it holds none itself."""

# Neither stands in honest text: what is put between words, and over a host.
_GAP = "\uffff"
_MARK = "\ufffe"
# Of text shorter than this there may be many: one pattern costs less there than a search for each host.
_SHORT = 32
# A URL ends at any of these; an address never holds one.
_BETWEEN_WORDS = re.compile(r"""([\s"'<>(){}|\\^`\uffff\ufffe]+)""")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class Redaction:
    """Finds and removes a set of upstream hosts.

    A host with a port, a dot or a colon is looked for anywhere, as part of a longer name too: rather a word too many
    than an address too few. A bare label such as `support` is also an honest word (a skill's id, a tag), so it counts
    only where an address stands: behind `//`, or before `:` and a digit. Letter case and percent-escapes do not hide a
    host. What is removed is the whole word around it, so a URL goes with its port and its path.

    The work is linear in the text's length and in the number of hosts, whatever the text: it is another party's.
    """

    def __init__(self, hosts: tuple[str, ...]) -> None:
        names = sorted({_fold(host.strip()).rstrip(".") for host in hosts} - {""}, key=lambda name: (len(name), name))
        anywhere: list[str] = []
        labels: list[str] = []
        # Shortest first: what holds a name that is looked for anywhere is found with it.
        for name in names:
            if "." not in name and ":" not in name:
                labels.append(name)
            elif not any(shorter in name for shorter in anywhere):
                anywhere.append(name)
        self._anywhere = tuple(anywhere)
        self._labels = tuple(labels)
        # One of these is in every text that names a host.
        self._needles = (*labels, *(name for name in anywhere if not any(label in name for label in labels)))
        self._label = _as_address(labels, "[^/@]")
        patterns = [*([self._label.pattern] if labels else []), *(re.escape(name) for name in anywhere)]
        self._any = re.compile("|".join(patterns)) if patterns else None
        self._label_in_a_word = _as_address(labels, f"[^/@{_GAP}]")

    def finds(self, text: str) -> bool:
        """Whether the text names one of the hosts."""
        return any(self._names(form) for form in _forms(text))

    def clean(self, text: str) -> str:
        """The text with every word that names a host replaced by `REMOVED`; cleaning it again changes nothing."""
        if not self.finds(text):
            return text
        if _BETWEEN_WORDS.search(text) is None:
            return REMOVED
        pieces = _BETWEEN_WORDS.split(text)
        words = pieces[::2]
        for form in _forms(_GAP.join(words)):
            marked = self._mark(form).split(_GAP)
            if len(marked) != len(words):
                # An escape stands for a gap, so that words cannot be told apart: then none of the text is kept.
                return REMOVED
            words = [REMOVED if _MARK in mark else word for word, mark in zip(words, marked, strict=True)]
        pieces[::2] = words
        cleaned = "".join(pieces)
        # An address can be spread over words by userinfo that holds spaces: then none of the text is kept either.
        return REMOVED if self.finds(cleaned) else cleaned

    def clean_value(self, value: object, depth: int = MAX_DEPTH) -> object:
        """A JSON value with every string in it cleaned; members whose name names a host go, and what is too deep."""
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, dict):
            return {
                name: self.clean_value(part, depth - 1)
                for name, part in value.items()
                if depth > 0 and isinstance(name, str) and not self.finds(name)
            }
        if isinstance(value, list):
            return [self.clean_value(part, depth - 1) for part in value if depth > 0]
        return value

    def _names(self, form: str) -> bool:
        if len(form) < _SHORT:
            return self._any is not None and self._any.search(form) is not None
        # A substring is looked for many times faster than a pattern, and most text holds none.
        for needle in self._needles:
            if needle in form:
                break
        else:
            return False
        return any(name in form for name in self._anywhere) or (
            any(label in form for label in self._labels) and self._label.search(form) is not None
        )

    def _mark(self, form: str) -> str:
        for name in self._anywhere:
            form = form.replace(name, _MARK)
        if any(label in form for label in self._labels):
            form = self._label_in_a_word.sub(_MARK, form)
        return form


def _as_address(labels: list[str], userinfo: str) -> re.Pattern[str]:
    one = "|".join(re.escape(label) for label in labels)
    # Each position is read a fixed number of times: userinfo ends at the next slash, a label starts a name.
    return re.compile(rf"//(?:{userinfo}*@)?(?:{one})(?!\.?[a-z0-9_-])|(?<![a-z0-9._-])(?:{one}):[0-9]")


def _forms(text: str) -> tuple[str, ...]:
    """The text as it is and without its escapes, both in one letter case."""
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
    # The two letters that stand for an i, but do not fold to it.
    return text.lower() if text.isascii() else text.replace("\u0130", "i").replace("\u0131", "i").casefold()
