"""Writes tests/messages.txt, every message text of gateway/: `python -m tests.messages`.

A message is a string of several words that is not documentation, a pattern or a query. So the list also has texts that
reach a reader through a variable, a table or a return value.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).parent / "messages.txt"

_NO_MESSAGES = frozenset(
    {"config/json_schema.py", "tasks/redis_scripts.py"}
    | {"demo/agents.py", "demo/fleet.py", "demo/grpc.py", "demo/stdio_agent.py", "demo/stage.py"}
)
"""Texts of the schema and of scripts; answers of the sample agents, and their configuration."""
_DOCUMENTED = frozenset(
    {"Option", "Argument", "callback", "command", "group", "_counter", "_histogram", "Sample", "Operation", "Setting"}
)
"""Calls whose texts are in docs/reference already."""
_NO_TEXT = frozenset(
    {"compile", "fullmatch", "match", "sub", "search", "execute", "executescript", "cast", "TypeVar", "Literal"}
    | {"strip", "lstrip", "rstrip", "split", "partition", "removeprefix", "removesuffix", "startswith", "endswith"}
)
_QUERY = re.compile(
    r"\s*(SELECT|INSERT|INTO|UPDATE|DELETE|CREATE|DROP|ALTER|PRAGMA|BEGIN|COMMIT|VACUUM|ATTACH|WITH RECURSIVE)\b|\n--"
)
_LONGEST = 800
"""Characters; longer texts are whole files that `init` and the demo write."""
_WORDS = re.compile(r"[A-Za-z}'`)\]],?:? [A-Za-z{'`(\[]")
_FORMAT = re.compile(r"%[-+0-9.]*[sdrgf]")


@dataclass(frozen=True, slots=True)
class Message:
    """A text of the code.

    Attributes:
        path: The module, relative to `gateway/`.
        maker: The function or class that is called with it, `-` where it is not an argument.
        text: With `{…}` for each value that is filled in.
    """

    path: str
    maker: str
    text: str

    @property
    def line(self) -> str:
        return f"  {self.maker}: {self.text}".replace("\r", "\\r").replace("\n", "\\n")


def template(node: ast.expr) -> str | None:
    """Return the text of a literal, an f-string or a sum of them, else None."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = template(node.left), template(node.right)
        return None if left is None and right is None else (left or "{…}") + (right or "{…}")
    return None


def _texts(node: ast.AST, maker: str) -> Iterator[tuple[str, str]]:
    """Yield the maker and the text of each message below a node, and of those in the values that a message shows."""
    if isinstance(node, ast.expr) and (text := template(node)) is not None:
        if _is_message(text):
            yield maker, _FORMAT.sub("{…}", text) if maker.startswith("logger.") else text
        for value in (each.value for each in ast.walk(node) if isinstance(each, ast.FormattedValue)):
            yield from _texts(value, maker)
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name not in _DOCUMENTED | _NO_TEXT:
            yield from _texts(node.func, maker)
            inner = ast.unparse(node.func) if name else maker
            for argument in (*node.args, *(each.value for each in node.keywords)):
                yield from _texts(argument, inner)
    elif not _is_docstring(node):
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.arg):
                yield from _texts(child, maker)


def _is_message(text: str) -> bool:
    return _WORDS.search(text) is not None and len(text) <= _LONGEST and _QUERY.match(text) is None


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def messages() -> list[Message]:
    """Return every message of the code, by module and in order."""
    found = []
    for path in sorted((ROOT / "gateway").rglob("*.py")):
        name = path.relative_to(ROOT / "gateway").as_posix()
        if name not in _NO_MESSAGES:
            found += [Message(name, maker, text) for maker, text in _texts(ast.parse(path.read_text()), "-")]
    return list(dict.fromkeys(found))


def listing() -> str:
    text, module = "", ""
    for each in messages():
        if each.path != module:
            module = each.path
            text += f"{module}\n"
        text += f"{each.line}\n"
    return text


if __name__ == "__main__":
    LIST.write_text(listing())
