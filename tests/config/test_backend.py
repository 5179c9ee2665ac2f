from pathlib import Path

import pytest
import trustme

from gateway.config.check import examine
from tests.config.reading import errors, examined, good, warnings
from tests.table import for_each


def agent(text: str, backend: str = "http://127.0.0.1:1") -> str:
    return f"version: 1\nagents: {{ a: {{ backend: {backend}, {text} }} }}\n"


@for_each(
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


@for_each("tenant", ["strip", "keep", "acme-1.x", "orgs/42", "Tasks", "Zoë K.", "x" * 256])
def test_the_agents_tenant_is_stripped_kept_or_named(tenant: str) -> None:
    assert errors(agent(f"upstream_tenant: {tenant}")) == []


def test_an_upstream_tenant_in_a_path_is_a_plain_segment() -> None:
    rest = "{ url: 'http://127.0.0.1:1', protocol: rest }"
    rpc = rest.replace("rest", "jsonrpc").replace(":1'", ":2'")
    for backend, wrong in ((rest, True), (rpc, False), (f"[{rpc}, {rest}]", True)):
        found = errors(f"version: 1\nagents: {{ a: {{ backend: {backend}, upstream_tenant: orgs/42 }} }}\n")
        assert [path for path, _ in found] == (["agents.a.upstream_tenant"] if wrong else [])
    one, other = f"x: {{ backend: {rest} }}", f"z: {{ backend: {rpc}, upstream_tenant: orgs/42 }}"
    assert errors(f"version: 1\nagents: {{ a: {{ by_tenant: {{ {one}, {other} }} }} }}\n") == []


@for_each(
    "where", ["match: { tenant: orgs/42 }, backend: http://127.0.0.1:1", "by_tenant: { a b: http://127.0.0.1:1 }"]
)
def test_a_card_that_could_list_paths_alone_for_a_tenant_that_no_path_can_say_is_told(where: str) -> None:
    for expose, told in (("rest", True), ("[rest, jsonrpc]", False), ("jsonrpc", False)):
        found = warnings(f"version: 1\nagents: {{ a: {{ {where}, expose: {expose} }} }}\n")
        assert [path for path, fact in found if "no path can say" in fact] == (["agents.a.expose"] if told else [])


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"{", "the card cannot be read: it is no JSON"),
        (b"[" * 100_000, "the card cannot be read: it is no JSON"),
        (b'"' + b"x" * 256 * 1024 + b'"', "the card is larger than 256 KiB"),
        (b'{"name": "x"}', None),
    ],
)
def test_a_card_file_is_a_json_object_of_bounded_size(tmp_path: Path, content: bytes, fact: str | None) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(agent("card: card.json"))
    (tmp_path / "card.json").write_bytes(content)
    assert [one.fact for one in examine(path, {}).errors] == ([] if fact is None else [fact])


def test_omitted_members_of_a_card_file_are_warnings(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(agent("card: card.json"))
    (tmp_path / "card.json").write_bytes(b'{"name": "x", "skills": [7], "provider": "y"}')
    examined = examine(path, {})
    assert not examined.errors
    facts = {"the card: skills[0] is no object", "the card: provider is no object"}
    assert {one.fact for one in examined.warnings} == facts


@pytest.mark.parametrize(
    "agent", ["{ backend: http://127.0.0.1:1, card: cards/a.json }", "{ backend: { card: cards/a.json } }"]
)
def test_a_missing_card_file_shows_the_base_of_the_path(tmp_path: Path, agent: str) -> None:
    text = f"version: 1\nagents: {{ a: {agent} }}\n"
    [problem] = examine(tmp_path / "gateway.yaml", {}, text=text).errors
    assert problem.remedy.endswith(f"relative to {tmp_path}")


def test_a_card_comes_from_one_place() -> None:
    text = agent("card: { url: 'http://127.0.0.1:1/c', file: none.json, set: { supportedInterfaces: [] } }")
    assert [path for path, _ in errors(text)] == [
        "agents.a.card.file",
        "agents.a.card.set.supportedInterfaces",
    ]


def test_no_operation_and_no_time_are_no_choice() -> None:
    assert errors(agent("methods: []")) == [("agents.a.methods", "the agent answers no operation")]
    assert errors(agent("timeouts: { total: 0ms }")) == [("agents.a.timeouts.total", "'0ms' is no time to wait")]


@for_each(("written", "column"), [("grpc", 53), ("[jsonrpc, grpc]", 63)])
def test_a_card_lists_grpc_where_it_is_served(written: str, column: int) -> None:
    [problem] = examined(agent(f"expose: {written}")).errors
    assert (problem.place.line, problem.place.column) == (2, column)
    assert problem.fact == "gRPC is served nowhere: there is no `gateway.listen_grpc`"
    broken = agent(f"expose: {written}").replace("agents:", "gateway: { listen_grpc: 7 }\nagents:")
    assert [path for path, _ in errors(broken)] == ["gateway.listen_grpc"]


@for_each(
    "backend",
    [
        "grpc://127.0.0.1:50051",
        "GRPC://localhost:50051",
        "{ url: 'grpc://[::1]:50051', protocol: grpc }",
        "{ url: 'grpcs://agents.example.com', a2a_version: '0.3' }",
        "{ url: 'grpcs://agents.example.com:8443', a2a_version: '1.0' }",
        "{ url: 'grpc://agents.example.com:50051', allow_insecure: true, a2a_version: '0.2' }",
    ],
)
def test_an_agent_behind_grpc_has_the_protocol_that_its_url_says(backend: str) -> None:
    found = good(f"version: 1\nagents: {{ a: {{ backend: {backend} }} }}\n").agents["a"].backend
    assert [one.protocol for one in found] == ["grpc"]


def test_a_card_is_never_fetched_over_grpc() -> None:
    assert [path for path, _ in errors(agent("card: { url: 'grpc://127.0.0.1:1' }"))] == ["agents.a.card.url"]


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


def test_files_of_authorities_of_issuers_and_webhooks_are_read_likewise(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(trustme.CA().cert_pem.bytes())
    text = """\
version: 1
auth:
  issuers:
    good: { issuer: https://a.example, audience: x, tenant: acme, tls: { ca: ca.pem } }
    gone: { issuer: https://b.example, audience: x, tenant: acme, tls: { ca: none.pem } }
    plain: { issuer: https://c.example, jwks: http://127.0.0.1:1, audience: x, tenant: acme, tls: { ca: system } }
    wrong: { issuer: https://d.example, audience: x, tenant: acme, tls: { key: a-private-thing } }
tenants: { acme: [a] }
push: { mode: relay, tls: { ca: "." } }
agents: { a: http://127.0.0.1:1 }
"""
    found = examine(tmp_path / "gateway.yaml", {}, text=text)
    assert [(one.place.line, one.place.column, one.fact) for one in found.errors] == [(7, 75, "unknown key 'key'")]
    # A text that may have been pasted there is not shown.
    assert "a-private-thing" not in str(found.errors)
    found = examine(tmp_path / "gateway.yaml", {}, text=text.replace("key: a-private-thing", "ca: ca.pem"))
    assert [(one.place.line, one.place.column, one.fact) for one in found.errors] == [
        (5, 78, "'none.pem' cannot be read: No such file or directory"),
        (9, 33, "'.' is a folder, not a file"),
    ]
    assert f"relative to {tmp_path}" in found.errors[0].remedy
    assert "none.pem" in found.errors[0].quote
    told = [(one.place.line, one.fact) for one in found.warnings]
    assert (6, "the issuer is not reached over TLS: `tls` has no effect") in told


TLS = "agents: { a: { backend: SCHEME://127.0.0.1:1, tls: { ca: system } } }"


@for_each(
    ("text", "paths"),
    [
        ("agents: { a: http://127.0.0.1:1 }\npush: { tls: { ca: system } }", ["push.tls"]),
        ("agents: { a: http://127.0.0.1:1 }\npush: { mode: relay, tls: { ca: system } }", []),
        (TLS.replace("SCHEME", "http"), ["agents.a.tls"]),
        (TLS.replace("SCHEME", "grpc"), ["agents.a.tls"]),
        (TLS.replace("SCHEME", "https"), []),
        (TLS.replace("SCHEME", "grpcs"), []),
    ],
)
def test_authorities_of_a_backend_without_tls_are_a_warning(text: str, paths: list[str]) -> None:
    assert [path for path, _ in warnings(f"version: 1\n{text}\n")] == paths
