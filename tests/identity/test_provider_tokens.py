"""Tokens with the claims that Keycloak 26, Auth0 and Entra ID v2 give them: whose they are, and what they hold."""

from typing import Any

import pytest

from gateway.a2a.fault import AuthInvalid, AuthMissing, TenantNotMapped
from gateway.principal import Principal
from gateway.routing.route import Requirement
from tests.identity.issuance import auth, authenticator, bearer, identify, token
from tests.table import for_each

DIRECTORY = "9188040d-6c67-4c5b-b112-36a304b66dad"
OTHER_DIRECTORY = "72f988bf-86f1-41af-91ab-2d7cd011db47"

KEYCLOAK: dict[str, Any] = {
    "typ": "Bearer",
    "azp": "desk",
    "sid": "5d5d6a2e-f8b7-4b9a-9d1c-0f1c5f6f1f11",
    "sub": "3b1f1a64-6a5e-4d6a-9c3a-6a1c9a1de0a1",
    "org": ...,
    "scope": "openid organization agents.call",
    "realm_access": {"roles": ["offline_access", "operator"]},
    "resource_access": {"app": {"roles": ["reader"]}, "https://my.app": {"roles": ["writer"]}},
    "organization": ["acme"],
    "preferred_username": "ada",
}
AUTH0: dict[str, Any] = {
    "aud": ["agents", "https://example.eu.auth0.com/userinfo"],
    "sub": "auth0|507f1f77bcf86cd799439020",
    "azp": "my_client_id",
    "org": ...,
    "org_id": "org_9ybsU1dN2dKfDkBi",
    "scope": "openid profile agents.call",
    "permissions": ["call:billing"],
    "https://example.com/roles": ["clerk"],
}
ENTRA: dict[str, Any] = {
    "ver": "2.0",
    "org": ...,
    "tid": DIRECTORY,
    "oid": "00000000-0000-0000-66f3-3332eca7ea81",
    "sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ",
    "preferred_username": "ada@contoso.com",
    "scp": "Agents.Call Agents.Read",
    "roles": ["Operator"],
}


def who(claims: dict[str, Any], *, tenants: frozenset[str] = frozenset(), **issuer: Any) -> Principal:
    principal = identify(authenticator(settings=auth(**issuer), tenants=tenants), bearer(token(**claims)))
    assert principal is not None
    return principal


ONE: list[object] = [["acme"], {"acme": {}}, {"acme": {"id": "a1", "groups": ["/desk"]}}, "acme"]
SEVERAL_OR_NONE: list[object] = [
    *(["acme", "globex"], {"acme": {}, "globex": {}}, [["acme"]]),
    *([], {}, 7, True, None, ..., ["-"], "anonymous"),
]


@for_each(
    ("organization", "tenant"),
    [*((each, "acme") for each in ONE), *((each, None) for each in SEVERAL_OR_NONE)],
)
def test_one_organization_of_keycloak_is_a_tenant_and_several_or_none_are_not(
    organization: object, tenant: str | None
) -> None:
    claims = {**KEYCLOAK, "organization": organization}
    if tenant is not None:
        principal = who(claims, tenant_claim="organization")
        assert (principal.tenant, principal.subject) == (tenant, KEYCLOAK["sub"])
        return
    with pytest.raises(AuthInvalid, match="names no tenant"):
        who(claims, tenant_claim="organization")


def test_a_tenant_is_found_by_a_path() -> None:
    nested = {"https://example.com/app": {"tenant": "acme"}}
    assert who({**AUTH0, **nested}, tenant_claim="https://example.com/app.tenant").tenant == "acme"
    with pytest.raises(AuthInvalid, match="names no tenant"):
        who(AUTH0, tenant_claim="https://example.com/app.tenant")


def test_a_directory_is_the_tenant_that_the_map_says() -> None:
    mapped = {"tenant_claim": "tid", "tenant_map": {DIRECTORY: "acme"}, "principal_claim": "oid"}
    principal = who(ENTRA, tenants=frozenset({"acme"}), **mapped)
    assert (principal.tenant, principal.subject) == ("acme", ENTRA["oid"])
    assert who(AUTH0, tenant_claim="org_id", tenant_map={AUTH0["org_id"]: "acme"}).tenant == "acme"


def test_another_directory_is_a_tenant_of_its_own_and_never_one_of_the_file() -> None:
    mapped: dict[str, Any] = {"tenant_claim": "tid", "tenant_map": {DIRECTORY: "acme"}}
    named = frozenset({"acme", "globex", "*"})
    assert who({**ENTRA, "tid": OTHER_DIRECTORY}, tenants=named, **mapped).tenant == OTHER_DIRECTORY
    for value in ("acme", "globex", "*", "-", "anonymous", "a b", "x" * 65, "tenants/1"):
        with pytest.raises(TenantNotMapped) as refused:
            who({**ENTRA, "tid": value}, tenants=named, **mapped)
        assert (refused.value.http_status, refused.value.reason) == (403, "tenant_denied")


def test_the_star_of_the_map_is_every_other_value_and_no_other_type() -> None:
    mapped: dict[str, Any] = {"tenant_claim": "tid", "tenant_map": {DIRECTORY: "acme", "*": "guests"}}
    assert who(ENTRA, **mapped).tenant == "acme"
    assert who({**ENTRA, "tid": "tenants/1"}, **mapped).tenant == "guests"
    for value in (7, None, ..., ["a", "b"]):
        with pytest.raises(AuthInvalid):
            who({**ENTRA, "tid": value}, **mapped)


def test_a_refusal_by_the_map_is_remembered_and_told_alike() -> None:
    settings = auth(tenant_claim="tid", tenant_map={DIRECTORY: "acme"})
    found = authenticator(settings=settings, tenants=frozenset({"acme"}))
    shown = bearer(token(**{**ENTRA, "tid": "acme"}))
    words = []
    for _ in range(2):
        with pytest.raises(AuthMissing) as refused:
            identify(found, shown)
        words.append((type(refused.value), refused.value.message, refused.value.http_status))
    assert words == [(TenantNotMapped, "this tenant is not admitted", 403)] * 2


@for_each(
    ("path", "subject"),
    [("sub", ENTRA["sub"]), ("preferred_username", "ada@contoso.com"), ("nowhere", ""), ("x.y", "n")],
)
def test_another_claim_may_name_the_principal(path: str, subject: str) -> None:
    assert who({**ENTRA, "x": {"y": "n"}}, tenant_claim="tid", principal_claim=path).subject == subject


@for_each("value", [7, None, ["ada"], {"ada": 1}, "a\nb"])
def test_a_principal_is_a_printable_text(value: object) -> None:
    with pytest.raises(AuthInvalid, match="malformed"):
        who({**ENTRA, "oid": value}, tenant_claim="tid", principal_claim="oid")


@for_each(
    ("claims", "requirement"),
    [
        (KEYCLOAK, Requirement(("agents.call",), ("operator",), (("resource_access.app.roles", "reader"),))),
        (KEYCLOAK, Requirement(claims=(("resource_access.https://my.app.roles", "writer"), ("organization", "acme")))),
        ({**KEYCLOAK, "organization": {"acme": {"id": "1"}}}, Requirement(claims=(("organization", "acme"),))),
        (AUTH0, Requirement(("agents.call",), (), (("permissions", "call:billing"),))),
        (AUTH0, Requirement(claims=(("https://example.com/roles", "clerk"),))),
        (ENTRA, Requirement(("Agents.Call", "Agents.Read"), ("Operator",), (("tid", DIRECTORY),))),
    ],
)
def test_required_claims_are_found_in_tokens_of_providers(claims: dict[str, Any], requirement: Requirement) -> None:
    assert requirement.lacking(Principal("acme", claims=claims)) == ()


@for_each(
    "requirement",
    [
        Requirement(("agents.cal",)),
        Requirement(("agents.call", "agents.admin")),
        Requirement((), ("admin",)),
        Requirement((), ("operator", "admin")),
        Requirement((), ("reader",)),
        Requirement(claims=(("resource_access.app.roles", "writer"),)),
        Requirement(claims=(("realm_access.roles.operator", True),)),
        Requirement(claims=(("organization", "globex"),)),
    ],
)
def test_absent_claims_are_lacking(requirement: Requirement) -> None:
    assert requirement.lacking(Principal("acme", claims=KEYCLOAK)) != ()
    assert requirement.lacking(Principal("acme", method="api_key", key="k")) != ()
