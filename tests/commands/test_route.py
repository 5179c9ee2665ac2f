"""`route` asks the table of the file, and says in words what it answers."""

from pathlib import Path

import pytest

from gateway.commands.output import CommandFailed
from gateway.commands.route import as_text, explain_route, read_claims
from gateway.config.check import examine
from gateway.routing.explain import Inquiry
from tests.table import for_each

FILE = """\
version: 1
auth:
  api_keys:
    bot: { sha256: "%s", tenant: acme }
tenants:
  acme: [billing, support]
agents:
  support: https://support.example.com
  billing:
    match: { path: /a2a, tenant: billing }
    backend: https://billing.example.com
""" % ("0" * 64)
EXAMINED = examine(Path("gateway.yaml"), {}, text=FILE)


def test_the_agent_and_the_line_of_its_match_are_told() -> None:
    text = as_text(explain_route(EXAMINED, Inquiry(path="/a2a", tenant="billing", as_="acme")))
    assert text.startswith("200 billing at https://billing.example.com\n  by gateway.yaml:10\n")


def test_a_path_without_an_agent_shows_the_reason() -> None:
    assert as_text(explain_route(EXAMINED, Inquiry(path="/nothing", as_="acme"))).startswith("404 no_route\n")


def test_a_path_without_the_public_prefix_gets_a_suggestion() -> None:
    text = FILE.replace("auth:", "gateway: { public_url: https://gw.example.com/base }\nauth:")
    said = as_text(explain_route(examine(Path("gateway.yaml"), {}, text=text), Inquiry(path="/support", as_="acme")))
    assert said.startswith("404 no_route\n  → the path lacks /base")
    assert "/base/support" in said


def test_a_key_is_named_and_must_be_in_the_file() -> None:
    assert explain_route(EXAMINED, Inquiry(path="/support", key="bot"))["agent"] == "support"
    with pytest.raises(CommandFailed) as failed:
        explain_route(EXAMINED, Inquiry(path="/support", key="nobody"))
    assert failed.value.code == 2


def test_claims_are_json_where_they_can_be() -> None:
    claims = read_claims(["agent=research", "level=3", "beta=true", 'aud=["a","b"]', "x=a=b", 'n="3"'])
    assert claims == {"agent": "research", "level": 3, "beta": True, "aud": ["a", "b"], "x": "a=b", "n": "3"}


@for_each("pair", ["agent", "=x", ""])
def test_a_claim_without_a_value_is_refused(pair: str) -> None:
    with pytest.raises(CommandFailed, match="name=value"):
        read_claims([pair])


def test_a_method_of_grpc_is_told_with_the_line_of_the_match_whose_path_it_does_not_need() -> None:
    text = FILE.replace("auth:", "gateway: { listen_grpc: '127.0.0.1:0' }\nauth:", 1)
    found = examine(Path("gateway.yaml"), {}, text=text)
    method = "/a2a.v1.ScopedA2AService/SendMessage"
    said = as_text(explain_route(found, Inquiry(method, tenant="support", as_="acme"), everything=True))
    assert (
        said
        == """\
200 support at https://support.example.com
  by gateway.yaml:9
  taken: support (gateway.yaml:9): all it asks for holds
  not taken: billing (gateway.yaml:11): asks for tenant 'billing', the request has 'support'
"""
    )
    said = as_text(explain_route(found, Inquiry(method, as_="acme")))
    assert said.startswith("400 bad_request\n")
    assert "requests of the scoped service have a `scope`, and this one has none" in said
