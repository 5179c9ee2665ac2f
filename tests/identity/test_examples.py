"""The example file of each identity provider, with tokens as that provider writes them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.identity.corpus.genuine import good, published
from tests.identity.front import shown
from tests.identity.issuance import DISCOVERY
from tests.identity.provider import KEYS, provider
from tests.identity.test_provider_tokens import AUTH0, ENTRA, KEYCLOAK
from tests.support.assembly import CARD
from tests.support.gateway import CALL, RESULT, agent, running
from tests.support.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[2] / "config" / "examples"
ROLES = {"resource_access": {"a2a-gateway": {"roles": ["billing-user"]}}}
DIRECTORY = "6731de76-14a6-49ae-97bc-6eba6914391e"
CASES: dict[str, tuple[str, dict[str, Any], list[dict[str, Any]], str]] = {
    "keycloak": (
        "KEYCLOAK_REALM_URL",
        {**KEYCLOAK, **ROLES, "aud": ["a2a-gateway", "account"]},
        [{"scope": "openid"}, {"resource_access": {}}],
        "organization",
    ),
    "auth0": (
        "AUTH0_ISSUER",
        {**AUTH0, "aud": ["https://agents.example.com", "https://example.eu.auth0.com/userinfo"]},
        [{"permissions": []}, {"https://example.com/roles": ["guest"]}],
        "org_id",
    ),
    "entra-id": ("ENTRA_ISSUER", {**ENTRA, "aud": DIRECTORY}, [{"scp": "Agents.Read"}], "tid"),
}


@pytest.mark.parametrize("name", CASES)
async def test_an_example_admits_exactly_the_intended_callers(name: str) -> None:
    variable, claims, lacking, tenant_claim = CASES[name]
    async with provider() as served, ScriptedBackend(agent(answers(whole(RESULT)), CARD)) as backend:
        served.publish(*published())
        served.documents[DISCOVERY] = json.dumps({"issuer": served.url, "jwks_uri": served.url + KEYS}).encode()
        text = (FOLDER / f"{name}.yaml").read_text()
        # The system picks the ports.
        text = text.replace("gateway:\n", 'gateway:\n  listen: "127.0.0.1:0"\n  admin: "127.0.0.1:0"\n', 1)
        text = text.replace("version: 1\n", "", 1)
        environ = {"PUBLIC_URL": "https://gw.test", variable: served.url, "BILLING_URL": backend.url}
        async with running(text, environ=environ) as gateway:
            await gateway.until(lambda: all(keys.ready for keys in gateway.gateway.snapshot.key_sets.values()))

            async def status(**changes: object) -> int:
                token = good(time.time(), iss=served.url, **{**claims, **changes})
                return (await gateway.post("/billing", CALL, [shown(token)])).status

            assert await status() == 200
            assert [await status(**each) for each in lacking] == [403] * len(lacking)
            assert await status(**{tenant_claim: "somebody-else"}) in (401, 403)
            assert await status(**{tenant_claim: ...}) == 401
            assert await status(aud="another") == 401
            [call] = [each for each in backend.requests if each.method == b"POST"]
            assert call.header(b"x-a2a-tenant") == b"acme"
