from pathlib import Path
from textwrap import dedent

import trustme

from gateway.config import effective
from gateway.config.agent import DEFAULT_HEALTH
from gateway.config.check import examine
from gateway.config.yaml import Marks
from gateway.tasks.state_url import StateUrl
from tests.config.reading import HASH, examined, good
from tests.table import for_each

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
    found = {
        name: effective.agent_trust(examined.config, name, examined.marks).authorities
        for name in examined.config.agents
    }
    assert found == {"a": tmp_path / "corp.pem", "b": None, "c": tmp_path / "teams/own.pem"}
    assert effective.agent_trust(CONFIG, "a", Marks()).authorities is None


@for_each(
    ("gateway", "seconds"),
    [
        ("listen: 127.0.0.1:0", 0.0),
        ("listen: 0.0.0.0:80", 5.0),
        ("listen: 0.0.0.0:80, drain: { delay: 1s }", 1.0),
        ("listen: 127.0.0.1:0, listen_grpc: '[::1]:0'", 0.0),
        ("listen: 127.0.0.1:0, listen_grpc: 0.0.0.0:0", 5.0),
    ],
)
def test_public_listeners_have_a_drain_delay(gateway: str, seconds: float) -> None:
    text = f"version: 1\ngateway: {{ {gateway}, public_url: 'https://gw.example', anonymous: true }}\n"
    assert effective.drain_delay(good(text)) == seconds


# ---- whose tasks they are ------------------------------------------------------------------------------------------

AUTH = f"auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }} }}\ntenants: {{ acme: [a] }}\n"


@for_each(
    ("before", "own", "kept"),
    [
        ("", "", False),
        ("tenants: { anonymous: { agents: [a], limits: { requests: 1/s } } }\n", "", False),
        ("tenants: { anonymous: { agents: [a], limits: { open_tasks: 1 } } }\n", "", True),
        ("tenants: { anonymous: { agents: [a], limits: { open_tasks: 1 } } }\n", "isolation: none", False),
        ("", "isolation: tenant", True),
        ("", "isolation: none", False),
        ("", "unknown_tasks: deny", True),
        ("defaults: { isolation: tenant }\n", "", True),
        ("defaults: { isolation: none }\n", "", False),
        ("defaults: { isolation: none }\n", "isolation: principal", True),
        ("defaults: { unknown_tasks: adopt }\n", "", True),
        (AUTH, "", True),
        (AUTH, "isolation: none", False),
        (AUTH + "defaults: { isolation: none }\n", "", False),
        (AUTH + "defaults: { isolation: none }\n", "isolation: tenant", True),
    ],
)
def test_tasks_have_owners_where_callers_are_proven_or_the_file_asks_for_it(
    before: str, own: str, *, kept: bool
) -> None:
    config = good(f"version: 1\n{before}agents: {{ a: {{ backend: http://127.0.0.1:1, {own} }} }}\n")
    assert effective.keeps_owners(config, config.agents["a"]) is kept
    assert effective.keeps_state(config) is kept


@for_each(
    ("written", "used"),
    [
        ("gateway: { state: memory }", False),
        ("gateway: { state: 'redis://h' }", True),
        ("push: { mode: relay }", True),
        ("push: { mode: none }", False),
    ],
)
def test_a_store_has_to_be_there_where_something_is_kept_in_it(written: str, *, used: bool) -> None:
    assert effective.keeps_state(good(f"version: 1\n{written}\nagents: {{ a: http://127.0.0.1:1 }}\n")) is used


# ---- state and audit -----------------------------------------------------------------------------------------------


def test_the_state_is_beside_the_file_that_names_it(tmp_path: Path) -> None:
    text = "version: 1\n{}agents: {{ a: http://127.0.0.1:1 }}\n"
    path = tmp_path / "etc/gateway.yaml"
    environ = {"STATE_DIRECTORY": "/var/lib/a2a"}

    def state(written: str) -> StateUrl:
        found = examined(text.format(written), path=path)
        assert found.config is not None
        return effective.state(found.config, found.marks, environ, tmp_path)

    assert state("gateway: { state: sqlite://x.db }\n") == StateUrl("sqlite", path.parent / "x.db")
    assert state("gateway: { state: 'sqlite:///srv/x.db' }\n") == StateUrl("sqlite", Path("/srv/x.db"))
    assert state("gateway: { state: memory }\n") == StateUrl("memory")
    assert state("") == StateUrl("sqlite", Path("/var/lib/a2a/a2a-gateway.db"))
    environ.clear()
    assert state("") == StateUrl("sqlite", tmp_path / "state/a2a-gateway.db")


def test_the_audit_file_is_beside_the_file_that_names_it(tmp_path: Path) -> None:
    def audit(written: str) -> Path | None:
        text = f"version: 1\n{written}agents: {{ a: http://127.0.0.1:1 }}\n"
        found = examined(text, path=tmp_path / "gateway.yaml")
        assert found.config is not None
        return effective.audit(found.config, found.marks)

    assert audit("") is None
    assert audit("observe: { audit: '-' }\n") == effective.STANDARD_OUTPUT
    assert audit("observe: { audit: audit.jsonl }\n") == tmp_path / "audit.jsonl"
    assert audit("observe: { audit: { file: /var/log/audit.jsonl } }\n") == Path("/var/log/audit.jsonl")


def test_absent_keys_take_the_defaults_or_built_in_values() -> None:
    config = good(
        """\
        version: 1
        defaults:
          affinity: none
          health: { path: /healthz, eject: { after: 7 }, breaker: { time: 9s } }
          retry: { max: 1, when: connect }
        agents:
          a: http://127.0.0.1:1
          b:
            backend: [http://127.0.0.1:1, http://127.0.0.1:2]
            affinity: { by: context, wait: 2s }
            health: { every: 1s, eject: { time: 3s } }
            retry: { max: 0 }
        """
    )
    a, b = config.agents["a"], config.agents["b"]
    affinity = effective.affinity(config, a)
    assert (affinity.by, affinity.gone, affinity.wait) == ("none", "refuse", 0.0)
    affinity = effective.affinity(config, b)
    assert (affinity.by, affinity.gone, affinity.wait) == ("context", "refuse", 2.0)
    health = effective.health(config, b)
    assert (health.path, health.every, health.fail_after) == ("/healthz", 1.0, DEFAULT_HEALTH.fail_after)
    assert (health.eject.after, health.eject.time, health.eject.longest, health.eject.most) == (7, 3.0, 300.0, 50)
    assert (health.breaker.after, health.breaker.time) == (0, 9.0)
    retry = effective.retry(config, b)
    assert (retry.max, retry.when, retry.budget) == (0, ("connect",), 20)


# ---- identity and webhooks -----------------------------------------------------------------------------------------
