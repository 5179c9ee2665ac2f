"""Examples of keys: values of the files of config/ and of the pages, all of them accepted by the gateway."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from gateway.config.model import Config
from gateway.config.secrets import Interpolation
from gateway.config.values import Part
from gateway.config.yaml import read

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "config" / "gateway.reference.yaml"
FILES = (REFERENCE, *sorted(path for path in (ROOT / "config").rglob("*.yaml") if path != REFERENCE))
AS_ROOT = """\
version: 1
agents:
  notes:
    backend: { stdio: { command: [python3, -m, http.server], uid: 1000 } }
"""
"""A file that is complete for a gateway that runs as root; any other refuses the key `uid`."""
_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


class AsWritten(Interpolation):
    """Leaves references as the file writes them, as an editor sees them."""

    def fill(self, text: str, folder: Path) -> tuple[str, list[tuple[str, str]]]:
        return text, []


def examples() -> dict[tuple[str, str], list[Any]]:
    """Return the values of each key, by the names of its mapping and of itself; the reference file comes first."""
    found: dict[tuple[str, str], list[Any]] = {}
    pages = sorted((ROOT / "docs").glob("*.md"))
    blocks = (block for page in pages for block in _BLOCK.findall(page.read_text()))
    for text in (*(path.read_text() for path in FILES), *blocks, AS_ROOT):
        for part, key, value in _values(Config, read(Path("gateway.yaml"), AsWritten({}), text).tree):
            found.setdefault((part, key), []).append(value)
    return found


def _values(part: type[Part], tree: object) -> Iterator[tuple[str, str, Any]]:
    if not isinstance(tree, dict):
        return  # It is the short form.
    for name, field in part.model_fields.items():
        key = field.alias or name
        if key not in tree:
            continue
        yield part.__name__, key, tree[key]
        if (below := _part_in(field.annotation)) is not None:
            for each in _members(field.annotation, tree[key]):
                yield from _values(below, each)


def _part_in(annotation: object) -> type[Part] | None:
    """Return the mapping that a type has in it."""
    if isinstance(annotation, type) and issubclass(annotation, Part):
        return annotation
    return next((found for each in get_args(annotation) if (found := _part_in(each)) is not None), None)


def _members(annotation: object, value: Any) -> list[Any]:
    """Return the mappings that a value has in it: one, those of a list, or those of a map by name."""
    if isinstance(value, list):
        return value
    return list(value.values()) if get_origin(annotation) is dict and isinstance(value, dict) else [value]
