"""References are filled in (`${…}`), and secrets are masked in messages.

`Interpolation` reads the environment and files. `is_secret` knows the paths whose values are credentials (hashes of
keys count: a weak key can be found from its hash). `Masks` hides them in everything that is printed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.config.agent import TokenEndpoint
from gateway.config.model import REMOVED_KEYS, ApiKey, Client, Config, Issuer, Mtls
from gateway.config.problem import KeyPath
from gateway.config.values import Part, every_part
from gateway.tasks.state_url import may_be_shown

MASK = "***"
_LONGEST_WORD = 20
LARGEST_VALUE = 256 * 1024
REFERENCE = re.compile(r"\$\$\{|\$\{((?:[^{}]|\{tenant\})*)\}|\$\{")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_ONLY_REFERENCE = re.compile(r"\$\{(?:[A-Za-z_][A-Za-z0-9_]*(?::-)?|file:(?:[^{}]|\{tenant\})*)\}")
_USERINFO = re.compile(r"(?<=://)[^/?#\s'\"]*@")
_KEY_LINE = re.compile(r"""(?<![^\s{,\[])["']?(?P<key>[A-Za-z0-9_*.-]+)["']?\s*:\s*(?=[^\s#])""")
_NAME_OF_OPERATOR = re.compile(r"[A-Za-z0-9._*:/-]{1,64}")
_COMMENT = re.compile(r"(?:^|\s)#")
_BLOCK_KEY = re.compile(r"""[\s-]*["']?([A-Za-z0-9_*.-]+)["']?\s*:(?:\s|$)""")
_SECRET_NAME = re.compile(
    r"sha256|token|secret|passw|passphrase|bearer|credential|api_?key|private|authorization|cookie|hmac|jwt",
    re.IGNORECASE,
)
_PLAIN_AUTH = frozenset({*Issuer.model_fields, *ApiKey.model_fields} - {"sha256", "tls"})
"""Keys under `auth` whose values may be shown; any other, an unknown one too, may be where a key was pasted."""
_PLAIN_TRUST = ["tls", "ca"]
_PLAIN_MTLS = frozenset(Mtls.model_fields)
_PLAIN_CLIENT = frozenset(Client.model_fields)
_PLAIN_NAMES = frozenset(
    {"tenant_claim", "api_keys", "block_private_networks", "token_url", "token_exchange", "client_auth"}
)
_PLAIN_OAUTH = frozenset(TokenEndpoint.model_fields) - {"client_secret", "tls"}
_CARD_SIGN = ["card", "sign"]
_FLAGS = ("true", "false")
# `every_part` finds all of them, because the module of `Config` imports theirs.
_PARTS: tuple[type[Part], ...] = (Config, *every_part())
_KEYS = frozenset(
    key for part in _PARTS for name, field in part.model_fields.items() for key in (name, field.alias or name)
)
_NAMED_AUTH = (["auth", "api_keys"], ["auth", "issuers"])
_CLIENTS = ["auth", "mtls", "clients"]
_HEADERS = frozenset({"upstream_auth", "header", "headers", "env"})


class _NotFilledIn(Exception):  # noqa: N818 - it becomes a problem
    """A reference cannot be filled in: fact and remedy."""


@dataclass(slots=True)
class Interpolation:
    """Fills `${VAR}`, `${VAR:-default}` and `${file:PATH}` in; `$${` stands for `${` itself.

    What is filled in is never read as YAML, nor for further references.

    Attributes:
        environ: The environment.
        files: The files that were read.
        absent: Those that could not be.
        used: The variables that references name.
    """

    environ: Mapping[str, str]
    files: dict[Path, bytes] = field(default_factory=dict)
    absent: set[Path] = field(default_factory=set)
    used: set[str] = field(default_factory=set)

    def fill(self, text: str, folder: Path) -> tuple[str, list[tuple[str, str]]]:
        """Return the text with every reference replaced, and what could not be: pairs of a fact and a remedy.

        Args:
            folder: Paths of `${file:…}` are relative to it.
        """
        faults: list[tuple[str, str]] = []

        def replace(found: re.Match[str]) -> str:
            if found[0] == "$${":
                return "${"
            try:
                return self._value(found[1], folder)
            except _NotFilledIn as refused:
                fact, remedy = refused.args
                faults.append((fact, remedy))
                return ""

        return REFERENCE.sub(replace, text), faults

    def _value(self, reference: str | None, folder: Path) -> str:
        if reference is None:
            remedy = "close it, write a reference without { inside, or write $${ for the text itself"
            raise _NotFilledIn("a ${ has no }", remedy)
        if reference.startswith("file:"):
            return self._file(reference[5:], folder)
        found = _VARIABLE.fullmatch(reference)
        if found is None:
            remedy = "write ${NAME}, ${NAME:-default}, ${file:PATH}, or $${ for the text itself"
            raise _NotFilledIn(f"${{{reference}}} is no reference", remedy)
        name, default = found[1], found[2]
        value = self.environ.get(name)
        self.used.add(name)
        if default is not None:
            return value or default
        if value is None:
            remedy = f"set {name}, or give a default: ${{{name}:-…}}"
            raise _NotFilledIn(f"the environment variable {name} is not set", remedy)
        return value

    def _file(self, written: str, folder: Path) -> str:
        path = folder / written
        try:
            if path not in self.files:
                if not path.is_file():
                    raise FileNotFoundError
                with path.open("rb") as stream:
                    self.files[path] = stream.read(LARGEST_VALUE + 1)
        except (OSError, ValueError) as error:
            if "\0" not in written:
                self.absent.add(path)
            if isinstance(error, FileNotFoundError):
                remedy = f"create it, or correct the path, which is relative to {folder}"
                raise _NotFilledIn(f"{written!r} is no file", remedy) from error
            reason = getattr(error, "strerror", "the path is malformed") or "it cannot be opened"
            raise _NotFilledIn(f"{written!r} cannot be read: {reason}", "let the gateway's user read it") from error
        data = self.files[path]
        if len(data) > LARGEST_VALUE:
            fact = f"{written!r} is larger than {LARGEST_VALUE // 1024} KiB"
            raise _NotFilledIn(fact, "name a file that holds one value")
        try:
            return data.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise _NotFilledIn(f"{written!r} is not UTF-8", "name a text file") from error


def is_secret(path: KeyPath, value: str | None = None) -> bool:
    """Return whether a value at this path is a credential, or stands where one may have been pasted.

    Args:
        value: The value at that place, if known: some places hold passwords only at times.
    """
    names = [step for step in path if isinstance(step, str)]
    if not names:
        return False
    if names[:2] == ["gateway", "state"]:
        return value is None or not may_be_shown(value)
    if names[:2] == ["auth", "mtls"]:
        if names[:3] == _CLIENTS:
            return len(names) < 5 or names[4] not in _PLAIN_CLIENT
        return len(names) < 3 or names[2] not in _PLAIN_MTLS
    if names[0] == "auth":
        return len(names) < 4 or (names[3] not in _PLAIN_AUTH and names[3:] != _PLAIN_TRUST)
    keys = _keys_of_format(names)
    if _is_plain_oauth(keys):
        return False
    if _CARD_SIGN in (keys[-2:], keys[-3:-1]):
        # `true` and `false` may be shown; a key may have been pasted in their place.
        return keys[-1] == "key" or (keys[-1] == "sign" and value not in (None, *_FLAGS))
    if any(name in _HEADERS for name in keys):
        return True
    return any(_SECRET_NAME.search(name) is not None and name not in _PLAIN_NAMES for name in keys)


def _is_plain_oauth(keys: Sequence[str]) -> bool:
    """Return whether the key is of a token endpoint and no secret."""
    place = keys.index("upstream_auth") + 1 if "upstream_auth" in keys else len(keys)
    if keys[place : place + 1] not in (["oauth2"], ["exchange"]):
        return False
    below = keys[place + 1 :]
    return below == _PLAIN_TRUST or (len(below) == 1 and below[0] in _PLAIN_OAUTH)


def is_unknown(path: KeyPath) -> bool:
    """Return whether a value stands below a key that is not of the format: it may be a misspelt `token`."""
    names = [step for step in path if isinstance(step, str)]
    for name in _keys_of_format(names) if names else ():
        if name in REMOVED_KEYS or name == "set":
            return False
        if name not in _KEYS:
            return True
    return False


def is_reference(text: str) -> bool:
    """Return whether the text is one reference without a default, which may be shown as it is written."""
    return _ONLY_REFERENCE.fullmatch(text) is not None


def _keys_of_format(names: Sequence[str]) -> list[str]:
    """Return the keys of the format in a path, without the names that operators give to agents, tenants and claims."""
    positions = {1} if names[0] in ("agents", "tenants") else {2} if names[:2] in _NAMED_AUTH else set()
    positions |= {3} if names[:3] == _CLIENTS else set()
    positions |= {number + 1 for number, name in enumerate(names) if name in ("by_tenant", "claim", "tenant_map")}
    return [
        name
        for number, name in enumerate(names)
        if number not in positions or _NAME_OF_OPERATOR.fullmatch(name) is None
    ]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one line: columns from 1, the end not included."""

    line: int
    start: int
    end: int


class Masks:
    """Hides secrets in source lines and messages.

    Args:
        written: The text in the file for each value that came by a reference.
        secret: Values of secret paths, from any source.
    """

    def __init__(self, written: Mapping[str, str], secret: Mapping[str, str]) -> None:
        # Longest first, so that a value that contains another is hidden whole.
        self._anywhere = sorted(
            ((value, shown) for value, shown in secret.items() if len(value) > 3), key=lambda pair: -len(pair[0])
        )
        self._quoted = [(f"'{value}'", f"'{shown}'") for value, shown in written.items() if value]

    def clean(self, text: str) -> str:
        """Return a message without secrets; a value that came by a reference is shown as the file writes it."""
        for value, shown in (*self._anywhere, *self._quoted):
            if value in text:
                text = text.replace(value, shown)
        return _USERINFO.sub(f"{MASK}@", text)


def quote(line: str, column: int, spans: Sequence[Span]) -> tuple[str, int]:
    """Return a source line, masked and without its comment, and the new place of the column."""
    line = _without_comment(line)
    pieces = {(span.start - 1, span.end - 1) for span in spans}
    pieces |= {(found.start(), found.end() - 1) for found in _USERINFO.finditer(line)}
    shown, caret, end = "", column, 0
    for start, stop in sorted(pieces):
        if start < end or start >= len(line):
            continue
        shown += line[end:start] + MASK
        if column > stop:
            caret += len(MASK) - (stop - start)
        elif column - 1 > start:
            caret -= column - 1 - start
        end = stop
    return shown + line[end:], caret


def _without_comment(line: str) -> str:
    # An old key may be kept in a comment.
    for found in _COMMENT.finditer(line):
        before = line[: found.start()]
        if before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
            return before
    return line


def guess(lines: Sequence[str], number: int) -> list[Span]:
    """Return the parts of a line that may be secret, if the text is no YAML: judged by names and indentation.

    Args:
        number: Of the line, from 1.
    """
    line = lines[number - 1]
    whole = [Span(number, len(line) - len(line.lstrip()) + 1, len(line) + 1)]
    before = "".join(lines[: number - 1])
    if before.count("{") + before.count("[") > before.count("}") + before.count("]"):
        # Indentation means nothing there.
        return whole
    ancestors = _ancestors(lines, number)
    below = is_secret(tuple(ancestors)) if ancestors else False
    spans = []
    first = _KEY_LINE.search(line)
    if first is not None and line[: first.start()].strip(" \t-"):
        # There is text before the key, so the key may be misplaced.
        return whole
    for found in _KEY_LINE.finditer(line):
        key = found["key"]
        path = (*ancestors, key)
        if is_secret(path) or is_unknown(path) or (_SECRET_NAME.search(key) is not None and key not in _PLAIN_NAMES):
            spans.append(Span(number, found.end() + 1, len(line) + 1))
            break
    # A value without a key may have lost it; a word or two can be shown.
    hidden = below or len(line.strip()) > _LONGEST_WORD
    if not spans and hidden and _KEY_LINE.search(line) is None and _BLOCK_KEY.match(line) is None:
        return whole
    return spans


def _ancestors(lines: Sequence[str], number: int) -> list[str]:
    """Keys of the block mappings that a line stands in, outermost first, by indentation alone."""
    indent = len(lines[number - 1]) - len(lines[number - 1].lstrip(" \t-"))
    keys: list[str] = []
    for line in reversed(lines[: number - 1]):
        here = len(line) - len(line.lstrip(" \t-"))
        key = _BLOCK_KEY.match(line)
        if here < indent and key is not None:
            keys.append(key[1])
            indent = here
        if indent == 0:
            break
    return keys[::-1]
