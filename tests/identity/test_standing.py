from dataclasses import replace
from typing import Any

import pytest

from gateway.config.client import Client, Clients
from gateway.config.model import Auth
from gateway.identity.standing import standing, still_proven
from gateway.principal import ANONYMOUS_TENANT, Principal

HASH = "0" * 64
AUTH = Auth.model_validate(
    {
        "issuers": {
            "corp": {"issuer": "https://i.test", "audience": "a", "tenant_claim": "org"},
            "fixed": {"issuer": "https://f.test", "audience": "a", "tenant": "acme"},
        },
        "api_keys": {"ann": {"sha256": HASH, "tenant": "acme", "agents": ["crm"], "expires": "2026-11-22"}},
    }
)
LAST_DAY = 1_795_392_000.0
"""The first moment behind the last day of the key."""


def proven(tenant: str, principal: str, *, anonymous: bool = False, now: float = 0.0) -> Principal | None:
    return standing(AUTH, tenant, principal, anonymous=anonymous, now=now)


def test_a_key_stands_as_the_file_has_it_now_and_until_its_end() -> None:
    found = proven("acme", "/ann", now=LAST_DAY - 1)
    assert found is not None
    assert (found.tenant, found.subject, found.method, found.narrowed) == ("acme", "ann", "api_key", frozenset({"crm"}))
    assert proven("acme", "/ann", now=LAST_DAY) is None


@pytest.mark.parametrize(
    ("tenant", "principal"),
    [
        ("globex", "/ann"),
        ("acme", "/bob"),
        ("acme", "other/ann"),
        ("globex", "fixed/ann"),
        ("acme", ""),
        ("acme", "/"),
        (ANONYMOUS_TENANT, "/"),
    ],
)
def test_who_cannot_be_proven_to_be_that_any_more_is_nobody(tenant: str, principal: str) -> None:
    assert proven(tenant, principal) is None


def test_of_tokens_the_issuer_counts() -> None:
    for tenant, principal in (("globex", "corp/a/b"), ("globex", "corp/"), ("acme", "fixed/ann")):
        issuer, _, subject = principal.partition("/")
        assert proven(tenant, principal) == Principal(tenant, subject, "jwt", issuer)


@pytest.mark.parametrize(
    ("tenant", "principal", "stands"),
    [
        ("acme", "mtls/spiffe://m/acme/x", True),
        ("globex", "mtls/spiffe://m/acme/x", False),
        ("acme", "mtls/spiffe://m/acme/x/y", False),
        ("globex", "mtls/CN=fax", True),
        ("globex", "mtls/fax", False),
        ("acme", "mtls/", False),
    ],
)
def test_of_certificates_the_name_counts(tenant: str, principal: str, *, stands: bool) -> None:
    mtls = {
        "ca": "clients.pem",
        "clients": {"mesh": {"uri": "spiffe://m/{tenant}/*"}, "fax": {"common_name": "fax", "tenant": "globex"}},
    }
    auth = Auth.model_validate({"mtls": mtls})
    assert auth.mtls is not None
    clients = Clients(auth.mtls.clients)
    found = standing(auth, tenant, principal, anonymous=True, now=0.0, clients=clients)
    assert (found is not None) is stands
    assert found is None or (found.tenant, f"mtls/{found.subject}", found.method) == (tenant, principal, "mtls")
    assert standing(Auth(), tenant, principal, anonymous=True, now=0.0) is None


def test_a_certificate_still_proves_what_its_names_do_now() -> None:
    san = ("spiffe://m/acme/x",)
    caller = Principal("acme", san[0], "mtls", "mtls", claims={"san": san})
    fax = Principal("globex", "CN=fax", "mtls", "mtls", claims={"san": ()})

    def still(principal: Principal, **clients: dict[str, Any]) -> Principal | None:
        mtls = {"ca": "clients.pem", "clients": clients}
        rules = Clients({name: Client.model_validate(each) for name, each in clients.items()}) if clients else None
        auth = Auth.model_validate({"mtls": mtls})
        return still_proven(auth, principal, anonymous=True, now=0.0, clients=rules)

    found = still(caller, mesh={"uri": "spiffe://m/{tenant}/*", "agents": "echo"})
    assert found is not None
    assert (found.tenant, found.subject, found.narrowed) == ("acme", san[0], frozenset({"echo"}))
    assert still(caller, mesh={"uri": "spiffe://m/*/*", "tenant": "globex"}) is None
    assert still(caller, mesh={"uri": "spiffe://n/{tenant}/*"}) is None
    assert still(caller) is None
    assert still(fax, fax={"common_name": "fax", "tenant": "globex"}) is not None
    assert still(fax, fax={"dns": "fax", "tenant": "globex"}) is None


def test_who_shows_nothing_stands_where_such_callers_are_admitted() -> None:
    found = proven(ANONYMOUS_TENANT, "/", anonymous=True)
    assert found is not None
    assert found.method == "anonymous"
    assert proven("acme", "/", anonymous=True) is None


def test_where_nobody_is_asked_for_a_credential_nobody_but_the_anonymous_stands() -> None:
    assert standing(None, "acme", "/ann", anonymous=True, now=0.0) is None
    assert standing(None, "acme", "corp/ann", anonymous=True, now=0.0) is None
    assert standing(None, ANONYMOUS_TENANT, "/", anonymous=True, now=0.0) is not None


# ---- Within a call ---------------------------------------------------------------------------------------------------

ANN = Principal("acme", "ann", "api_key", key="ann", expires=LAST_DAY, digest=HASH)


def of_token(issuer: str, tenant: str, **claims: object) -> Principal:
    return Principal(tenant, "bob", "jwt", issuer, claims=claims)


BOB = of_token("corp", "globex", iss="https://i.test", aud="a", org="globex")


def again(principal: Principal, *, anonymous: bool = False, now: float = 0.0) -> Principal | None:
    return still_proven(AUTH, principal, anonymous=anonymous, now=now)


def test_a_key_is_what_the_file_makes_of_it_now() -> None:
    found = again(ANN)
    assert found is not None
    assert (found.narrowed, found.digest) == (frozenset({"crm"}), HASH)


def test_the_end_of_a_key_that_was_known_when_it_was_shown_ends_nothing() -> None:
    assert again(ANN, now=LAST_DAY + 1) is not None
    assert again(replace(ANN, expires=LAST_DAY + 86_400), now=LAST_DAY + 1) is None
    assert again(replace(ANN, expires=LAST_DAY + 86_400), now=LAST_DAY - 1) is not None


@pytest.mark.parametrize(
    "principal",
    [
        replace(ANN, subject="eve"),
        replace(ANN, tenant="globex"),
        replace(ANN, digest="1" * 64),
        replace(BOB, issuer="other"),
        replace(BOB, tenant="acme"),
        of_token("corp", "globex", iss="https://i.test", aud=["b"], org="globex"),
        of_token("corp", "globex", iss="https://f.test", aud="a", org="globex"),
        of_token("fixed", "globex", iss="https://f.test", aud="a"),
        Principal(ANONYMOUS_TENANT),
    ],
)
def test_what_the_file_does_not_accept_any_more_proves_nothing(principal: Principal) -> None:
    assert again(principal) is None


def test_a_token_is_taken_by_its_claims() -> None:
    assert again(BOB) is BOB
    assert again(of_token("corp", "globex", iss="https://i.test", aud=["b", "a"], org="globex")) is not None
    assert again(of_token("fixed", "acme", iss="https://f.test", aud="a")) is not None


def test_who_showed_nothing_stays_where_anonymous_callers_do() -> None:
    assert again(Principal(ANONYMOUS_TENANT), anonymous=True) == Principal(ANONYMOUS_TENANT)
    # Where nobody is asked any more all are anonymous.
    assert still_proven(None, ANN, anonymous=True, now=0.0) == Principal(ANONYMOUS_TENANT)
