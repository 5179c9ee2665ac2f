import json

from gateway.config.display import shown
from tests.config.reading import HASH, good


def test_no_secret_is_shown_and_everything_else_is() -> None:
    config = good(
        f"""\
        version: 1
        gateway: {{ admin: {{ listen: 127.0.0.1:9090, token: "${{ADMIN}}" }} }}
        auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }} }}
        tenants: {{ acme: [a, b] }}
        agents:
          a: {{ backend: http://127.0.0.1:1, upstream_auth: {{ bearer: "${{BEARER}}" }} }}
          b: {{ backend: http://127.0.0.1:2, upstream_auth: {{ header: {{ X-Key: "${{KEY}}" }} }} }}
        """,
        {"ADMIN": "admin-secret-1", "BEARER": "bearer-secret-2", "KEY": "header-secret-3"},
    )
    text = json.dumps(shown(config))
    for secret in ("admin-secret-1", "bearer-secret-2", "header-secret-3", HASH):
        assert secret not in text
    assert shown(config)["agents"]["a"]["backend"]["url"] == "http://127.0.0.1:1"
    assert shown(config)["auth"]["api_keys"]["bot"]["tenant"] == "acme"


def test_a_configuration_without_auth_can_be_shown() -> None:
    assert shown(good("version: 1\nagents: { a: http://127.0.0.1:1 }\n"))["auth"] is None


def test_what_holds_is_shown_where_nothing_is_written() -> None:
    text = """\
        version: 1
        defaults: { timeouts: { connect: 1s }, isolation: none }
        agents:
          a: { backend: http://127.0.0.1:1, timeouts: { send: 2s }, connections: { max: 3 } }
        """
    tree = shown(good(text))
    [agent] = tree["agents"].values()
    assert (agent["timeouts"]["connect"], agent["timeouts"]["send"], agent["timeouts"]["total"]) == (1.0, 2.0, 900.0)
    assert (agent["connections"]["max"], agent["connections"]["queue"]) == (3, 100)
    assert (agent["isolation"], agent["allow_insecure"]) == ("none", False)
    assert (tree["defaults"]["timeouts"]["connect"], tree["defaults"]["timeouts"]["send"]) == (1.0, 600.0)
    assert tree["defaults"]["connections"]["max"] == 100
    assert tree["gateway"]["drain"]["delay"] == 0.0
    for part in (agent, tree["defaults"]):
        assert None not in part["timeouts"].values()
        assert None not in part["connections"].values()
    json.dumps(tree)
