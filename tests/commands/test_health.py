"""`health` asks the gateway that the file describes, from the same machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.commands.health import health_url, probe
from gateway.commands.output import CommandFailed
from tests.support.answering import answering


def url_of(folder: Path, text: str) -> str:
    path = folder / "gateway.yaml"
    path.write_text(f"version: 1\n{text}agents: {{ a: http://127.0.0.1:1 }}\n")
    return health_url(path, {})


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", "http://127.0.0.1:9090"),
        ("gateway: { admin: '127.0.0.1:1234' }\n", "http://127.0.0.1:1234"),
        ("gateway: { admin: '0.0.0.0:1234' }\n", "http://127.0.0.1:1234"),
        ("gateway: { admin: '[::]:1234' }\n", "http://[::1]:1234"),
        ("gateway: { admin: 'localhost:1234' }\n", "http://localhost:1234"),
    ],
)
def test_the_admin_listener_is_asked(tmp_path: Path, text: str, url: str) -> None:
    assert url_of(tmp_path, text) == url


def test_a_file_that_has_problems_elsewhere_still_says_where(tmp_path: Path) -> None:
    assert url_of(tmp_path, "nonsense: ${MISSING}\ngateway: { admin: '127.0.0.1:1' }\n") == "http://127.0.0.1:1"


@pytest.mark.parametrize("text", ["gateway: { admin: '127.0.0.1:0' }\n", "gateway: { admin: nowhere }\n", "{\n"])
def test_a_port_picked_by_the_system_needs_the_url_option(tmp_path: Path, text: str) -> None:
    with pytest.raises(CommandFailed, match="--url"):
        url_of(tmp_path, text)


def test_a_gateway_that_lives_is_well() -> None:
    with answering({"/-/live": (200, b"ok")}) as server:
        probe(server.url)
        probe(server.url + "/")


def test_a_gateway_that_answers_otherwise_or_not_at_all_is_not() -> None:
    with answering({"/-/live": (503, b"")}) as server:
        with pytest.raises(CommandFailed, match="503"):
            probe(server.url)
        url = server.url
    with pytest.raises(CommandFailed, match="cannot connect"):
        probe(url)


def test_without_options_no_file_is_read_and_little_is_imported(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text("{\n")
    with answering({"/-/live": (200, b"ok")}) as server:
        address = server.url.removeprefix("http://")
        done = bare(tmp_path, address)
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    # Modules that make the other commands cost a second of CPU are not imported.
    assert {"typer", "pydantic", "yaml", "ssl", "httpx"} & set(
        re.findall(r"\| +(\w+)$", done.stderr, re.MULTILINE)
    ) == set()


def test_without_options_a_gateway_that_answers_otherwise_or_not_at_all_is_not_well(tmp_path: Path) -> None:
    with answering({"/-/live": (503, b"")}) as server:
        address = server.url.removeprefix("http://")
        done = bare(tmp_path, address)
        assert (done.returncode, done.stdout) == (1, "")
        assert "/-/live did not answer 200" in done.stderr
    for name, fact in ((address, "cannot connect to http://"), ("9090", "'9090' is no address: write HOST:PORT")):
        done = bare(tmp_path, name)
        assert done.returncode == 1
        assert fact in done.stderr
        assert "A2A_GATEWAY_ADMIN=HOST:PORT, --url URL or -c FILE" in done.stderr


def bare(folder: Path, address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gateway", "health"],
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "A2A_GATEWAY_ADMIN": address},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
