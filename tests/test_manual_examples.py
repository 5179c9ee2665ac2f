"""Examples in the pages can be copied: files pass `check`, and the program knows every command and option."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
import yaml
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.cli import app
from gateway.config.check import examine
from tests.config.reading import HASH, TODAY
from tests.support.certificates import SERVER, Authority
from tests.table import for_each

ROOT = Path(__file__).parent.parent
CARD_KEY = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`a2a-gateway ([^`]+)`")
_COMMANDS = re.compile(r"^\| command \| does \|\n(.*?)\n\n", re.DOTALL | re.MULTILINE)
_ROW = re.compile(r"^\| (`.*?) \| ", re.MULTILINE)
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
PROGRAM: Any = typer.main.get_command(app)


class Example(NamedTuple):
    """A block of a page, and the line at which it begins."""

    page: Path
    line: int
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.name}:{self.line}"


def examples(language: str) -> list[Example]:
    return [
        Example(page, text[: block.start()].count("\n") + 2, block[2])
        for page in PAGES
        for text in [page.read_text()]
        for block in _BLOCK.finditer(text)
        if block[1] == language
    ]


def completed(text: str, folder: Path) -> str:
    """A configuration with what a page leaves out: the version, agents that others name, and who may call."""
    tree = yaml.safe_load(text)
    named = {
        agent
        for tenant in tree.get("tenants", {}).values()
        for agent in (tenant["agents"] if isinstance(tenant, dict) else tenant)
    }
    missing = sorted(named - set(tree.get("agents", {})))
    if missing or "agents" not in tree:
        agents = "".join(f"  {name}: http://127.0.0.1:9001\n" for name in missing or ["echo"])
        text = text.replace("agents:\n", f"agents:\n{agents}", 1) if "agents" in tree else f"{text}agents:\n{agents}"
    if "version" not in tree:
        text = f"version: 1\n{text}"
    if "gateway" in tree and "auth" not in tree:
        text += f"auth: {{ api_keys: {{ batch: {{ sha256: {HASH}, tenant: acme }} }} }}\n"
        text += "" if "tenants" in tree else f"tenants: {{ acme: [{', '.join(tree.get('agents', ['echo']))}] }}\n"
    return text.replace("/srv/search", str(folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages name."""
    folder = tmp_path_factory.mktemp("examples")
    authority = Authority()
    shown = authority.issue("agents.example.com", usages=(SERVER,))
    for name, content in {
        "tls/tls.crt": shown.chain,
        "tls/tls.key": shown.key,
        "tls/clients.pem": authority.pem,
        "corp-ca.pem": authority.pem,
        "gateway.pem": shown.chain,
        "gateway.key": shown.key,
        "secrets/card-signing.pem": CARD_KEY,
        "keys/search.json": b'{"keys": [{"kty": "EC", "crv": "P-256", "kid": "search-1"}]}',
        "cards/scheduler.json": b'{"name": "Scheduler"}',
        "cards/diary.json": b'{"name": "Diary", "url": "sh diary.sh", "preferredTransport": "stdio"}',
    }.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return folder


@pytest.mark.parametrize("example", examples("yaml"), ids=lambda example: example.name)
def test_a_configuration_that_a_page_shows_passes_the_check(
    example: Example, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Variables of a command are looked up in the environment of the process itself.
    monkeypatch.setenv("SEARCH_TOKEN", "search")
    text = completed(example.text, folder)
    variables = {"BATCH_SHA256": HASH, "TRACKER_TOKEN": "tracker"}
    found = examine(folder / "gateway.yaml", variables, text=text, today=TODAY)
    assert found.errors == ()
    # Whether the program of an agent is installed here is no matter of the page.
    assert [one.fact for one in found.warnings if not one.fact.startswith("there is no program")] == []


def commands(text: str) -> Iterator[list[str]]:
    """The words of each call of the program in a block of shell."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = next((at for at, word in enumerate(words) if word in {"&&", "|", ";"}), len(words))
            if words[:1] == ["a2a-gateway"]:
                yield words[1:end]
            words = words[end + 1 :]


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that some words call, and those behind its name."""
    command = PROGRAM
    while hasattr(command, "commands"):
        assert words[0] in command.commands, f"there is no command {words[0]!r}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


@for_each("example", examples("sh"))
def test_the_program_takes_each_command_that_a_page_shows(example: Example) -> None:
    for words in commands(example.text):
        command, arguments = command_of(words)
        command.make_context(command.name, arguments)


def test_commands_are_found_in_the_pages() -> None:
    shown = [words for example in examples("sh") for words in commands(example.text)]
    assert {"serve", "check", "route", "send", "stdio", "init", "diff", "state"} <= {words[0] for words in shown}


def has_its_options(words: str) -> None:
    """The command that is called is there, and so is every option that is named."""
    command, rest = command_of(words.replace("[", "").replace("]", "").split())
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(_OPTION.findall(" ".join(rest))) <= known


@for_each("page", PAGES)
def test_the_program_knows_each_command_that_a_page_mentions(page: Path) -> None:
    for words in _INLINE.findall(page.read_text()):
        has_its_options(words)


def test_the_readme_lists_every_command_with_options_that_it_has() -> None:
    [table] = _COMMANDS.findall((ROOT / "docs" / "overview.md").read_text())
    listed = [words for row in _ROW.findall(table) for words in re.findall(r"`(.+?)`", row)]
    for words in listed:
        has_its_options(words.replace("\\|", " "))
    assert {words.split()[0] for words in listed} == set(PROGRAM.commands)


@for_each("example", examples("json"))
def test_json_examples_of_a_page_are_json(example: Example) -> None:
    text = example.text.strip()
    json.loads(text if text.startswith("{") else f"{{{text}}}")


@for_each("page", PAGES)
def test_a_page_names_no_file_and_no_module_that_is_gone(page: Path) -> None:
    # Decisions may name what they did away with.
    text = page.read_text().partition("## Decisions")[0]
    files = re.findall(r"`((?:gateway|tests|deploy|benchmarks|docs)/[\w./-]+)`", text)
    modules = [name.replace(".", "/") for name in re.findall(r"python -m ((?:tests|benchmarks|gateway)[\w.]*)", text)]
    gone = [name for name in files if not (ROOT / name).exists()]
    gone += [name for name in modules if not (ROOT / name).is_dir() and not (ROOT / f"{name}.py").is_file()]
    assert gone == []
