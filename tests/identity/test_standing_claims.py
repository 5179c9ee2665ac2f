"""Callers as another configuration sees them: tenants by a map, other subjects, and clients that speak for others."""

from typing import Any

import pytest

from gateway.config.client import Client, Clients
from gateway.config.model import Auth
from gateway.identity.standing import standing, still_proven
from gateway.principal import Principal

NAMED = frozenset({"acme", "globex"})
CLAIMS = {"iss": "https://i.test", "aud": "a", "tid": "t-1", "sub": "s", "oid": "o"}
CALLER = Principal("acme", "o", "jwt", "corp", claims=CLAIMS)
SAN = ("spiffe://m/acme/x",)


def by(**issuer: Any) -> Auth:
    settings = {"issuer": "https://i.test", "audience": "a", "tenant_claim": "tid", "principal_claim": "oid", **issuer}
    return Auth.model_validate({"issuers": {"corp": settings}})


@pytest.mark.parametrize(
    ("issuer", "stands"),
    [
        ({"tenant_map": {"t-1": "acme"}}, True),
        ({"tenant_map": {"t-1": "globex"}}, False),
        ({"tenant_map": {"t-2": "acme"}}, False),
        ({"tenant_map": {"*": "acme"}}, True),
        ({}, False),
        ({"tenant_map": {"t-1": "acme"}, "principal_claim": "sub"}, False),
        ({"tenant_map": {"t-1": "acme"}, "audience": "b"}, False),
    ],
)
def test_a_stream_goes_on_where_its_token_would_be_the_same_callers(issuer: dict[str, Any], *, stands: bool) -> None:
    found = still_proven(by(**issuer), CALLER, anonymous=False, now=0.0, tenants=NAMED)
    assert (found is CALLER) is stands


@pytest.mark.parametrize(
    ("mapped", "tenant", "stands"),
    [
        ({"t-1": "acme"}, "acme", True),
        ({"t-1": "acme"}, "globex", False),
        ({"t-1": "acme"}, "t-9", True),
        ({"t-1": "acme", "*": "globex"}, "t-9", False),
        ({"t-1": "acme", "*": "globex"}, "globex", True),
        ({}, "globex", True),
    ],
)
def test_an_owner_stands_where_the_map_could_make_it_one(mapped: dict[str, str], tenant: str, *, stands: bool) -> None:
    found = standing(by(tenant_map=mapped), tenant, "corp/o", anonymous=False, now=0.0, tenants=NAMED)
    assert (found is not None) is stands


def clients(**entry: Any) -> tuple[Auth, Clients]:
    written = {"uri": "spiffe://m/{tenant}/*", **entry}
    auth = Auth.model_validate({"mtls": {"ca": "clients.pem", "clients": {"mesh": written}}})
    return auth, Clients({"mesh": Client.model_validate(written)})


@pytest.mark.parametrize("trusted", [True, False])
def test_whom_a_client_spoke_for_stands_as_long_as_it_is_trusted(*, trusted: bool) -> None:
    auth, rules = clients(trust_identity_headers=trusted)
    caller = Principal(
        "acme", SAN[0], "mtls", "mtls", claims={"san": SAN}, trusted=True, on_behalf_of="alice", session="s1"
    )
    found = still_proven(auth, caller, anonymous=False, now=0.0, clients=rules)
    owner = standing(auth, "acme", f"mtls/{caller.who}", anonymous=False, now=0.0, clients=rules)
    if not trusted:
        assert found is owner is None
        return
    assert found is not None
    assert owner is not None
    assert (found.who, found.session) == (f"{SAN[0]}\nalice", "s1")
    assert owner.who == found.who


def test_what_is_on_a_certificate_is_known_while_its_call_goes_on() -> None:
    auth, rules = clients()
    caller = Principal("acme", SAN[0], "mtls", "mtls", claims={"san": SAN, "subject": "CN=x", "client": "was"})
    found = still_proven(auth, caller, anonymous=False, now=0.0, clients=rules)
    assert found is not None
    assert found.claims == {"san": SAN, "subject": "CN=x", "client": "mesh"}
