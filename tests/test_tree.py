"""The tree keeps its shape: package files and lock files."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
_FREE_RELATIVE = re.compile(r"\s*(?:Who|Whose|Whom|What|Whoever|Whatever|That|How)\b")
"""A first word that makes a docstring a clause instead of a noun or a sentence."""
_NOUN_FIRST = re.compile(r"(?:The|A|An|Whether|One|Where|Those|Each|All|Bytes|Whole|No|Its|This)\b")
_NAMED_BY_NO_SUBJECT = re.compile(r"test_(?:who|whose|whom|what|whoever|whatever|that|where|wherever|nobody|it)_")
_NAMED_BY_A_CLAUSE = re.compile(r" +(?:# |[a-z_][a-z_, *]*: )(?:Who|Whose|Whom|What|Whoever|Whatever|That|How) ")


def test_package_files_hold_a_docstring_only() -> None:
    for path in (ROOT / "gateway").rglob("__init__.py"):
        text = path.read_text()
        if path.parent.name == "gateway":
            # The version of the package is the one other thing.
            text = text.partition("\n__version__")[0]
        assert text.startswith('"""'), path
        assert text.rstrip().endswith('"""'), path
        assert text.count('"""') == 2, path


def test_no_docstring_begins_with_a_free_relative() -> None:
    """Docstrings name a thing or say what is done: "Return the owner of a task.", not "Whose a task is."."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {text.strip().splitlines()[0]}"
        for folder in ("gateway", "tests", "benchmarks", "deploy")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "node_modules" not in path.parts
        for line, text in docstrings(path)
        if _FREE_RELATIVE.match(text) is not None
    ]
    assert found == []


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    """As "Return the owner of a task.", not "The owner of a task."; a property may name what it is."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "gateway").rglob("*.py"))
        if path.name != "cli.py"  # the help of a command
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node)) is not None
        and _NOUN_FIRST.match(text) is not None
        and not any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)
    ]
    assert found == []


def test_no_attribute_or_comment_begins_with_a_free_relative() -> None:
    """As docstrings: "owner: The owner of the task.", not "owner: Whose the task is."."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{number}: {line.strip()}"
        for folder in ("gateway", "tests", "benchmarks", "deploy")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "node_modules" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _NAMED_BY_A_CLAUSE.match(line) is not None
    ]
    assert found == []


def test_no_name_of_a_test_begins_with_a_free_relative() -> None:
    """As "a_malformed_card_is_refused", not "what_is_no_card_is_refused"; "it" and "nobody" name no subject either."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno}: {node.name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "node_modules" not in path.parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _NAMED_BY_NO_SUBJECT.match(node.name) is not None
    ]
    assert found == []


def test_no_test_touches_a_private_member_of_another_object() -> None:
    """A test asserts a promise through a public surface. Libraries without one are named, each with its reason."""
    found = {
        f"{path.relative_to(ROOT).as_posix()}:{line}: {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if "node_modules" not in path.parts
        for line, name in private_members(path)
        if name not in _OF_LIBRARIES.get(path.relative_to(ROOT / "tests").as_posix(), ())
    }
    assert found == set()


_OF_LIBRARIES = {
    # Clients of SDKs keep their card and transport to themselves.
    "cards/test_serve_sdks.py": {"_transport", "_base", "_tenant"},
    "demo/test_fleet.py": {"_transport"},
    "e2e/test_mtls.py": {"_card"},
    "e2e/test_proxies_in_front.py": {"_card"},
    # SDKs read an error by it, without a server that sends it.
    "a2a/test_agent_error.py": {"_create_jsonrpc_error", "_handle_http_error"},
    # An agent waits until everybody listens to its queue.
    "conformance/agents/a2a_sdk_0_3.py": {"_getters", "_children"},
    # A host of asyncio's that is killed closes a pipe without a word.
    "commands/test_stdio_ending.py": {"_transport"},
    # OpenTelemetry keeps conventions that are not stable yet in such a module.
    "telemetry/test_tracing.py": {"_incubating"},
    # Transports that a test left open are found in uvloop.
    "loops.py": {"_transports", "_sock", "_accept_connection2"},
}
"""Private members of libraries that tests use, by file."""
_BY_NAME = {"setattr", "delattr", "getattr", "hasattr"}
"""Functions to which a member is named by a string, those of `monkeypatch` included."""
_PUBLIC_BY_CONVENTION = {"_replace", "_asdict", "_fields", "_make", "_exit"}
"""Of named tuples, and of `os`."""


def private_members(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each private name of another object: an attribute, an imported name, the string of a `setattr`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            names = [] if _is_of_itself(node.value) else [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Call) and _name_of(node.func) in _BY_NAME:
            strings = [each.value for each in node.args if isinstance(each, ast.Constant)]
            names = [name for each in strings if isinstance(each, str) for name in each.split(".")]
        else:
            continue
        for name in names:
            if re.match(r"_(?!_)", name) and name not in _PUBLIC_BY_CONVENTION:
                yield node.lineno, name


def _is_of_itself(owner: ast.expr) -> bool:
    return (isinstance(owner, ast.Name) and owner.id in {"self", "cls"}) or (
        isinstance(owner, ast.Call) and _name_of(owner.func) == "super"
    )


def _name_of(function: ast.expr) -> str:
    found = getattr(function, "attr", getattr(function, "id", ""))
    assert isinstance(found, str)
    return found


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each string that stands as a statement: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_tests_listed_for_both_edges_exist() -> None:
    """A path of `tests/edges` is a folder, a file, or a test in one."""
    listed = (ROOT / "tests/edges").read_text().split()
    assert len(listed) == len(set(listed))
    for each in listed:
        path, _, name = each.partition("::")
        assert (ROOT / path).exists(), each
        assert not name or f"def {name}(" in (ROOT / path).read_text(), each
    folders = {each.split("/")[1] for each in listed}
    assert folders >= {
        "wire",
        "routing",
        "identity",
        "ownership",
        "streams",
        "cards",
        "isolation",
        "translation",
        "e2e",
    }


def test_lock_files_pin_hashes_and_name_no_index() -> None:
    for name in (
        "requirements.lock",
        "requirements-dev.lock",
        "requirements-release.lock",
        "tests/legacy/requirements.lock",
    ):
        text = (ROOT / name).read_text()
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pins, name
        assert all("==" in pin and pin.endswith("\\") for pin in pins), name
        assert "://" not in text, name
        assert "--index" not in text, name
        assert "--extra-index" not in text, name
        assert "--find-links" not in text, name


def test_the_lock_file_of_javascript_pins_hashes_and_names_no_registry() -> None:
    text = (ROOT / "tests/javascript/package-lock.json").read_text()
    packages = {name: each for name, each in yaml.safe_load(text)["packages"].items() if name}
    assert packages
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in packages.values())
    assert "://" not in text


def test_the_development_lock_has_the_deployed_versions() -> None:
    deployed = _pins("requirements.lock")
    assert deployed.items() <= _pins("requirements-dev.lock").items()


def _pins(lock: str) -> dict[str, str]:
    lines = [line for line in (ROOT / lock).read_text().splitlines() if "==" in line]
    return {name: version.split()[0] for name, version in (line.split("==", 1) for line in lines)}
