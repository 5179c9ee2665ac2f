"""Remove the addresses of upstreams from text that goes to clients."""

import re
from collections.abc import Iterable

REMOVED = "[removed]"
"""Replaces an address; it contains none itself."""

# None of them stands in honest text: what is put between words, over a host, and between texts.
_GAP = "\uffff"
_MARK = "\ufffe"
_END = "\ufdd0"
# A URL ends at any of these; an address never holds one.
_BETWEEN_WORDS = re.compile(r"""([\s"'<>(){}|\\^`\ufdd0\uffff\ufffe]+)""")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class Redaction:
    """Finds and removes upstream hosts.

    A host with a port, a dot or a colon is looked for anywhere, as part of a longer name too: rather a word too many
    than an address too few. A bare label such as `support` is also an honest word (a skill's id, a tag), so it counts
    only where an address stands: behind `//`, or before `:` and a digit. Letter case and percent-escapes do not hide a
    host. What is removed is the whole word around it, so a URL goes with its port and its path.

    The work is linear in the length of all texts times `breadth`, whatever the texts: they are another party's.

    Attributes:
        breadth: The number of names that are looked for.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
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
        self.breadth = len(anywhere) + len(labels)
        # An address may be spread over words by userinfo that holds spaces, but never over two texts.
        self._label = _as_address(labels, f"[^/@{_END}]")
        self._label_in_a_word = _as_address(labels, f"[^/@{_GAP}]")

    def finds(self, text: str) -> bool:
        """Return whether the text names one of the hosts."""
        return any(self._names(form) for form in _forms(text))

    def clean(self, text: str) -> str:
        """Return the text with `REMOVED` for every word that names a host; cleaning it again changes nothing."""
        return self.replacements((text,)).get(text, text)

    def replacements(self, texts: Iterable[str]) -> dict[str, str]:
        """Return the replacement of each text that names a host; other texts are not in it.

        Searching all texts together costs much less than one after the other.
        """
        distinct = list(dict.fromkeys(texts))
        whole = _END.join(distinct)
        if not self.finds(whole):
            return {}
        cleaned = self._without_words(whole)
        if self.finds(cleaned):
            cleaned = self._without_texts(cleaned)
        found = cleaned.split(_END)
        if len(found) != len(distinct):
            # One of them holds what stands between them, or an escape for it: then they cannot be told apart.
            return dict.fromkeys(distinct, REMOVED)
        return {text: new for text, new in zip(distinct, found, strict=True) if new != text}

    def _without_words(self, whole: str) -> str:
        """Return the texts with `REMOVED` for each word that names a host."""
        pieces = _BETWEEN_WORDS.split(whole)
        words = pieces[::2]
        for form in _forms(_GAP.join(words)):
            marked = self._mark(form, self._label_in_a_word).split(_GAP)
            if len(marked) != len(words):
                # An escape stands for a gap, so that words cannot be told apart: then no text is kept.
                return REMOVED
            words = [REMOVED if _MARK in mark else word for word, mark in zip(words, marked, strict=True)]
        pieces[::2] = words
        return "".join(pieces)

    def _without_texts(self, whole: str) -> str:
        """Return the texts with `REMOVED` for each that still names a host."""
        texts = whole.split(_END)
        for form in _forms(whole):
            marked = self._mark(form, self._label).split(_END)
            if len(marked) != len(texts):
                return REMOVED
            texts = [REMOVED if _MARK in mark else text for text, mark in zip(texts, marked, strict=True)]
        return _END.join(texts)

    def _names(self, form: str) -> bool:
        # A substring is looked for many times faster than a pattern, and most text holds none.
        return any(name in form for name in self._anywhere) or (
            any(label in form for label in self._labels) and self._label.search(form) is not None
        )

    def _mark(self, form: str, address: re.Pattern[str]) -> str:
        for name in self._anywhere:
            form = form.replace(name, _MARK)
        if any(label in form for label in self._labels):
            form = address.sub(_MARK, form)
        return form


def _as_address(labels: list[str], userinfo: str) -> re.Pattern[str]:
    one = "|".join(re.escape(label) for label in labels)
    # Each position is read a fixed number of times: userinfo ends at the next slash, a label starts a name.
    return re.compile(rf"//(?:{userinfo}*@)?(?:{one})(?!\.?[a-z0-9_-])|(?<![a-z0-9._-])(?:{one}):[0-9]")


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
    # The two letters that stand for an i, but do not fold to it.
    return text.lower() if text.isascii() else text.replace("\u0130", "i").replace("\u0131", "i").casefold()
