from pathlib import Path
from textwrap import dedent

import pytest
import trustme

from gateway.config import effective
from gateway.config.agent import DEFAULT_TIMEOUTS
from gateway.config.check import examine
from gateway.config.limit import DEFAULT_CONNECTIONS
from gateway.config.model import Config, Gateway
from gateway.config.source import Marks
from tests.config.reading import good

CONFIG = good(
    """\
    version: 1
    defaults:
      timeouts: { connect: 1s, send: 2s }
      connections: { max: 5, queue: 0 }
      isolation: none
    agents:
      a: { backend: http://127.0.0.1:1, timeouts: { send: 3s }, connections: { queue: 7 }, isolation: tenant }
      b: http://127.0.0.1:2
    """
)


def test_an_agents_own_words_go_before_the_defaults_and_these_before_what_is_built_in() -> None:
    one, other = (effective.timeouts(CONFIG, CONFIG.agents[name]) for name in ("a", "b"))
    assert (one.connect, one.send, one.total) == (1.0, 3.0, DEFAULT_TIMEOUTS.total)
    assert (other.connect, other.send, other.total) == (1.0, 2.0, DEFAULT_TIMEOUTS.total)
    assert effective.timeouts(CONFIG) == other
    bounds = effective.connections(CONFIG, CONFIG.agents["a"])
    assert (bounds.max, bounds.queue, bounds.idle) == (5, 7, DEFAULT_CONNECTIONS.idle)
    assert effective.connections(CONFIG).queue == 0
    assert [effective.isolation(CONFIG, agent) for agent in CONFIG.agents.values()] == ["tenant", "none"]


def test_the_file_of_authorities_is_beside_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams/more.yaml").write_text("agents: { c: { backend: https://c, tls: { ca: own.pem } } }\n")
    path = tmp_path / "gateway.yaml"
    text = """\
    version: 1
    include: teams/more.yaml
    defaults: { tls: { ca: corp.pem } }
    agents:
      a: https://a
      b: { backend: https://b, tls: { ca: system } }
    """
    for name in ("corp.pem", "teams/own.pem"):
        (tmp_path / name).write_text(trustme.CA().cert_pem.bytes().decode())
    examined = examine(path, {}, text=dedent(text))
    assert examined.config is not None, examined.problems
    found = {name: effective.authorities(examined.config, name, examined.marks) for name in examined.config.agents}
    assert found == {"a": tmp_path / "corp.pem", "b": None, "c": tmp_path / "teams/own.pem"}
    assert effective.authorities(CONFIG, "a", Marks()) is None


@pytest.mark.parametrize(
    ("gateway", "seconds"),
    [
        ("listen: 127.0.0.1:0", 0.0),
        ("listen: 0.0.0.0:80", 5.0),
        ("listen: 0.0.0.0:80, drain: { delay: 1s }", 1.0),
        ("listen: 127.0.0.1:0, listen_grpc: '[::1]:0'", 0.0),
        ("listen: 127.0.0.1:0, listen_grpc: 0.0.0.0:0", 5.0),
    ],
)
def test_who_is_not_on_loopback_gives_balancers_time(gateway: str, seconds: float) -> None:
    text = f"version: 1\ngateway: {{ {gateway}, public_url: 'https://gw.example', anonymous: true }}\n"
    assert effective.drain_delay(good(text)) == seconds


@pytest.mark.parametrize(
    ("gateway", "host"),
    [
        ("anonymous: false", ""),
        ("listen_grpc: 'LocalHost:0'", "localhost"),
        ("listen_grpc: '127.0.0.1:0', public_grpc: 'Grpc.Example:443'", "grpc.example"),
        ("listen_grpc: '127.0.0.1:0', public_grpc: '[2001:DB8::1]:443'", "2001:db8::1"),
    ],
)
def test_clients_of_grpc_name_what_cards_advertise_or_where_the_listener_is(gateway: str, host: str) -> None:
    assert effective.grpc_host(good(f"version: 1\ngateway: {{ {gateway} }}\n")) == host


@pytest.mark.parametrize("key", ["listen_grpc", "public_grpc"])
def test_an_address_that_is_none_is_nothing_that_clients_name(key: str) -> None:
    assert effective.grpc_host(Config(version=1, gateway=Gateway(**{key: "no where"}))) == ""
