"""The template of `by_tenant`: a tenant reaches its own host with its own credential, and no spelling another's."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from gateway.config.check import examine
from gateway.config.load import Examined
from tests.support.gateway import CALL, RESULT, Running, agent, bearer, keys, running
from tests.support.scripted import ScriptedBackend, Wire, whole
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

TOKENS = "upstream_auth: { bearer: '${file:secrets/{tenant}/token}' }"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for tenant in ("acme", "globex"):
        (tmp_path / "secrets" / tenant).mkdir(parents=True)
        (tmp_path / "secrets" / tenant / "token").write_text(f"token-of-{tenant}\n")
    (tmp_path / "secrets/empty").mkdir()
    (tmp_path / "secrets/empty/token").write_text("\n")
    return tmp_path


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name below agents.test is this machine."""
    look_up = socket.getaddrinfo

    def found(host: Any, *rest: Any, **more: Any) -> Any:
        local = isinstance(host, str) and host.endswith(".agents.test")
        return look_up("127.0.0.1" if local else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)


def text(backend: str) -> str:
    return (
        keys(acme="acme", globex="globex", hub="hub", gone="gone", empty="empty")
        + "tenants: { acme: crm, globex: crm, gone: crm, empty: crm, hub: { agents: crm, act_for: [acme] } }\n"
        + "defaults: { allow_insecure: true, isolation: none }\n"
        + "agents:\n  crm:\n    by_tenant:\n"
        + f'      hub: "{backend.replace("{tenant}", "own")}"\n'
        + f'      "*": {{ backend: "{backend}", {TOKENS} }}\n'
    )


def call(tenant: str | None) -> bytes:
    said = json.loads(CALL)
    if tenant is not None:
        said["params"]["tenant"] = tenant
    return json.dumps(said).encode()


async def reasons(gateway: Running, tenant: str | None, key: str) -> list[str]:
    answer = await gateway.post("/crm", call(tenant), [bearer(key)])
    return answer.reasons if "error" in answer.json else []


@pytest.mark.usefixtures("names")
async def test_a_tenant_reaches_its_own_host_with_its_own_credential_and_no_other(folder: Path) -> None:
    asked: list[tuple[str, ...]] = []

    async def plays(wire: Wire) -> None:
        while request := await wire.request():
            asked.append(tuple((request.header(name) or b"").decode() for name in (b"host", b"authorization")))
            await wire.send(whole(RESULT))

    async with ScriptedBackend(agent(plays)) as backend:
        port = backend.url.rpartition(":")[2]
        file = text(f"http://{{tenant}}.agents.test:{port}")
        async with running(file, path=folder / "gateway.yaml", written=True) as gateway:
            for key, tenant, to in (
                ("acme", None, "acme"),
                ("acme", "acme", "acme"),
                ("globex", None, "globex"),
                ("hub", "acme", "acme"),
            ):
                assert await reasons(gateway, tenant, key) == []
                assert asked.pop() == (f"{to}.agents.test:{port}", f"Bearer token-of-{to}")
            assert await reasons(gateway, None, "hub") == []
            assert asked.pop() == (f"own.agents.test:{port}", "")
            for spelled in (
                "globex", "GLOBEX", "Globex", "globex.", "globex ", "globex/", "globex%2e", "globex@x", "globex:1",
                "../globex", "acme/../globex", "acme.evil.test", "acme#", "acme?", "acmé", "{tenant}", "*", "own",
                "hub", "xn--globex", "acme\u200b", "ACME", "globex.agents.test", "127.0.0.1", "$" + "{HOME}",
            ):  # fmt: skip
                assert await reasons(gateway, spelled, "acme") != [], spelled
            # Without its secret, or with an empty one, a tenant gets no call through, and nobody else's secret.
            for key in ("gone", "empty"):
                assert await reasons(gateway, None, key) == ["UPSTREAM_AUTH_FAILED"]
            told = "'secrets/gone/token' is no file", "'${file:secrets/empty/token}' is empty"
            await gateway.until(lambda: tuple(line["detail"] for line in gateway.lines[-2:]) == told)
            assert {line["reason"] for line in gateway.lines[-2:]} == {"upstream_auth_failed"}
            assert asked == []


def checked(folder: Path, backend: str, *, tenants: str = "acme: [crm]", more: str = "") -> Examined:
    file = f"tenants: {{ {tenants} }}\nagents:\n  crm:\n    by_tenant: {{ '*': {{ backend: {backend}, {more} }} }}\n"
    whole = "version: 1\ndefaults: { allow_insecure: true }\n" + keys(acme="acme") + file
    return examine(folder / "gateway.yaml", {"DOMAIN": "agents.internal"}, text=whole.encode())


@for_each(
    ("backend", "url"),
    [
        ("'https://{tenant}.agents.internal'", "https://acme.agents.internal"),
        ("'https://crm-{tenant}:8443/a2a'", "https://crm-acme:8443/a2a"),
        ("'grpcs://{tenant}.${DOMAIN}'", "grpcs://acme.agents.internal"),
        ("[{ url: 'https://a.{tenant}.x' }, { url: 'https://b.{tenant}.x' }]", "https://a.acme.x"),
        # The host would be the tenant's alone, or the same for all.
        ("'https://{tenant}'", None),
        ("'https://10.0.0.{tenant}'", None),
        ("'https://agents.{tenant}'", None),
        ("'https://agents.internal/{tenant}'", None),
        ("'https://{tenant}.x/{tenant}'", None),
        ("'https://x.internal:{tenant}'", None),
        ("'https://{tenant}:1@x.internal'", None),
        ("'{tenant}://x.internal'", None),
        ("'https://{Tenant}.x'", None),
        ("'https://{tenant}.x?y={tenant}'", None),
        ("['https://{tenant}.x', 'https://x.internal']", None),
        ("{ stdio: [agent, '{tenant}'] }", None),
        ("'https://${file:secrets/{tenant}/token}.x'", None),
    ],
)
def test_the_tenant_is_a_part_of_the_host_and_of_nothing_else(folder: Path, backend: str, url: str | None) -> None:
    found = checked(folder, backend)
    if url is None:
        assert found.config is None
        return
    assert found.errors == ()
    assert found.config is not None
    [(tenant, made)] = found.config.agents["crm"].by_tenant.items()
    assert (tenant, made.backend[0].url) == ("acme", url)


@for_each(
    ("tenants", "path", "fact"),
    [
        ("Acme: [crm]", "Acme", "'Acme' is no DNS label"),
        ("a.b: ['*']", "a.b", "'a.b' is no DNS label"),
        ("a_b: [crm]", "a_b", "'a_b' is no DNS label"),
        ("-a: [crm]", "-a", "'-a' is no DNS label"),
        (f"{'a' * 63}: [crm]", "a" * 63, "with it, a host of 'crm' has a label of more than 63 characters"),
        ("acme: [other]", "by_tenant", "no tenant of `tenants` may call the agent"),
    ],
)
def test_a_tenant_without_a_host_is_an_error(folder: Path, tenants: str, path: str, fact: str) -> None:
    found = checked(folder, "'https://crm-{tenant}.x'", tenants=tenants)
    assert any(path in each.path and each.fact.startswith(fact) for each in found.errors), found.errors


def test_only_tenants_that_may_call_have_their_secrets_read_and_none_is_told(folder: Path) -> None:
    tenants = "acme: [crm], globex: [], gone: [crm], big.corp: []"
    found = checked(folder, "'https://{tenant}.x'", tenants=tenants, more=TOKENS)
    assert found.config is not None
    assert set(found.config.agents["crm"].by_tenant) == {"acme", "gone"}
    read = {path.parent.name for path in (*found.files, *found.stamps) if path.name == "token"}
    # The one that is missing is watched for.
    assert read == {"acme", "gone"}
    [warned] = [each for each in found.warnings if "credential" in each.fact]
    assert "calls of tenant 'gone' fail" in warned.fact
    assert not any("token-of" in each.as_text() for each in found.problems)
    malformed = TOKENS.replace("bearer: ", "header: { 'a b': ").replace("' }", "' } }")
    wrong = checked(folder, "'https://{tenant}.x'", more=malformed)
    assert wrong.errors
    assert not any("token-of" in each.as_text() for each in wrong.errors)
