"""Callers that a certificate proves: a whole gateway, real handshakes, and certificates of every sort."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.certificates import CLIENT, SERVER, SIGNING, Authority, Shown
from tests.support.certified import ACME, GLOBEX, TENANTS, certifying
from tests.support.gateway import CALL, JSON, bearer, card_of, keys

pytestmark = pytest.mark.anyio

Issue = Callable[[Authority], Shown]

KEY = keys(bot="globex").removeprefix("auth:\n")
ACCEPTED: dict[str, tuple[Issue, str, str]] = {
    "a SPIFFE ID": (lambda by: by.issue(ACME), "acme", ACME),
    "of another tenant": (lambda by: by.issue(GLOBEX), "globex", GLOBEX),
    "a DNS name": (lambda by: by.issue("reports.acme.test"), "acme", "reports.acme.test"),
    "a DNS name in capitals": (lambda by: by.issue("Reports.ACME.test"), "acme", "reports.acme.test"),
    "several DNS names": (lambda by: by.issue("a.test", "reports.acme.test"), "acme", "reports.acme.test"),
    "a common name": (lambda by: by.issue(common_names=("fax-7",)), "globex", "CN=fax-7"),
    "for servers, too": (lambda by: by.issue(ACME, usages=(SERVER, CLIENT)), "acme", ACME),
    "for whatever": (lambda by: by.issue(ACME, usages=None), "acme", ACME),
    "a common name that is an authority's": (
        lambda by: by.issue(common_names=("fax-7",), more=(SIGNING,)),
        "globex",
        "CN=fax-7",
    ),
    "by an intermediate": (lambda by: Authority("below", by).issue(ACME), "acme", ACME),
}
NOBODYS: dict[str, Issue] = {
    "another trust domain": lambda by: by.issue("spiffe://other.test/ns/acme/sa/batch"),
    "a tenant that can be none": lambda by: by.issue("spiffe://mesh.test/ns/-/sa/batch"),
    "a wildcard": lambda by: by.issue("*.acme.test"),
    "a NUL": lambda by: by.issue("reports.acme.test\0.evil.test"),
    "a common name beside others": lambda by: by.issue("other.test", common_names=("fax-7",)),
    "a common name with a NUL": lambda by: by.issue(common_names=("fax-7\0.evil",)),
    "no name": lambda by: by.issue(),
    "two SPIFFE IDs of two tenants": lambda by: by.issue(ACME, GLOBEX),
    "two SPIFFE IDs of one": lambda by: by.issue(ACME, ACME + "2"),
    "two common names": lambda by: by.issue(common_names=("fax-7", "fax-7")),
    "an authority's": lambda by: by.issue(ACME, more=(SIGNING,)),
    "names of two clients": lambda by: by.issue(ACME, "reports.acme.test"),
}
"""More names that fit no entry are in `test_client_names.py`."""


async def test_a_certificate_says_who_calls(tmp_path: Path) -> None:
    async with certifying(tmp_path) as (site, gateway, agent):
        for number, (what, (issue, tenant, subject)) in enumerate(ACCEPTED.items(), 1):
            assert (await site.post(issue(site.authority))).status == 200, what
            assert agent.requests[-1].header(b"x-a2a-tenant") == tenant.encode(), what
            assert agent.requests[-1].header(b"x-a2a-subject") == subject.encode(), what
            line = await gateway.line(of=number)
            assert (line["tenant"], line["principal"], line["auth_method"]) == (tenant, subject, "mtls"), what
            assert gateway.metric("auth_total", method="mtls", issuer="mtls", result="ok") == number


async def test_a_certificate_of_no_client_is_refused_and_never_anonymous(tmp_path: Path) -> None:
    tenants = TENANTS + "  anonymous: [echo]\n"
    async with certifying(tmp_path, tenants=tenants, anonymous=True) as (site, gateway, agent):
        assert (await site.post(None)).status == 200
        for number, (what, issue) in enumerate(NOBODYS.items(), 1):
            answer = await site.post(issue(site.authority))
            assert (answer.status, answer.reasons) == (401, ["AUTH_INVALID"]), what
            assert answer.header("www-authenticate") == 'ClientCertificate realm="a2a"'
            line = await gateway.line(of=1 + number)
            assert (line["tenant"], line["reason"]) == (None, "auth_invalid"), what
            assert line["detail"]
            assert gateway.metric("auth_total", method="mtls", result="invalid") == number
        assert len(agent.requests) == 1


async def test_a_caller_without_a_certificate_is_asked_for_a_credential(tmp_path: Path) -> None:
    async with certifying(tmp_path) as (site, gateway, _):
        answer = await site.post(None)
        assert (answer.status, answer.reasons) == (401, ["AUTH_MISSING"])
        assert gateway.metric("auth_total", method="none", result="missing") == 1


async def test_two_credentials_are_refused(tmp_path: Path) -> None:
    async with certifying(tmp_path, auth=KEY) as (site, _, agent):
        for shown in (site.authority.issue(ACME), site.authority.issue("nobody.test")):
            answer = await site.post(shown, [bearer("bot")])
            assert (answer.status, answer.reasons) == (401, ["AUTH_INVALID"])
            assert answer.header("www-authenticate") == 'Bearer realm="a2a"'
        assert agent.requests == []
        assert (await site.post(None, [bearer("bot")])).status == 200


async def test_a_token_counts_alone_where_the_file_says_so(tmp_path: Path) -> None:
    async with certifying(tmp_path, more="    with_token: true\n", auth=KEY) as (site, _, agent):
        for shown in (site.authority.issue(ACME), site.authority.issue("sidecar.test")):
            assert (await site.post(shown, [bearer("bot")])).status == 200
            assert agent.requests[-1].header(b"x-a2a-tenant") == b"globex"
            assert (await site.post(shown, [bearer("nobody")])).status == 401
        assert (await site.post(site.authority.issue(ACME))).status == 200
        assert agent.requests[-1].header(b"x-a2a-tenant") == b"acme"
        assert (await site.post(site.authority.issue("sidecar.test"))).status == 401


async def test_a_certificate_is_good_until_its_end_and_not_beyond(tmp_path: Path) -> None:
    async with certifying(tmp_path) as (site, gateway, _):
        shown = site.authority.issue(ACME)
        end = shown.certificate.not_valid_after_utc.timestamp()
        client = await site.client(site.tls(shown))
        for now, status, reasons in ((end - 1, 200, None), (end, 401, ["AUTH_EXPIRED"]), (end - 1, 200, None)):
            gateway.gateway.pipeline.wall = lambda now=now: now  # type: ignore[misc]
            await client.ask("POST", "/echo", CALL, [JSON])
            answer = await client.answer()
            assert answer.status == status
            assert reasons is None or answer.reasons == reasons
        assert gateway.metric("auth_total", method="mtls", result="expired") == 1


async def test_a_required_certificate_must_be_valid_beside_a_token(tmp_path: Path) -> None:
    for more, over in (("    with_token: true\n    require: true\n", 401), ("    with_token: true\n", 200)):
        folder = tmp_path / str(over)
        folder.mkdir()
        async with certifying(folder, more=more, auth=KEY) as (site, gateway, _):
            shown = site.authority.issue("sidecar.test")
            end = shown.certificate.not_valid_after_utc.timestamp()
            client = await site.client(site.tls(shown))
            for now, status in ((end - 1, 200), (end, over)):
                gateway.gateway.pipeline.wall = lambda now=now: now  # type: ignore[misc]
                await client.ask("POST", "/echo", CALL, [JSON, bearer("bot")])
                answer = await client.answer()
                assert answer.status == status
                assert status == 200 or answer.reasons == ["AUTH_EXPIRED"]


async def test_certificate_headers_of_a_proxy_are_ignored(tmp_path: Path) -> None:
    said = [
        (b"x-forwarded-client-cert", f"Hash=0;URI={ACME}".encode()),
        (b"client-cert", b":AAAA:"),
        (b"x-forwarded-for", b"10.0.0.1"),
    ]
    async with certifying(tmp_path, settings='  trusted_proxies: ["127.0.0.1/32"]\n') as (site, _, agent):
        assert (await site.post(None, said)).reasons == ["AUTH_MISSING"]
        assert (await site.post(site.authority.issue(GLOBEX), said)).status == 200
        [asked] = agent.requests
        assert asked.header(b"x-a2a-tenant") == b"globex"
        assert (asked.header(b"x-forwarded-client-cert"), asked.header(b"client-cert")) == (None, None)


async def test_claims_of_a_certificate_pick_an_agent(tmp_path: Path) -> None:
    other = (
        "    match: { path: /echo }\n  mesh:\n    backend: http://127.0.0.1:9\n    match:\n"
        "      - { path: /echo, claim: { client: mesh } }\n      - { path: /dns, claim: { san: reports.acme.test } }\n"
    )
    tenants = TENANTS.replace("[echo]", "[echo, mesh]")
    async with certifying(tmp_path, agents=other, tenants=tenants) as (site, gateway, agent):
        assert (await site.post(site.authority.issue(common_names=("fax-7",)))).status == 200
        assert len(agent.requests) == 1
        # It is the other agent that is not there.
        assert (await site.post(site.authority.issue(ACME))).json["error"]["code"] == -32603
        assert gateway.metric("requests_total", agent="mesh") == 1
        assert (await site.post(site.authority.issue(ACME), to="/dns")).reasons == ["NO_ROUTE"]


async def test_a_certificate_reaches_what_its_entry_lists_and_no_more(tmp_path: Path) -> None:
    other = "  other:\n    backend: http://127.0.0.1:9\n    visibility: private\n"
    tenants = TENANTS.replace("[echo]", "[echo, other]")
    async with certifying(tmp_path, agents=other, tenants=tenants) as (site, _, agent):
        narrow = site.authority.issue("reports.acme.test")
        assert (await site.post(narrow)).status == 200
        assert (await site.post(narrow, to="/other")).status == 404
        assert (await site.post(site.authority.issue(ACME), to="/other")).json["error"]["code"] == -32603
        assert len(agent.requests) == 1


async def test_a_card_says_how_to_come_in_and_is_anyones_but_a_forgers(tmp_path: Path) -> None:
    card = card_of("http://127.0.0.1/", "JSONRPC 1.0", "JSONRPC 0.3")
    async with certifying(tmp_path, card=card) as (site, gateway, _):
        for shown, status in ((None, 200), (site.authority.issue(ACME), 200), (site.authority.issue("x.test"), 401)):
            client = await site.client(site.tls(shown))
            await client.ask("GET", "/echo/.well-known/agent-card.json")
            answer = await client.answer()
            assert answer.status == status
            if status == 200:
                assert answer.json["securityRequirements"] == [{"schemes": {"mtls": {}}}]
                assert answer.json["securitySchemes"] == {"mtls": {"mtlsSecurityScheme": {}, "type": "mutualTLS"}}
        assert gateway.metric("auth_total", method="mtls", result="ok") == 1
