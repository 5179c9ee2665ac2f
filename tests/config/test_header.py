from gateway.a2a.headers import NEVER_FORWARDED, TO_AGENT
from tests.config.reading import errors, good
from tests.table import for_each


def agent(text: str, backend: str = "http://127.0.0.1:1") -> str:
    return f"version: 1\nagents: {{ a: {{ backend: {backend}, {text} }} }}\n"


@for_each("header", ["X-Api-Key", "Authorization", "x-key", "Cookie"])
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


@for_each(
    ("auth", "path", "fact"),
    [
        ("{}", "", "it needs exactly one of `bearer`, `header`, `oauth2` and `exchange`"),
        ("{ bearer: a, header: { X: b } }", "", "it needs exactly one of `bearer`, `header`, `oauth2` and `exchange`"),
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


@for_each(
    "name",
    [
        "Connection", "Host", "Cookie", "X-A2A-Subject", "X-Forwarded-For", "Proxy-X", "te",
        "X-Forwarded-Client-Cert", "Client-Cert", "Client-Cert-Chain", "X-SSL-Client-S-DN", "SSL-Client-Verify",
        "X-Amzn-Mtls-Clientcert-Leaf",
    ],
)  # fmt: skip
def test_a_header_that_could_mislead_the_agent_is_not_forwarded(name: str) -> None:
    ((path, fact),) = errors(agent(f"forward_headers: [X-Region, {name}]"))
    assert path == "agents.a.forward_headers[1]"
    assert "belongs to the connection" in fact


@for_each(
    "name",
    [name.decode() for name in sorted((TO_AGENT | NEVER_FORWARDED) - {b"authorization", b"x-api-key", b"cookie"})],
)
def test_a_credential_takes_no_name_that_the_gateway_sets_or_forwards(name: str) -> None:
    assert [fact for _, fact in errors(agent(f"upstream_auth: {{ header: {{ {name.title()}: a }} }}"))] == [
        f"the gateway sets {name.title()!r} itself"
    ]


@for_each(("forwarded", "name"), [("X-Key", "X-Key"), ("x-key", "X-KEY"), ("X-Key", "x_key")])
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


@for_each("name", ["X_Region", "a b", "", "ä", "*", "X-*"])
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


def test_headers_that_grpc_cannot_carry_are_refused_for_grpc_agents() -> None:
    text = "upstream_auth: { header: { %s: a } }, forward_headers: [X-Region, %s]"
    for name in ("grpc-timeout2", "X-Trace-Bin", "X!Key"):
        assert errors(agent(text % (f"'{name}'", f"'X-More', '{name}2'"))) == []
        assert [path.rpartition(".")[0] for path, _ in errors(agent(text % (f"'{name}'", "X-A"), "grpc://127.0.0.1:1"))]
    assert errors(agent(text % ("X-Key", "grpc-x"), "grpc://127.0.0.1:1")) == [
        ("agents.a.forward_headers[1]", "'grpc-x' cannot be metadata of gRPC")
    ]
    assert errors(agent('upstream_auth: { header: { X-Key: "a\\tb" } }', "grpc://127.0.0.1:1")) == [
        ("agents.a.upstream_auth.header.X-Key", "the value has a tab, which metadata of gRPC cannot have")
    ]
    own = "{ backend: 'grpc://127.0.0.1:1', upstream_auth: { header: { grpc-x: a } } }"
    assert [path for path, _ in errors(f"version: 1\nagents: {{ a: {{ by_tenant: {{ t: {own} }} }} }}\n")] == [
        "agents.a.by_tenant.t.upstream_auth.header.grpc-x"
    ]


# ---- who calls -----------------------------------------------------------------------------------------------------


def test_agents_are_told_who_calls_by_headers_of_any_name() -> None:
    names = "{ tenant: X-Harbor-Tenant, subject: X-Forwarded-User, session: X-Harbor-Session }"
    assert errors(agent(f"identity_headers: {names}")) == []
    assert errors(agent("identity_headers: { tenant: null, subject: '', session: false }")) == []
    assert errors(agent("identity_headers: { tenant: X-A2A-Subject, subject: X-A2A-Tenant }")) == []
    assert errors(agent("identity_headers: { session: Remote-User }, forward_headers: [X-Region]")) == []


OWN = {b"x-a2a-tenant", b"x-a2a-subject", b"remote-user", b"x-remote-user"}


@for_each(
    "name",
    [
        *(name.decode() for name in sorted((TO_AGENT | NEVER_FORWARDED) - OWN)),
        *("Sec-Fetch-Site", "Proxy-Status", "X-Forwarded-Host", "A2A-Anything", "Grpc-Timeout"),
    ],
)
def test_a_header_with_another_meaning_cannot_name_the_caller(name: str) -> None:
    fact = f"{name!r} has a meaning of its own to agents, or on the way to them"
    assert errors(f"version: 1\ndefaults: {{ identity_headers: {{ subject: {name} }} }}\nagents: {{}}\n") == [
        ("defaults.identity_headers.subject", fact)
    ]


@for_each(
    ("written", "key", "other"),
    [
        ("tenant: X-Who, subject: x-who", "subject", "tenant"),
        ("session: X-A2A-Tenant", "session", "tenant"),
        ("tenant: X-A2A-Subject", "tenant", "subject"),
    ],
)
def test_no_header_says_two_things(written: str, key: str, other: str) -> None:
    [(path, fact)] = errors(agent(f"identity_headers: {{ {written} }}"))
    assert path == f"agents.a.identity_headers.{key}"
    assert fact.endswith(f"is the header of `{other}` too")
    [(path, _)] = errors(f"version: 1\ndefaults: {{ identity_headers: {{ {written} }} }}\nagents: {{}}\n")
    assert path == f"defaults.identity_headers.{key}"


def test_headers_of_an_agent_are_checked_against_the_defaults() -> None:
    text = "version: 1\ndefaults: { identity_headers: { tenant: X-Org } }\nagents:\n  a: http://127.0.0.1:1\n"
    own = text + "  b: { backend: http://127.0.0.1:2, identity_headers: { session: X-Org } }\n"
    assert errors(text) == []
    assert [path for path, _ in errors(own)] == ["agents.b.identity_headers.session"]
    assert errors(own.replace("session: X-Org", "session: X-Org, tenant: null")) == []


@for_each("name", ["X-Org", "x-ORG"])
def test_identity_headers_cannot_be_forwarded(name: str) -> None:
    told = "identity_headers: { tenant: X-Org }"
    assert errors(agent(f"{told}, forward_headers: [{name}]")) == [
        (
            "agents.a.forward_headers[0]",
            f"`identity_headers` names the caller in {name!r}: a client could say that it is another",
        )
    ]
    defaults = f"version: 1\ndefaults: {{ {told} }}\nagents: {{ a: {{ backend: http://127.0.0.1:1, %s }} }}\n"
    assert [path for path, _ in errors(defaults % f"forward_headers: {name}")] == ["agents.a.forward_headers"]
    assert errors(defaults % f"forward_headers: {name}, identity_headers: {{ tenant: X-Other }}") == []


def test_agents_behind_grpc_are_told_by_metadata() -> None:
    text = "identity_headers: { session: 'X!Session' }"
    assert errors(agent(text)) == []
    fact = "'X!Session' cannot be metadata of gRPC"
    assert errors(agent(text, "grpc://127.0.0.1:1")) == [("agents.a.identity_headers.session", fact)]
    defaults = f"version: 1\ndefaults: {{ {text} }}\nagents: {{ a: grpc://127.0.0.1:1, b: grpc://127.0.0.1:2 }}\n"
    assert errors(defaults) == [("defaults.identity_headers.session", fact)]
