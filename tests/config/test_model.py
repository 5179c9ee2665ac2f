import pytest
from pydantic import ValidationError

from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from gateway.config.model import Config
from tests.config.reading import HASH, good


def test_short_forms_are_widened_everywhere() -> None:
    config = good(
        f"""
        version: 1
        gateway: {{ admin: 127.0.0.1:9, drain: 3s, trusted_proxies: 10.0.0.0/8 }}
        auth: {{ api_keys: {{ k: {{ sha256: {HASH}, tenant: t, agents: a }} }} }}
        tenants: {{ t: a, u: [b], v: }}
        agents:
          a:
            backend: {{ url: "http://127.0.0.1:1", protocol: rest, a2a_version: "0.2.5" }}
            match: {{ path: /x }}
            allow: t
            methods: [GetTask]
            forward_headers: X-Region
            expose: rest
          b: http://127.0.0.1:2
        tests: [{{ name: t1, key: k, request: /x, expect: a }}]
        """
    )
    agent = config.agents["a"]
    assert config.gateway.admin.listen == "127.0.0.1:9"
    assert config.gateway.drain.timeout == 3.0
    assert config.gateway.trusted_proxies == ("10.0.0.0/8",)
    assert (config.tenants["t"].agents, config.tenants["u"].agents, config.tenants["v"].agents) == (
        ("a",),
        ("b",),
        None,
    )
    assert [match.path for match in agent.match] == ["/x"]
    assert (agent.allow, agent.methods, agent.forward_headers) == (("t",), (Operation.GET_TASK,), ("X-Region",))
    assert agent.expose == ("rest",)
    [backend] = agent.backend
    assert backend.a2a_version is Version.V0_3
    assert (config.tests[0].request.path, config.tests[0].request.method) == ("/x", "POST")
    assert config.tests[0].expect.agent == "a"


def test_a_configuration_cannot_be_changed() -> None:
    config = good("version: 1\nagents: { a: http://127.0.0.1:1 }\n")
    with pytest.raises(ValidationError):
        config.gateway = config.gateway  # type: ignore[misc]  # that it is refused is the promise


def test_a_public_url_ends_without_a_slash() -> None:
    config = good(
        "version: 1\ngateway: { public_url: 'https://gw.example/base/' }\nagents: { a: http://127.0.0.1:1 }\n"
    )
    assert config.gateway.public_url == "https://gw.example/base"


def test_secrets_are_not_in_the_words_of_a_configuration() -> None:
    config = good("version: 1\ngateway: { admin: { token: hunter2 } }\nagents: { a: http://127.0.0.1:1 }\n")
    assert "hunter2" not in repr(config)
    assert "hunter2" not in config.model_dump_json()
    assert isinstance(config, Config)
