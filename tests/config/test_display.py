import json

from gateway.config.effective import masked
from tests.config.reading import HASH, good


def test_no_secret_is_shown_and_everything_else_is() -> None:
    config = good(
        f"""\
        version: 1
        gateway: {{ admin: {{ listen: 127.0.0.1:9090, token: "${{ADMIN}}" }}, state: "${{STATE}}" }}
        auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }} }}
        tenants: {{ acme: [a, b] }}
        agents:
          a: {{ backend: http://127.0.0.1:1, upstream_auth: {{ bearer: "${{BEARER}}" }} }}
          b: {{ backend: http://127.0.0.1:2, upstream_auth: {{ header: {{ X-Key: "${{KEY}}" }} }} }}
        """,
        {
            "ADMIN": "admin-secret-1",
            "BEARER": "bearer-secret-2",
            "KEY": "header-secret-3",
            "STATE": "rediss://gateway:state-secret-4@redis/2",
        },
    )
    text = json.dumps(masked(config))
    for secret in ("admin-secret-1", "bearer-secret-2", "header-secret-3", "state-secret-4", HASH):
        assert secret not in text
    assert masked(config)["agents"]["a"]["backend"][0]["url"] == "http://127.0.0.1:1"
    assert masked(config)["auth"]["api_keys"]["bot"]["tenant"] == "acme"
    assert masked(config)["gateway"]["state"] == "rediss://redis/2"


def test_effective_values_are_shown_for_absent_keys() -> None:
    text = """\
        version: 1
        defaults: { timeouts: { connect: 1s }, isolation: none }
        agents:
          a: { backend: http://127.0.0.1:1, timeouts: { send: 2s }, connections: { max: 3 } }
        """
    tree = masked(good(text))
    [agent] = tree["agents"].values()
    assert (agent["timeouts"]["connect"], agent["timeouts"]["send"], agent["timeouts"]["total"]) == (1.0, 2.0, 900.0)
    assert (agent["connections"]["max"], agent["connections"]["queue"]) == (3, 100)
    assert (agent["isolation"], agent["allow_insecure"]) == ("none", False)
    assert (tree["defaults"]["timeouts"]["connect"], tree["defaults"]["timeouts"]["send"]) == (1.0, 600.0)
    assert tree["defaults"]["connections"]["max"] == 1024
    assert tree["gateway"]["drain"]["delay"] == 0.0
    for part in (agent, tree["defaults"]):
        assert None not in part["timeouts"].values()
        assert None not in part["connections"].values()
    json.dumps(tree)


def test_limits_and_owners_are_shown_as_they_hold() -> None:
    text = """\
        version: 1
        tenants: { acme: { agents: [a, b], limits: { streams: 2 } } }
        defaults: { limits: { concurrency: 5 }, identity_headers: { tenant: X-Org }, unknown_tasks: adopt }
        push: { mode: none }
        agents:
          a: { backend: http://127.0.0.1:1, limits: { requests: 5/s }, identity_headers: { subject: null } }
          b: { by_tenant: { acme: { backend: http://127.0.0.1:2, limits: { concurrency: 9 } } } }
        """
    tree = masked(good(text))
    a, b = tree["agents"].values()
    assert (tree["tenants"]["acme"]["limits"]["streams"], tree["tenants"]["acme"]["limits"]["weight"]) == (2, 1)
    assert (a["limits"]["concurrency"], a["limits"]["requests"], a["limits"]["body"]) == (5, [5.0, 1.0], None)
    assert (b["limits"]["concurrency"], b["by_tenant"]["acme"]["limits"]["concurrency"]) == (5, 9)
    assert a["identity_headers"] == {"tenant": "X-Org", "subject": None, "session": None}
    assert b["identity_headers"] == {"tenant": "X-Org", "subject": "X-A2A-Subject", "session": None}
    assert tree["defaults"]["identity_headers"] == b["identity_headers"]
    assert (a["unknown_tasks"], a["isolation"]) == ("adopt", "tenant")
    assert (tree["push"]["mode"], tree["gateway"]["state"], tree["gateway"]["replicas"]) == ("none", None, 1)
    json.dumps(tree)
