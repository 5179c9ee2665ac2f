"""Token endpoints of agents: what is refused, and what is shown."""

import pytest

from gateway.config.effective import masked
from tests.config.reading import HASH, errors, good

AUTH = "auth: { issuers: { corp: { issuer: 'https://idp.example', audience: a, tenant: acme } } }"
GOOD = "token_url: 'https://idp.example/token', client_id: gw, client_secret: s3cret"


def agent(auth: str, more: str = "", head: str = AUTH, backend: str = "http://127.0.0.1:1") -> str:
    entry = f"{{ backend: {backend}, upstream_auth: {{ {auth} }}{more} }}"
    return f"version: 1\n{head}\ntenants: {{ acme: [a] }}\nagents: {{ a: {entry} }}\n"


@pytest.mark.parametrize(
    "auth",
    [
        f"oauth2: {{ {GOOD} }}",
        f"exchange: {{ {GOOD}, resource: 'https://x.example', audience: [one, two], client_auth: post }}",
        f"oauth2: {{ {GOOD}, scopes: [a, 'b:c'] }}, exchange: {{ {GOOD} }}",
        "oauth2: { token_url: 'http://127.0.0.1:9/t', client_id: gw, client_secret: x, tls: { ca: system } }",
    ],
)
def test_valid_token_endpoints_are_accepted(auth: str) -> None:
    assert errors(agent(auth)) == []


ONE = "it needs exactly one of `bearer`, `header`, `oauth2` and `exchange`"
PLAIN = GOOD.replace("https", "http")
QUOTES = '""'


@pytest.mark.parametrize(
    ("auth", "path", "fact"),
    [
        (f"bearer: x, oauth2: {{ {GOOD} }}", "", ONE),
        (f"header: {{ X: abc }}, exchange: {{ {GOOD} }}", "", ONE),
        (f"oauth2: {{ {PLAIN} }}", ".oauth2.token_url", "the URL is plain http to another machine"),
        (f"oauth2: {{ {GOOD.replace('/token', '/t?x=1')} }}", ".oauth2.token_url", "the URL has a query"),
        (f"exchange: {{ {GOOD.replace('gw', QUOTES)} }}", ".exchange.client_id", "it is empty"),
        (f"exchange: {{ {GOOD.replace('s3cret', QUOTES)} }}", ".exchange.client_secret", "it is empty"),
        (f"oauth2: {{ {GOOD}, scopes: [a, 'b c'] }}", ".oauth2.scopes[1]", "this is no scope"),
        (f"oauth2: {{ {GOOD}, audience: '' }}", ".oauth2.audience", "it is empty"),
    ],
)
def test_a_token_endpoint_that_cannot_be_used_is_refused(auth: str, path: str, fact: str) -> None:
    assert errors(agent(auth)) == [(f"agents.a.upstream_auth{path}", fact)]


def test_plain_http_is_for_trusted_networks_only() -> None:
    assert errors(agent(f"oauth2: {{ {PLAIN} }}", ", allow_insecure: true")) == []


def test_tokens_are_no_second_credential_and_none_for_a_process() -> None:
    forwarding = "`forward_caller` and `upstream_auth` both set the credential that the agent gets"
    assert errors(agent(f"oauth2: {{ {GOOD} }}", ", forward_caller: true")) == [("agents.a.forward_caller", forwarding)]
    process = errors(agent(f"oauth2: {{ {GOOD} }}", backend="{ stdio: [python3] }"))
    assert process == [("agents.a.upstream_auth.oauth2", "tokens are for agents that are reached by a URL")]


def test_an_exchange_needs_callers_with_tokens() -> None:
    fact = "a caller's token is to be exchanged, and no caller can show one"
    keys = f"auth: {{ api_keys: {{ k: {{ sha256: {HASH}, tenant: acme }} }} }}"
    assert errors(agent(f"exchange: {{ {GOOD} }}", head=keys)) == [("agents.a.upstream_auth.exchange", fact)]


def test_the_secret_is_shown_nowhere() -> None:
    config = good(agent(f"exchange: {{ {GOOD} }}"))
    told = str(masked(config)["agents"]["a"]["upstream_auth"])
    assert "s3cret" not in told
    assert "https://idp.example/token" in told
