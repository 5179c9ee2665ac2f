"""What must not be said: the addresses of upstreams, taken out of text that goes to clients."""

import re
from urllib.parse import unquote

from gateway.a2a.tree import MAX_DEPTH

REMOVED = "[removed]"
"""What stands where an address stood; it holds none itself."""

# A URL ends at any of these; an address never holds one.
_WORD = re.compile(r"""[^\s"'<>(){}|\\^`]+""")


class Redaction:
    """Finds and removes a set of upstream hosts.

    A host with a port, a dot or a colon is looked for anywhere, as part of a longer name too: rather a word too many
    than an address too few. A bare label such as `support` is also an honest word (a skill's id, a tag), so it counts
    only where an address stands: behind `//`, or before `:` and a digit. Letter case and percent-escapes do not hide a
    host. What is removed is the whole word around it, so a URL goes with its port and its path.
    """

    def __init__(self, hosts: tuple[str, ...]) -> None:
        names = sorted({host.strip().lower().rstrip(".") for host in hosts} - {""})
        patterns = []
        for name in names:
            exact = re.escape(name)
            if "." in name or ":" in name:
                patterns.append(exact)
            else:
                patterns.append(rf"//(?:[^/@]*@)?{exact}(?!\.?[a-z0-9_-])")
                patterns.append(rf"(?<![a-z0-9._-]){exact}:[0-9]")
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE) if patterns else None

    def finds(self, text: str) -> bool:
        """Whether the text names one of the hosts."""
        if self._pattern is None:
            return False
        if self._pattern.search(text) is not None:
            return True
        return "%" in text and self._pattern.search(_plain(text)) is not None

    def clean(self, text: str) -> str:
        """The text with every word that names a host replaced by `REMOVED`; cleaning it again changes nothing."""
        if not self.finds(text):
            return text
        cleaned = _WORD.sub(lambda word: REMOVED if self.finds(word[0]) else word[0], text)
        # An address can be spread over words by userinfo that holds spaces: then none of the text is kept.
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


def _plain(text: str) -> str:
    # Twice: a URL inside another URL's query is escaped once more.
    return unquote(unquote(text, errors="replace"), errors="replace")
