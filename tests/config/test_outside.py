"""Flags win over variables, variables over the file, the file over the default; a wrong one is refused by its name."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.config import effective
from gateway.config.check import examine
from gateway.config.external_settings import SETTINGS
from gateway.config.load import Examined
from gateway.config.outside import sources, with_flags
from tests.table import for_each

FILE = """\
version: 1
gateway:
  listen: 127.0.0.1:1
  admin: 127.0.0.1:2
  listen_grpc: 127.0.0.1:3
  public_url: http://localhost/file
  state: sqlite:///file.db
observe: { log: { level: info } }
agents: { echo: http://127.0.0.1:9 }
"""
BARE = b"version: 1\nagents: { echo: http://127.0.0.1:9 }\n"
VALUES: Mapping[str, tuple[object, object, str, str]] = {
    "listen": ("127.0.0.1:8080", "127.0.0.1:1", "127.0.0.1:11", "127.0.0.1:12"),
    "admin": ("127.0.0.1:9090", "127.0.0.1:2", "127.0.0.1:21", "127.0.0.1:22"),
    "listen-grpc": (None, "127.0.0.1:3", "127.0.0.1:31", "127.0.0.1:32"),
    "public-url": (None, "http://localhost/file", "http://localhost/env", "http://localhost/flag"),
    "log-level": ("info", "info", "debug", "info"),
    "state": (None, "sqlite:///file.db", "memory", "redis://localhost/1"),
}
"""By the name of the setting: its default, and what the file, the variable and the flag say."""


def found(name: str, data: bytes, environ: Mapping[str, str]) -> tuple[object, str, object]:
    """The value of a setting, its source, and its place."""
    examined = examine(Path("gateway.yaml"), environ, text=data)
    assert examined.errors == ()
    config = examined.config
    assert config is not None
    flag = f"--{name}"
    told = next(each for each in sources(config, examined.marks, effective.masked(config)) if each["flag"] == flag)
    return told["value"], told["source"], told["place"]


@for_each("setting", SETTINGS)
def test_a_flag_wins_over_a_variable_a_variable_over_the_file_and_the_file_over_the_default(setting: object) -> None:
    [known] = [each for each in SETTINGS if each is setting]
    default, written, by_variable, by_flag = VALUES[known.name]
    variable, flag = {known.variable: by_variable}, {known.flag: by_flag}
    line = FILE[: FILE.index(f"{known.path[1]}:")].count("\n") + 1
    rows: list[tuple[bytes, Mapping[str, str], tuple[object, str, object]]] = [
        (BARE, {}, (default, "default", None)),
        (FILE.encode(), {}, (written, "file", f"gateway.yaml:{line}")),
        (BARE, variable, (by_variable, "environment", known.variable)),
        (FILE.encode(), variable, (by_variable, "environment", known.variable)),
        (FILE.encode(), with_flags({}, flag), (by_flag, "flag", known.flag)),
        (BARE, with_flags(variable, flag), (by_flag, "flag", known.flag)),
        (FILE.encode(), with_flags(variable, flag), (by_flag, "flag", known.flag)),
        (FILE.encode(), with_flags(variable, {known.flag: None}), (by_variable, "environment", known.variable)),
    ]
    for data, environ, expected in rows:
        assert found(known.name, data, environ) == expected, (data, environ)


def told(environ: Mapping[str, str], text: str = FILE) -> list[tuple[str, str]]:
    examined: Examined = examine(Path("gateway.yaml"), environ, text=text.encode())
    return [(problem.as_text().partition("\n")[0], problem.remedy) for problem in examined.errors]


@for_each(
    ("environ", "said", "remedy"),
    [
        ({"A2A_GATEWAY_LISTEN": ""}, "A2A_GATEWAY_LISTEN  gateway.listen: '' is no address", "write HOST:PORT"),
        ({"--listen": "x"}, "--listen  gateway.listen: 'x' is no address to listen at", "write HOST:PORT"),
        ({"--listen": "127.0.0.1:1,x"}, "--listen  gateway.listen: 'x' is no address", "write HOST:PORT"),
        ({"A2A_GATEWAY_ADMIN": "0.0.0.0:5"}, "A2A_GATEWAY_ADMIN  gateway.admin.listen: other machines", "listen on"),
        ({"A2A_GATEWAY_LOG_LEVEL": "warn"}, "A2A_GATEWAY_LOG_LEVEL  observe.log.level: 'warn' is none of", "did you"),
        (
            {"A2A_GATEWAY_STATE": "mysql://u:pw@h/1"},
            "A2A_GATEWAY_STATE  gateway.state: the value starts with mysql:",
            "",
        ),
        ({"--public-url": "ftp://x"}, "--public-url  gateway.public_url: the URL is no http", "write it as"),
        ({"A2A_GATEWAY_LISTN": "x"}, "A2A_GATEWAY_LISTN  unknown variable", "did you mean 'A2A_GATEWAY_LISTEN'?"),
        ({"A2A_GATEWAY_QQQ": "x"}, "A2A_GATEWAY_QQQ  unknown variable", "unset it; known are: A2A_GATEWAY_LISTEN,"),
        ({"A2A_GATEWAY_PORT": "8080"}, "A2A_GATEWAY_PORT  unknown variable", ""),
    ],
)
def test_a_wrong_flag_or_variable_is_refused_by_its_name(environ: dict[str, str], said: str, remedy: str) -> None:
    [(first, advice)] = told(environ)
    assert first.startswith(said)
    assert advice.startswith(remedy)
    assert "pw" not in first + advice


@pytest.mark.parametrize("at", ["gateway: [1]", "gateway: 7", "gateway: { admin: 7 }"])
def test_a_setting_hides_no_mistake_of_the_file(at: str) -> None:
    environ = {"A2A_GATEWAY_ADMIN": "127.0.0.1:1", "--listen": "127.0.0.1:2"}
    assert told(environ, f"version: 1\n{at}\nagents: {{ a: http://127.0.0.1:9 }}\n") != []


def test_variables_of_others_are_left_alone() -> None:
    """Kubernetes sets these for a Service named a2a-gateway; what the file itself names is the operator's."""
    environ = {
        "A2A_GATEWAY_SERVICE_HOST": "10.0.0.1",
        "A2A_GATEWAY_SERVICE_PORT_HTTP": "8080",
        "A2A_GATEWAY_PORT": "tcp://10.0.0.1:8080",
        "A2A_GATEWAY_PORT_8080_TCP_ADDR": "10.0.0.1",
        "A2A_GATEWAY_ADMIN_SERVICE_HOST": "10.0.0.1",
        "A2A_GATEWAY_ADMIN_PORT": "tcp://10.0.0.1:9090",
        "A2A_GATEWAY_CONFIG": "/etc/gateway.yaml",
        "A2A_GATEWAY_TOKEN": "0123456789abcdef",
    }
    assert told(environ, FILE.replace("admin: 127.0.0.1:2", "admin: { token: '${A2A_GATEWAY_TOKEN}' }")) == []


def test_a_path_from_outside_is_relative_to_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").write_text(FILE)
    examined = examine(tmp_path / "gateway.yaml", {"--state": "sqlite://own.db"})
    assert examined.config is not None
    assert effective.state(examined.config, examined.marks, {}, tmp_path).path == Path("own.db")
