import re
from pathlib import Path

import msgspec
import pytest

from gateway.a2a.paths import WRONG_NAME
from gateway.config.routes import explain_request, routing_table
from gateway.config.yaml import Marks
from gateway.routing.explain import Inquiry
from tests.config.reading import HASH, examined, good
from tests.config.test_client_trust import checked
from tests.table import for_each

CONFIG = good(f"""\
version: 1
auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }} }}
tenants: {{ acme: [a, b] }}
agents:
  a: http://127.0.0.1:1
  b: {{ backend: http://127.0.0.1:2, match: {{ path: /s, tenant: b }} }}
""")
TABLE = routing_table(CONFIG, Marks())


def test_the_answer_names_agent_backend_and_line() -> None:
    said = explain_request(CONFIG, TABLE, Inquiry("/s", tenant="b", key="bot"))
    assert (said["agent"], said["backend"], said["reason"]) == ("b", "http://127.0.0.1:2", None)
    assert said["match_line"]
    assert said["caller"] == {"tenant": "acme", "method": "api_key", "key": "bot"}


def test_a_refusal_names_its_reason_and_every_candidate() -> None:
    said = explain_request(CONFIG, TABLE, Inquiry("/s", as_="acme"), everything=True)
    assert (said["agent"], said["reason"]) == (None, "no_route")
    assert {each["agent"] for each in said["candidates"]} == {"a", "b"}
    assert all(each["why"] and not each["taken"] for each in said["candidates"])


def test_a_question_without_a_caller_is_a_strangers() -> None:
    said = explain_request(CONFIG, TABLE, Inquiry("/a"))
    assert (said["caller"], said["reason"]) == (None, "auth_missing")


def test_a_key_that_the_file_has_not_is_said_to_the_operator() -> None:
    with pytest.raises(LookupError, match="no API key 'bat'"):
        explain_request(CONFIG, TABLE, Inquiry("/a", key="bat"))


@for_each(
    ("inquiry", "words"),
    [
        (Inquiry("/a", key="bot", as_="globex"), "the API key 'bot' is of the tenant 'acme', not of 'globex'"),
        (Inquiry("/a", key="bot", claim={"x": 1}), "a key or a token, not both"),
        (Inquiry("/a", claim={"x": 1}), "name the tenant"),
        (Inquiry("/a", as_="anonymous", claim={"x": 1}), "name the tenant"),
    ],
)
def test_a_caller_that_cannot_be_is_said_to_the_operator(inquiry: Inquiry, words: str) -> None:
    with pytest.raises(LookupError, match=words):
        explain_request(CONFIG, TABLE, inquiry)
    assert explain_request(CONFIG, TABLE, Inquiry("/a", key="bot", as_="acme"))["agent"] == "a"


def test_a_certificate_is_asked_about_by_its_name(tmp_path: Path) -> None:
    clients = 'mesh: { uri: "spiffe://m/{tenant}/*" }, fax: { common_name: fax, tenant: acme, agents: [] }'
    config = checked(tmp_path, clients=clients).config
    assert config is not None
    resolver = routing_table(config, Marks())
    for name in ("spiffe://m/acme/x", "CN=fax"):
        said = explain_request(config, resolver, Inquiry("/echo", certificate=name))
        assert said["caller"] == {"tenant": "acme", "method": "mtls", "key": None}
    assert explain_request(config, resolver, Inquiry("/echo", certificate="spiffe://m/acme/x"))["agent"] == "echo"
    for inquiry, words in (
        (Inquiry("/echo", certificate="fax"), "no client has this certificate: no entry of auth.mtls.clients fits fax"),
        (Inquiry("/echo", certificate="CN=fax", as_="acme"), "give no key, tenant or claims with it"),
    ):
        with pytest.raises(LookupError, match=words):
            explain_request(config, resolver, inquiry)
    with pytest.raises(LookupError, match=r"there is no `auth\.mtls`"):
        explain_request(CONFIG, TABLE, Inquiry("/a", certificate="CN=fax"))


def test_a_path_without_the_public_prefix_gets_a_suggestion() -> None:
    config = good("version: 1\ngateway: { public_url: 'https://gw.example/base' }\nagents: { a: http://127.0.0.1:1 }\n")
    said = explain_request(config, routing_table(config, Marks()), Inquiry("/a/tasks?x=1"), everything=True)
    assert said["reason"] == "no_route"
    assert said["hint"].startswith("the path lacks /base, the path of `public_url`: clients send /base/a/tasks?x=1; ")
    assert explain_request(config, routing_table(config, Marks()), Inquiry("/base/a"))["hint"] is None


@for_each(("path", "meant"), [("a", "/a"), ("https://gw.example/a/tasks", "/a/tasks"), ("http://gw", "/")])
def test_a_malformed_path_gets_a_suggestion(path: str, meant: str) -> None:
    said = explain_request(CONFIG, TABLE, Inquiry(path, as_="acme"))
    assert (said["reason"], said["hint"]) == ("bad_request", f"a path starts with a slash: write {meant}")


@for_each(
    ("inquiry", "fact"),
    [
        (Inquiry("/a/tasks/b%2fc", "GET", as_="acme"), "the path has an escape that is not allowed"),
        (Inquiry("/a//tasks", as_="acme"), "the path has a character or an empty segment that is not allowed"),
        (Inquiry("/a?tenant=x&tenant=y", as_="acme"), "a query parameter stands twice"),
        (Inquiry("/s/b/message:send", tenant="y", as_="acme"), "two places of the request name a different tenant"),
        (Inquiry("/a", tenant="v1", as_="acme"), WRONG_NAME),
        (Inquiry("/a", tenant="x" * 257, as_="acme"), WRONG_NAME),
        (Inquiry("/a", tenant="b\nc", as_="acme"), WRONG_NAME),
    ],
)
def test_a_bad_request_is_explained_as_for_traffic(inquiry: Inquiry, fact: str) -> None:
    said = explain_request(CONFIG, TABLE, inquiry)
    assert (said["agent"], said["reason"], said["hint"]) == (None, "bad_request", fact)


@for_each(
    ("inquiry", "fact"),
    [
        (Inquiry("/a", "post"), "'post' is no method of HTTP: write POST"),
        (Inquiry("/a", ""), "'' is no method of HTTP: write POST or GET"),
        (Inquiry("/a", "PO ST"), "'PO ST' is no method of HTTP: write POST or GET"),
        (Inquiry("/a", host="a b"), "'a b' is no host: write a name, such as agents.example.com"),
        (Inquiry("/a", host="https://a.example"), "'https://a.example' is no host"),
        (Inquiry("/a", host="*.a.example"), "'*.a.example' is no host"),
        (Inquiry("/a", host="a..example"), "'a..example' is no host"),
    ],
)
def test_a_question_that_no_client_can_send_is_refused(inquiry: Inquiry, fact: str) -> None:
    with pytest.raises(LookupError, match=re.escape(fact)):
        explain_request(CONFIG, TABLE, inquiry)


@for_each("host", ["a.example", "A.Example.", "a.example:8443", "[::1]:8080", "", None])
def test_a_host_is_read_as_that_of_a_request(host: str | None) -> None:
    assert explain_request(CONFIG, TABLE, Inquiry("/a", host=host, as_="acme"))["agent"] == "a"


def test_a_question_is_read_by_its_own_names_and_no_others() -> None:
    asked = msgspec.json.decode(b'{"path":"/a","as":"acme","claim":{"x":1}}', type=Inquiry)
    assert (asked.as_, asked.method, asked.claim) == ("acme", "POST", {"x": 1})
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"path":"/a","tennant":"x"}', type=Inquiry)


NEEDED = (
    "cannot be reached over gRPC: only its path picks it, and the `tenant` that could stand for a path is for tenants "
    "of its own"
)


def test_a_method_of_grpc_is_asked_where_grpc_is_served() -> None:
    text = """\
    version: 1
    gateway: { listen_grpc: "127.0.0.1:0", public_url: "https://gw.example/base" }
    agents:
      a: http://127.0.0.1:1
      crm: { by_tenant: { a: http://127.0.0.1:2 } }
    """
    method = "/lf.a2a.v1.A2AService/GetTask"
    found = examined(text)
    assert found.config is not None
    made = routing_table(found.config, found.marks)
    said = explain_request(found.config, made, Inquiry(method, tenant="a"), everything=True)
    assert (said["agent"], said["hint"], said["match_line"]) == ("a", None, "gateway.yaml:4")
    assert [(each["agent"], each["line"], each["taken"]) for each in said["candidates"]] == [
        ("a", "gateway.yaml:4", True),
        ("crm", "gateway.yaml:5", False),
    ]
    said = explain_request(found.config, made, Inquiry(method), everything=True)
    assert (said["reason"], said["hint"]) == ("no_route", None)
    assert [each["why"] for each in said["candidates"]] == [
        "asks for tenant 'a', its name, which stands for the path /a, the request has none",
        NEEDED,
    ]
    said = explain_request(CONFIG, TABLE, Inquiry(method, as_="acme", tenant="a"))
    assert (said["reason"], said["hint"]) == (
        "no_route", "this is a method of gRPC, and there is no `gateway.listen_grpc`"
    )  # fmt: skip
