"""The environments of the matrix can be made again, and the drivers of both languages do the same."""

import ast
import json
import re
from pathlib import Path

HERE = Path(__file__).parent


def test_lock_files_pin_hashes_and_name_no_index() -> None:
    wanted = sorted(path.stem for path in (HERE / "environments").glob("*.in"))
    locks = sorted((HERE / "environments").glob("*.lock"))
    assert [path.stem for path in locks] == wanted
    for path in locks:
        text = path.read_text()
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert all("==" in pin and pin.endswith("\\") for pin in pins), path
        assert "://" not in text, path


def test_the_lock_file_of_javascript_pins_hashes_and_names_no_registry() -> None:
    text = (HERE / "javascript" / "package-lock.json").read_text()
    packages = [each for name, each in json.loads(text)["packages"].items() if name]
    assert packages
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in packages)
    assert "://" not in text


def test_the_drivers_of_both_languages_do_the_same_operations() -> None:
    tree = ast.parse((HERE / "clients" / "driving.py").read_text())
    [operations] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Operations"]
    of_python = [node.name for node in operations.body if isinstance(node, ast.AsyncFunctionDef)]
    script = (HERE / "javascript" / "driving.mjs").read_text()
    table = script[script.index("const OPERATIONS = {") : script.index("\n};", script.index("const OPERATIONS = {"))]
    of_javascript = re.findall(r"^  (\w+)(?:,$|: )", table, re.MULTILINE)
    assert [name for name in of_python if not name.startswith("_")] == of_javascript
