from pathlib import Path

import pytest
import trustme

from gateway.a2a.headers import NEVER_FORWARDED, TO_AGENT
from gateway.config.check import examine
from tests.config.reading import errors, good, warnings


def agent(text: str, backend: str = "http://127.0.0.1:1") -> str:
    return f"version: 1\nagents: {{ a: {{ backend: {backend}, {text} }} }}\n"


@pytest.mark.parametrize("header", ["X-Api-Key", "Authorization", "x-key", "Cookie"])
def test_a_credential_goes_in_a_header_of_its_own(header: str) -> None:
    config = good(agent(f"upstream_auth: {{ header: {{ {header}: abc def }} }}"))
    auth = config.agents["a"].upstream_auth
    assert auth is not None
    assert auth.header[header].get_secret_value() == "abc def"
    assert "abc" not in repr(config)


def test_a_header_may_be_written_with_its_name_and_value() -> None:
    config = good(agent("upstream_auth: { header: { name: X-Key, value: abc } }"))
    assert config.agents["a"].upstream_auth is not None
    assert list(config.agents["a"].upstream_auth.header) == ["X-Key"]


@pytest.mark.parametrize(
    ("auth", "path", "fact"),
    [
        ("{}", "", "it needs exactly one of `bearer` and `header`"),
        ("{ bearer: a, header: { X: b } }", "", "it needs exactly one of `bearer` and `header`"),
        ('{ bearer: "" }', ".bearer", "the token is empty or has characters that a token cannot have"),
        ("{ bearer: Bearer abc }", ".bearer", "the token is empty or has characters that a token cannot have"),
        ('{ bearer: "a\\r\\nb: c" }', ".bearer", "the token is empty or has characters that a token cannot have"),
        ('{ header: { "X Key": a } }', '.header."X Key"', "'X Key' is no header name"),
        ('{ header: { "": a } }', '.header.""', "'' is no header name"),
        ("{ header: { Connection: a } }", ".header.Connection", "the gateway sets 'Connection' itself"),
        ("{ header: { X_A2A_Tenant: a } }", ".header.X_A2A_Tenant", "the gateway sets 'X_A2A_Tenant' itself"),
        ("{ header: { X-Request-Id: a } }", ".header.X-Request-Id", "the gateway sets 'X-Request-Id' itself"),
        ("{ header: { A2A-Version: a } }", ".header.A2A-Version", "the gateway sets 'A2A-Version' itself"),
        ("{ header: { A2A_Version: a } }", ".header.A2A_Version", "the gateway sets 'A2A_Version' itself"),
        ('{ header: { X: "a\\nb" } }', ".header.X", "the value is empty or has characters that a header cannot have"),
        ("{ header: { X: a, x: b } }", ".header", "two names differ in case only"),
    ],
)
def test_a_credential_that_cannot_be_sent_is_refused(auth: str, path: str, fact: str) -> None:
    assert errors(agent(f"upstream_auth: {auth}")) == [(f"agents.a.upstream_auth{path}", fact)]


@pytest.mark.parametrize("name", ["Connection", "Host", "Cookie", "X-A2A-Subject", "X-Forwarded-For", "Proxy-X", "te"])
def test_a_header_that_could_mislead_the_agent_is_not_forwarded(name: str) -> None:
    ((path, fact),) = errors(agent(f"forward_headers: [X-Region, {name}]"))
    assert path == "agents.a.forward_headers[1]"
    assert "belongs to the connection" in fact


@pytest.mark.parametrize(
    "name",
    [name.decode() for name in sorted((TO_AGENT | NEVER_FORWARDED) - {b"authorization", b"x-api-key", b"cookie"})],
)
def test_a_credential_takes_no_name_that_the_gateway_sets_or_forwards(name: str) -> None:
    assert [fact for _, fact in errors(agent(f"upstream_auth: {{ header: {{ {name.title()}: a }} }}"))] == [
        f"the gateway sets {name.title()!r} itself"
    ]


@pytest.mark.parametrize(("forwarded", "name"), [("X-Key", "X-Key"), ("x-key", "X-KEY"), ("X-Key", "x_key")])
def test_a_client_cannot_send_the_gateways_own_credential(forwarded: str, name: str) -> None:
    forward = f"forward_headers: [X-Region, {forwarded}]"
    fact = f"`upstream_auth` sets {forwarded!r}: a client could add a credential to the gateway's own"
    expected = [("agents.a.forward_headers[1]", fact)]
    assert errors(agent(f"{forward}, upstream_auth: {{ header: {{ {name}: abc }} }}")) == expected
    entry = f"{{ backend: http://127.0.0.1:1, upstream_auth: {{ header: {{ {name}: abc }} }} }}"
    assert errors(f"version: 1\nagents: {{ a: {{ by_tenant: {{ t: {entry} }}, {forward} }} }}\n") == expected
    assert errors(agent(f"{forward}, upstream_auth: {{ header: {{ X-Other: abc }} }}")) == []


def test_the_content_type_is_not_forwarded_a_second_time() -> None:
    assert errors(agent("forward_headers: Content-Type")) == [
        ("agents.a.forward_headers", "the gateway sets 'Content-Type' itself")
    ]


@pytest.mark.parametrize("name", ["X_Region", "a b", "", "ä"])
def test_a_header_that_is_none_is_not_forwarded(name: str) -> None:
    assert errors(agent(f'forward_headers: "{name}"')) == [
        ("agents.a.forward_headers", f"{name!r} is no header name that can be forwarded")
    ]


def test_the_callers_credential_is_forwarded_by_its_own_key_only() -> None:
    assert [fact for _, fact in errors(agent("forward_headers: [authorization, X-API-Key]"))] == [
        "'authorization' carries the caller's credential",
        "'X-API-Key' carries the caller's credential",
    ]
    assert [path for path, _ in errors(agent("forward_caller: true, upstream_auth: { bearer: abc }"))] == [
        "agents.a.forward_caller"
    ]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("a: { backend: { url: 'http://h' } }", True),
        ("a: { backend: { url: 'http://h', allow_insecure: true } }", False),
        ("a: { backend: 'http://h', allow_insecure: true }", False),
        ("a: { backend: { url: 'http://h', allow_insecure: false }, allow_insecure: true }", True),
        ("a: { by_tenant: { t: 'http://h' } }", True),
        ("a: { by_tenant: { t: 'http://h' }, allow_insecure: true }", False),
        ("a: { backend: 'https://h', card: 'http://h/card.json' }", True),
        ("a: { backend: 'https://h', card: 'https://other/card.json?x=1' }", False),
        ("a: 'http://localhost:1'", False),
    ],
)
def test_plain_http_to_another_machine_must_be_asked_for(text: str, *, refused: bool) -> None:
    assert bool(errors(f"version: 1\nagents: {{ {text} }}\n")) == refused


def test_defaults_may_ask_for_plain_http() -> None:
    assert errors("version: 1\ndefaults: { allow_insecure: true }\nagents: { a: http://h }\n") == []
    assert errors(
        "version: 1\ndefaults: { allow_insecure: true }\nagents: { a: { backend: http://h, allow_insecure: false } }\n"
    )


@pytest.mark.parametrize("tenant", ["strip", "keep", "acme-1.x"])
def test_the_agents_tenant_is_stripped_kept_or_named(tenant: str) -> None:
    assert errors(agent(f"upstream_tenant: {tenant}")) == []


@pytest.mark.parametrize("tenant", ["a/b", "tasks", "", "x" * 65])
def test_any_other_tenant_is_refused(tenant: str) -> None:
    assert [path for path, _ in errors(agent(f'upstream_tenant: "{tenant}"'))] == ["agents.a.upstream_tenant"]
    entry = f'{{ backend: http://127.0.0.1:1, upstream_tenant: "{tenant}" }}'
    text = f"version: 1\nagents: {{ a: {{ by_tenant: {{ t: {entry} }} }} }}\n"
    assert [path for path, _ in errors(text)] == ["agents.a.by_tenant.t.upstream_tenant"]


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (None, "'card.json' is no file"),
        (b"[]", "the card is no JSON object"),
        (b"{", "the card cannot be read: it is no JSON"),
        (b"[" * 100_000, "the card cannot be read: it is no JSON"),
        (b'"' + b"x" * 256 * 1024 + b'"', "the card is larger than 256 KiB"),
        (b'{"name": "x"}', None),
    ],
)
def test_a_card_file_is_a_json_object_of_bounded_size(tmp_path: Path, content: bytes | None, fact: str | None) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(agent("card: card.json"))
    if content is not None:
        (tmp_path / "card.json").write_bytes(content)
    assert [one.fact for one in examine(path, {}).errors] == ([] if fact is None else [fact])


def test_a_card_comes_from_one_place() -> None:
    text = agent("card: { url: 'http://127.0.0.1:1/c', file: none.json, set: { supportedInterfaces: [] } }")
    assert [path for path, _ in errors(text)] == [
        "agents.a.card.file",
        "agents.a.card.set.supportedInterfaces",
    ]


def test_no_operation_and_no_time_are_no_choice() -> None:
    assert errors(agent("methods: [], timeouts: { total: 0ms }")) == [
        ("agents.a.methods", "the agent answers no operation"),
        ("agents.a.timeouts.total", "nothing can be done in no time"),
    ]


@pytest.mark.parametrize("written", ["jsonrpc", "[rest]", "[rest, jsonrpc]"])
def test_cards_list_the_bindings_that_are_named(written: str) -> None:
    assert errors(agent(f"expose: {written}")) == []


@pytest.mark.parametrize(
    ("written", "path", "fact"),
    [
        ("[]", "", "its cards would list no way to call it"),
        ("[rest, rest]", "[1]", "'rest' is there already"),
        ("[jsonrpc, rest, jsonrpc]", "[2]", "'jsonrpc' is there already"),
        ("[jsonrpc, REST]", "[1]", "'REST' is none of: jsonrpc, rest"),
        ("7", "", "7 is no list"),
    ],
)
def test_bindings_for_cards_are_named_once_and_there_is_one(written: str, path: str, fact: str) -> None:
    assert errors(agent(f"expose: {written}")) == [(f"agents.a.expose{path}", fact)]


def test_an_agent_of_0_1_speaks_json_rpc() -> None:
    text = 'version: 1\nagents: {{ a: {{ backend: {{ url: "http://127.0.0.1:1", {}a2a_version: "0.1" }} }} }}\n'
    assert errors(text.format("protocol: jsonrpc, ")) == []
    at = "agents.a.backend.a2a_version"
    assert errors(text.format("protocol: rest, ")) == [(at, "A2A 0.1 knows no HTTP+JSON")]
    assert errors(text.format("")) == [(at, "a version alone does not say how to speak")]


def test_a_version_beside_a_wrong_protocol_is_not_told_too() -> None:
    text = 'version: 1\nagents: { a: { backend: { url: "http://127.0.0.1:1", protocol: soap, a2a_version: "0.3" } } }\n'
    assert [path for path, _ in errors(text)] == ["agents.a.backend.protocol"]


def test_files_of_authorities_are_read_when_the_file_is_checked(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(trustme.CA().cert_pem.bytes())
    (tmp_path / "text.pem").write_text("nothing of the kind\n")
    text = """\
version: 1
defaults: { tls: { ca: none.pem } }
agents:
  a: { backend: https://a, tls: { ca: ca.pem } }
  b: { backend: https://b, tls: { ca: text.pem } }
  c: { backend: https://c, tls: { ca: system } }
  d: { backend: https://d, tls: { ca: text.pem } }
"""
    found = examine(tmp_path / "gateway.yaml", {}, text=text)
    assert [(one.place.line, one.place.column, one.fact) for one in found.errors] == [
        (2, 24, "'none.pem' cannot be read: No such file or directory"),
        (5, 39, "'text.pem' has no certificate, or a broken one"),
        (7, 39, "'text.pem' has no certificate, or a broken one"),
    ]
    assert f"relative to {tmp_path}" in found.errors[0].remedy


def test_authorities_of_an_agent_that_is_not_reached_by_https_are_worth_a_warning() -> None:
    text = "version: 1\nagents: { a: { backend: http://127.0.0.1:1, tls: { ca: system } } }\n"
    assert [path for path, _ in warnings(text)] == ["agents.a.tls"]
    assert warnings(text.replace("http:", "https:")) == []
