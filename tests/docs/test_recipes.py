"""The recipes for agents and clients, run from their pages: an agent, the gateway in front, a client.

What is not installed for every run is skipped: `python -m tests.docs.recipes` installs it.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks, commands, free_ports, on_ports, terminal
from tests.docs.recipes import PAGES, environment, installs

AGENTS, CLIENTS = ({block.title: block for block in blocks(page)} for page in PAGES)
KEY = "k" * 40
MODULES = ROOT / "tests/javascript/node_modules"


def python_of(title: str) -> str:
    """The Python of a recipe's environment, or that of the tests if it has the packages."""
    if title == "a2a_sdk_client.py":
        return sys.executable
    python = environment(title) / "bin/python"
    if not python.exists():
        pytest.skip(f"{title} needs packages of its own: python -m tests.docs.recipes")
    return str(python)


@contextmanager
def site(folder: Path, agent: str, python: str) -> Iterator[tuple[dict[str, str], dict[str, int]]]:
    """An agent and the gateway in front: the environment of commands, and the ports in place of a page's."""
    tools = folder / "tools"
    tools.mkdir(parents=True)
    (folder / "said").touch()
    configuration = AGENTS["gateway.yaml"].text
    addresses = "gateway: { listen: '127.0.0.1:8080', admin: '127.0.0.1:9090', listen_grpc: '127.0.0.1:8081' }\n"
    # 9002 is the model's.
    ports = free_ports(f"{addresses} 9001 9002")
    environ = commands(tools) | {
        "KEY": KEY,
        "APP_SHA256": hashlib.sha256(KEY.encode()).hexdigest(),
        "OPENAI_API_KEY": "unused",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{ports['9002']}/v1",
    }
    (folder / "gateway.yaml").write_text(on_ports(configuration + addresses, ports))
    (folder / "agent.py").write_text(on_ports(agent, ports))
    with ExitStack() as running:
        for command, listening in (
            (f"python -m tests.docs.model {ports['9002']}", ["9002"]),
            (f"{python} agent.py support {ports['9001']}", ["9001"]),
            ("a2a-gateway serve", ["8080", "8081"]),
        ):
            running.enter_context(terminal(command, folder, environ, [ports[number] for number in listening]))
        yield environ, ports


def said(command: list[str], folder: Path, environ: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr + (folder / "said").read_text()
    return done.stdout


@pytest.mark.parametrize("title", [title for title in AGENTS if title.endswith(".py")])
def test_an_agent_of_a_framework_answers_behind_the_gateway(title: str, tmp_path: Path) -> None:
    with site(tmp_path, AGENTS[title].text, python_of(title)) as (environ, ports):
        checked = said(["a2a-gateway", "check", "--online"], tmp_path, environ)
        assert "agent  support  ok" in checked
        url = f"http://127.0.0.1:{ports['8080']}/support"
        answer = said(["a2a-gateway", "send", url, "Hello", "--key", KEY], tmp_path, environ)
    assert "You said: Hello" in answer
    assert "[completed]" in answer


@pytest.fixture(scope="module")
def in_front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str], dict[str, int]]]:
    """The gateway in front of the agent of the tutorial."""
    folder = tmp_path_factory.mktemp("clients")
    agent = next(block.text for block in blocks(ROOT / "docs/tutorial.md") if block.title == "agent.py")
    with site(folder, agent, sys.executable) as (environ, ports):
        yield folder, environ, ports


@pytest.mark.parametrize("block", CLIENTS.values(), ids=CLIENTS)
def test_a_client_calls_through_the_gateway(
    block: Block, in_front: tuple[Path, dict[str, str], dict[str, int]]
) -> None:
    folder, environ, ports = in_front
    file = folder / block.title
    file.write_text(on_ports(block.text, ports))
    if block.language == "python":
        command = [python_of(block.title), str(file)]
    elif block.language == "js":
        command = [javascript(folder), str(file)]
    else:
        command = ["sh", "-e", str(file)]
        environ = environ | {"PATH": path_to(block.title, environ)}
    assert "support heard: Hello" in said(command, folder, environ)


def javascript(folder: Path) -> str:
    """Node, which finds the SDK under its own name."""
    node = shutil.which("node")
    if node is None or not MODULES.exists():
        pytest.skip("node and the packages of tests/javascript are not installed")
    (folder / "node_modules/@a2a-js").mkdir(parents=True)
    (folder / "node_modules/@a2a-js/sdk").symlink_to(MODULES / "a2a-1.3")
    return node


def path_to(program: str, environ: dict[str, str]) -> str:
    path = f"{environ['PATH']}{os.pathsep}{environment('grpcurl') / 'bin'}"
    if shutil.which(program, path=path) is None:
        pytest.skip(f"{program} is not installed: python -m tests.docs.recipes")
    return path


def test_every_recipe_of_a_framework_names_its_versions() -> None:
    assert {title for title in {**AGENTS, **CLIENTS} if title.endswith(".py")} == set(installs())
    assert all("==" in packages for packages in installs().values())
