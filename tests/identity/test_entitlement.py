"""Owners and open calls, as another configuration sees them."""

from dataclasses import replace
from typing import Any

from gateway.config.model import Auth, Client
from gateway.identity import settings
from gateway.identity.client_names import Clients
from gateway.identity.entitlement import Entitlement
from gateway.principal import ANONYMOUS_TENANT, Principal
from tests.table import for_each

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
    return Entitlement(AUTH.as_settings(), anonymous=anonymous).of_owner(tenant, principal, now)


def test_a_key_stands_as_the_file_has_it_now_and_until_its_end() -> None:
    found = proven("acme", "/ann", now=LAST_DAY - 1)
    assert found is not None
    assert (found.tenant, found.subject, found.method, found.narrowed) == ("acme", "ann", "api_key", frozenset({"crm"}))
    assert proven("acme", "/ann", now=LAST_DAY) is None


@for_each(
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
def test_principals_without_proof_are_not_entitled(tenant: str, principal: str) -> None:
    assert proven(tenant, principal) is None


def test_owners_by_token_are_known_by_their_issuer() -> None:
    for tenant, principal in (("globex", "corp/a/b"), ("globex", "corp/"), ("acme", "fixed/ann")):
        issuer, _, subject = principal.partition("/")
        assert proven(tenant, principal) == Principal(tenant, subject, "jwt", issuer)


@for_each(
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
def test_owners_by_certificate_are_known_by_their_name(tenant: str, principal: str, *, stands: bool) -> None:
    mtls = {
        "ca": "clients.pem",
        "clients": {"mesh": {"uri": "spiffe://m/{tenant}/*"}, "fax": {"common_name": "fax", "tenant": "globex"}},
    }
    auth = Auth.model_validate({"mtls": mtls})
    assert auth.mtls is not None
    clients = Clients(auth.mtls.as_settings().clients)
    found = Entitlement(auth.as_settings(), anonymous=True, clients=clients).of_owner(tenant, principal, 0.0)
    assert (found is not None) is stands
    assert found is None or (found.tenant, f"mtls/{found.subject}", found.method) == (tenant, principal, "mtls")
    assert Entitlement(settings.AuthSettings(), anonymous=True).of_owner(tenant, principal, 0.0) is None


def test_a_certificate_still_proves_what_its_names_do_now() -> None:
    san = ("spiffe://m/acme/x",)
    caller = Principal("acme", san[0], "mtls", "mtls", claims={"san": san})
    fax = Principal("globex", "CN=fax", "mtls", "mtls", claims={"san": ()})

    def still(principal: Principal, **clients: dict[str, Any]) -> Principal | None:
        mtls = {"ca": "clients.pem", "clients": clients}
        rules = (
            Clients({name: Client.model_validate(each).as_settings() for name, each in clients.items()})
            if clients
            else None
        )
        auth = Auth.model_validate({"mtls": mtls})
        return Entitlement(auth.as_settings(), anonymous=True, clients=rules).of_caller(principal, 0.0)

    found = still(caller, mesh={"uri": "spiffe://m/{tenant}/*", "agents": "echo"})
    assert found is not None
    assert (found.tenant, found.subject, found.narrowed) == ("acme", san[0], frozenset({"echo"}))
    assert still(caller, mesh={"uri": "spiffe://m/*/*", "tenant": "globex"}) is None
    assert still(caller, mesh={"uri": "spiffe://n/{tenant}/*"}) is None
    assert still(caller) is None
    assert still(fax, fax={"common_name": "fax", "tenant": "globex"}) is not None
    assert still(fax, fax={"dns": "fax", "tenant": "globex"}) is None


@for_each(
    ("asks", "tenant", "principal", "stands"),
    [
        (True, ANONYMOUS_TENANT, "/", True),
        (True, "acme", "/", False),
        (False, ANONYMOUS_TENANT, "/", True),
        (False, "acme", "/ann", False),
        (False, "acme", "corp/ann", False),
    ],
)
def test_the_anonymous_stays_entitled_if_anonymous_callers_are_allowed(
    tenant: str, principal: str, *, asks: bool, stands: bool
) -> None:
    now = Entitlement(AUTH.as_settings() if asks else None, anonymous=True)
    assert (now.of_owner(tenant, principal, 0.0) is not None) is stands


# ---- Within a call ---------------------------------------------------------------------------------------------------

ANN = Principal("acme", "ann", "api_key", key="ann", expires=LAST_DAY, digest=HASH)


def of_token(issuer: str, tenant: str, **claims: object) -> Principal:
    return Principal(tenant, "bob", "jwt", issuer, claims=claims)


BOB = of_token("corp", "globex", iss="https://i.test", aud="a", org="globex")


def again(principal: Principal, *, anonymous: bool = False, now: float = 0.0) -> Principal | None:
    return Entitlement(AUTH.as_settings(), anonymous=anonymous).of_caller(principal, now)


def test_the_end_of_a_key_that_was_known_when_it_was_shown_ends_nothing() -> None:
    assert again(ANN, now=LAST_DAY + 1) is not None
    assert again(replace(ANN, expires=LAST_DAY + 86_400), now=LAST_DAY + 1) is None
    assert again(replace(ANN, expires=LAST_DAY + 86_400), now=LAST_DAY - 1) is not None


@for_each(
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
def test_credentials_removed_from_the_file_prove_nothing(principal: Principal) -> None:
    assert again(principal) is None


def test_a_token_is_taken_by_its_claims() -> None:
    assert again(BOB) is BOB
    assert again(of_token("corp", "globex", iss="https://i.test", aud=["b", "a"], org="globex")) is not None
    assert again(of_token("fixed", "acme", iss="https://f.test", aud="a")) is not None


# ---- Mapped tenants, and clients that speak for others ---------------------------------------------------------------

NAMED = frozenset({"acme", "globex"})
CLAIMS = {"iss": "https://i.test", "aud": "a", "tid": "t-1", "sub": "s", "oid": "o"}
CALLER = Principal("acme", "o", "jwt", "corp", claims=CLAIMS)
SAN = ("spiffe://m/acme/x",)


def by(**issuer: Any) -> Auth:
    settings = {"issuer": "https://i.test", "audience": "a", "tenant_claim": "tid", "principal_claim": "oid", **issuer}
    return Auth.model_validate({"issuers": {"corp": settings}})


@for_each(
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
    found = Entitlement(by(**issuer).as_settings(), anonymous=False, tenants=NAMED).of_caller(CALLER, 0.0)
    assert (found is CALLER) is stands


@for_each(
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
    found = Entitlement(by(tenant_map=mapped).as_settings(), anonymous=False, tenants=NAMED).of_owner(
        tenant, "corp/o", 0.0
    )
    assert (found is not None) is stands


def of_clients(**entry: Any) -> Entitlement:
    written = {"uri": "spiffe://m/{tenant}/*", **entry}
    auth = Auth.model_validate({"mtls": {"ca": "clients.pem", "clients": {"mesh": written}}})
    return Entitlement(
        auth.as_settings(), anonymous=False, clients=Clients({"mesh": Client.model_validate(written).as_settings()})
    )


@for_each("trusted", [True, False])
def test_delegated_principals_stay_entitled_while_their_client_is_trusted(*, trusted: bool) -> None:
    now = of_clients(trust_identity_headers=trusted)
    caller = Principal(
        "acme", SAN[0], "mtls", "mtls", claims={"san": SAN}, trusted=True, on_behalf_of="alice", session="s1"
    )
    found = now.of_caller(caller, 0.0)
    owner = now.of_owner("acme", f"mtls/{caller.who}", 0.0)
    if not trusted:
        assert found is owner is None
        return
    assert found is not None
    assert owner is not None
    assert (found.who, found.session) == (f"{SAN[0]}\nalice", "s1")
    assert owner.who == found.who


def test_claims_of_a_certificate_last_as_long_as_its_call() -> None:
    now = of_clients()
    caller = Principal("acme", SAN[0], "mtls", "mtls", claims={"san": SAN, "subject": "CN=x", "client": "was"})
    found = now.of_caller(caller, 0.0)
    assert found is not None
    assert found.claims == {"san": SAN, "subject": "CN=x", "client": "mesh"}
