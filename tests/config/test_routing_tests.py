from pathlib import Path

import pytest

from gateway.config.model import Config
from gateway.config.routes import caller, public_prefix, routing_table
from gateway.config.yaml import Marks
from gateway.principal import Principal
from gateway.routing.explain import Inquiry, Question, ask
from tests.config.reading import HASH, errors, examined, good
from tests.config.test_client_trust import checked
from tests.table import for_each

TEXT = f"""\
version: 1
auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme, agents: [a] }} }} }}
tenants:
  acme: [a, crm, x, h]
  globex: [crm]
  "*": []
agents:
  a: http://127.0.0.1:1
  x: {{ backend: http://127.0.0.1:2, match: {{ path: /s, tenant: x }} }}
  h: {{ backend: http://127.0.0.1:3, match: {{ host: h.example }} }}
  crm: {{ by_tenant: {{ acme: http://127.0.0.1:4, globex: http://127.0.0.1:5 }} }}
"""


def answer(text: str, question: Question) -> str | None:
    config = good(text)
    table = routing_table(config, Marks())
    verdict = ask(table, question, prefix=public_prefix(config)).verdict
    return verdict.reason if verdict.route is None else verdict.route.backend


def config(text: str = TEXT) -> Config:
    return good(text)


ACME = Principal("acme", method="jwt")


@for_each(
    ("question", "expected"),
    [
        (Question("/a", "POST", principal=ACME), "a"),
        (Question("/a/v1/tasks/1?x=1", "GET", principal=ACME), "a"),
        (Question("/a/v1/tasks/1", "PUT", principal=ACME), "method_not_allowed"),
        (Question("/a/nothing/such", "POST", principal=ACME), "no_route"),
        (Question("/a%2fb", "POST", principal=ACME), "bad_request"),
        (Question("/ä", "POST", principal=ACME), "bad_request"),
        (Question("/s", "POST", principal=ACME, tenant="x"), "x"),
        (Question("/s/x/message:send", "POST", principal=ACME), "x"),
        (Question("/s", "POST", principal=ACME), "no_route"),
        (Question("/", "POST", principal=ACME, host="H.example"), "h"),
        (Question("/", "POST", principal=ACME), "no_route"),
        (Question("/crm", "POST", principal=ACME), "crm/acme"),
        (Question("/crm", "POST", principal=Principal("globex", method="jwt"), tenant="acme"), "no_route"),
        (Question("/a", "POST", principal=None), "auth_missing"),
        (Question("/a/.well-known/agent-card.json", "GET", principal=None), "a"),
    ],
)
def test_a_question_is_answered_as_traffic_is(question: Question, expected: str) -> None:
    assert answer(TEXT, question) == expected


def test_the_path_of_the_public_url_is_part_of_a_request_unless_it_was_removed() -> None:
    text = TEXT + "gateway: { public_url: 'https://gw.example/base/' }\n"
    assert public_prefix(config(text)) == ("base",)
    assert answer(text, Question("/base/a", "POST", principal=ACME)) == "a"
    assert answer(text, Question("/a", "POST", principal=ACME)) == "no_route"
    removed = text.replace("/base/'", "/base/', prefix_stripped: true")
    assert answer(removed, Question("/a", "POST", principal=ACME)) == "a"


def test_a_caller_is_known_by_a_key_a_tenant_or_not_at_all() -> None:
    assert caller(config(), Inquiry("/", key="bot")) == Principal(
        "acme", "bot", "api_key", key="bot", narrowed=frozenset("a")
    )
    assert caller(config(), Inquiry("/", as_="acme", claim={"x": 1})) == Principal(
        "acme", method="jwt", claims={"x": 1}
    )
    assert caller(config(), Inquiry("/")) is None
    assert caller(config(), Inquiry("/", as_="anonymous")) is None
    assert caller(config("version: 1\nagents: { a: http://127.0.0.1:1 }\n"), Inquiry("/")) == Principal("anonymous")
    with pytest.raises(KeyError):
        caller(config(), Inquiry("/", key="none"))


def failed(tests: str) -> list[str]:
    found = examined(TEXT + f"tests: [{tests}]\n")
    assert found.config is not None, found.problems
    return [one.fact for one in found.failed]


@for_each(
    "test",
    [
        "{ name: t1, key: bot, request: /a, expect: a }",
        "{ name: t1, tenant: acme, request: { path: /crm }, expect: { agent: crm, backend: 'http://127.0.0.1:4/' } }",
        "{ name: t1, tenant: other, request: /a, expect: { reason: tenant_denied } }",
        "{ name: t1, request: /a, expect: { reason: auth_missing } }",
        "{ name: t1, key: bot, request: /crm, expect: { reason: tenant_denied } }",
        "{ name: t1, tenant: acme, request: { method: GET, path: /s/x/tasks }, expect: { agent: x } }",
    ],
)
def test_a_test_that_holds_says_nothing(test: str) -> None:
    assert failed(test) == []


@for_each(
    ("test", "fact"),
    [
        ("{ name: t1, tenant: acme, request: /a, expect: x }", "expected x, got a at http://127.0.0.1:1"),
        (
            "{ name: t1, tenant: acme, request: /a, expect: { reason: no_route } }",
            "expected no_route, got a at http://127.0.0.1:1",
        ),
        ("{ name: t1, tenant: acme, request: /z, expect: a }", "expected a, got no_route"),
        (
            "{ name: t1, tenant: acme, request: /a, expect: { agent: a, backend: http://127.0.0.1:9 } }",
            "expected a at http://127.0.0.1:9, got a at http://127.0.0.1:1",
        ),
    ],
)
def test_a_test_that_fails_says_what_came_instead_and_why(test: str, fact: str) -> None:
    assert failed(test) == [f"the test 't1' fails: {fact}"]
    assert all(one.remedy for one in examined(TEXT + f"tests: [{test}]\n").failed)


@for_each(
    ("test", "path"),
    [
        ("{ name: t1, key: bat, request: /a, expect: a }", "key"),
        ("{ name: t1, key: bot, tenant: acme, request: /a, expect: a }", "key"),
        ("{ name: t1, certificate: a.test, request: /a, expect: a }", "certificate"),
        ("{ name: t1, certificate: a.test, key: bot, request: /a, expect: a }", "certificate"),
        ("{ name: t1, claim: { x: 1 }, request: /a, expect: a }", "claim"),
        ("{ name: t1, request: /a, expect: { agent: a, reason: no_route } }", "expect.reason"),
        ("{ name: t1, request: { path: /a, method: PATCH }, expect: a }", "request.method"),
    ],
)
def test_a_test_that_can_mean_nothing_is_refused(test: str, path: str) -> None:
    assert [one for one, _ in errors(TEXT + f"tests: [{test}]\n")] == [f"tests[0].{path}"]


def test_a_test_may_show_a_certificate(tmp_path: Path) -> None:
    tests = (
        '{ name: t1, certificate: "spiffe://mesh.test/acme/x", request: /echo, expect: echo }, '
        '{ name: t2, certificate: "spiffe://mesh.test/other/x", request: /echo, expect: echo }'
    )
    found = checked(tmp_path, more=f"tests: [{tests}]\n")
    assert found.errors == ()
    assert [one.fact for one in found.failed] == ["the test 't2' fails: expected echo, got tenant_denied"]


# ---- over gRPC -----------------------------------------------------------------------------------------------------

GRPC = TEXT.replace("auth:", "gateway: { listen_grpc: '127.0.0.1:0', public_url: 'https://gw.example/base' }\nauth:")
SEND, SCOPED = "/lf.a2a.v1.A2AService/SendMessage", "/a2a.v1.ScopedA2AService/SendMessage"


@for_each(
    ("question", "expected"),
    [
        (Question(SEND, principal=ACME, tenant="a"), "a"),
        (Question(SCOPED, principal=ACME, tenant="x"), "x"),
        (Question(SEND, principal=ACME, host="h.example"), "no_route"),
        (Question(SEND, principal=ACME, tenant="h"), "h"),
        (Question(SEND, principal=ACME, tenant="crm"), "no_route"),
        (Question(SCOPED, principal=ACME), "bad_request"),
        (Question("/base" + SEND, principal=ACME, tenant="a"), "no_route"),
        (Question("/base/a", principal=ACME), "a"),
    ],
)
def test_a_method_of_grpc_leads_where_its_traffic_goes(question: Question, expected: str) -> None:
    assert answer(GRPC, question) == expected


def test_tests_of_the_file_ask_over_grpc() -> None:
    tests = f"""tests:
  - {{ name: by name, key: bot, request: {{ path: {SEND}, tenant: a }}, expect: a }}
  - {{ name: by scope, tenant: acme, request: {{ path: {SCOPED}, tenant: x }}, expect: x }}
  - {{ name: in place of a host, tenant: acme, request: {{ path: {SEND}, tenant: h }}, expect: h }}
  - {{ name: nobody, tenant: acme, request: {{ path: {SEND}, tenant: z1 }}, expect: {{ reason: no_route }} }}
  - {{ name: wrong, tenant: acme, request: {{ path: {SEND}, tenant: a }}, expect: x }}
"""
    [failed] = examined(GRPC + tests).failed
    assert failed.fact == "the test 'wrong' fails: expected x, got a at http://127.0.0.1:1"
    [*_, first] = examined(TEXT + tests).failed
    assert first.remedy == "this is a method of gRPC, and there is no `gateway.listen_grpc`"
