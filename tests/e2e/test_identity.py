"""Who is refused, in the caller's own dialect, and before anything else of the request counts."""

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from a2a.client import AgentCardResolutionError, ClientConfig, create_client
from a2a.client.errors import A2AClientError

from tests.e2e.process import gateway_process
from tests.e2e.sdk import BINDINGS, open_http, saying, send
from tests.e2e.site import ACME_KEY, DESK_KEY, OLD_KEY, Site, api_key, bearer, token
from tests.e2e.wire import V1, check_request_id, error, frame, message, reasons, without_request_id
from tests.identity.issuance import ISSUER, claims, compact, ec_key, rsa_key, segment
from tests.support.scripted import refused_port

pytestmark = pytest.mark.anyio


def _unsigned() -> str:
    header, payload = (json.dumps(part).encode() for part in ({"alg": "none"}, claims(exp=time.time() + 60)))
    return (segment(header) + b"." + segment(payload) + b".").decode()


def _signed_by_another() -> str:
    return compact({"alg": "RS256", "kid": "k1"}, claims(exp=time.time() + 60), rsa_key(1)).decode()


def _of_another_algorithm() -> str:
    return compact({"alg": "ES256", "kid": "k1"}, claims(exp=time.time() + 60), ec_key()).decode()


BAD: dict[str, tuple[Mapping[str, str], str]] = {
    "nothing": ({}, "AUTH_MISSING"),
    "an unknown key": (api_key("a2a_nobody"), "AUTH_INVALID"),
    "an unknown bearer": (bearer("what-nobody-ever-gave-out"), "AUTH_INVALID"),
    "another scheme": ({"Authorization": "Basic YTpi"}, "AUTH_INVALID"),
    "an empty key": (api_key(""), "AUTH_INVALID"),
    "a bearer of nothing": ({"Authorization": "Bearer"}, "AUTH_INVALID"),
    "two credentials": ({**api_key(ACME_KEY), **bearer(DESK_KEY)}, "AUTH_INVALID"),
    "a key that has expired": (api_key(OLD_KEY), "AUTH_EXPIRED"),
    "a token that has expired": (bearer(token(exp=time.time() - 3600)), "AUTH_EXPIRED"),
    "a token that is not good yet": (bearer(token(nbf=time.time() + 3600)), "AUTH_INVALID"),
    "a token without an end": (bearer(token(exp=...)), "AUTH_INVALID"),
    "a token of another issuer": (bearer(token(iss="https://elsewhere.example.com")), "AUTH_INVALID"),
    "a token for another audience": (bearer(token(aud="others")), "AUTH_INVALID"),
    "a token without a tenant": (bearer(token(org=...)), "AUTH_INVALID"),
    "a token with two tenants": (bearer(token(org=["acme", "globex"])), "AUTH_INVALID"),
    "a token of another key": (bearer(_signed_by_another()), "AUTH_INVALID"),
    "a token of another algorithm": (bearer(_of_another_algorithm()), "AUTH_INVALID"),
    "an unsigned token": (bearer(_unsigned()), "AUTH_INVALID"),
    "half a token": (bearer(token()[:-40]), "AUTH_INVALID"),
    "dots": (bearer("..."), "AUTH_INVALID"),
}


@pytest.mark.parametrize("bad", BAD)
async def test_a_bad_credential_is_refused_in_the_callers_dialect(site: Site, bad: str) -> None:
    headers, reason = BAD[bad]
    url = site.gateway.url + "/echo"
    async with open_http(headers) as http:
        rpc = await http.post(url, content=frame("SendMessage", message()), headers=V1)
        rest = await http.post(url + "/message:send", json=message(), headers=V1)
        old = await http.post(url + "/v1/message:send", json=message())
    for answer in (rpc, rest, old):
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/json"
        assert reason in reasons(answer)
        line = site.gateway.access(check_request_id(answer))
        assert (line["outcome"], line["reason"], line["status"]) == ("denied", reason.lower(), 401)
        assert line["tenant"] is None
    assert rpc.json()["id"] is None
    assert error(rpc)["code"] == -31401
    assert error(rest)["status"] == "UNAUTHENTICATED"
    assert old.json()["message"] == error(old)["message"]
    assert old.json()["code"] == -31401
    shown = {value.removeprefix("Bearer ") for value in headers.values()} - {""}
    assert not any(secret in site.gateway.log_text for secret in shown)


@pytest.mark.parametrize(
    ("method", "path", "nowhere"),
    [
        ("POST", "/echo", "/nowhere"),
        ("POST", "/hidden", "/nowhere"),
        ("POST", "/desk", "/"),
        ("POST", "/echo/a/b/c", "/nowhere/a/b/c"),
        ("POST", "/hidden/message:send", "/nowhere/message:send"),
        ("POST", "/hidden/v1/message:send", "/nowhere/v1/message:send"),
        ("POST", "/hidden/tasks/t1:cancel", "/nowhere/tasks/t1:cancel"),
        ("POST", "/a2a/billing/message:send", "/a2a/nothing/message:send"),
        ("GET", "/hidden", "/nowhere"),
        ("PUT", "/hidden", "/nowhere"),
        ("GET", "/hidden/tasks/t1", "/nowhere/tasks/t1"),
        ("GET", "/hidden/v1/card", "/nowhere/v1/card"),
        ("PUT", "/hidden/tasks/t1", "/nowhere/tasks/t1"),
        ("GET", "/hidden/.well-known/agent-card.json", "/nowhere/.well-known/agent-card.json"),
        ("POST", "/hidden/.well-known/agent-card.json", "/nowhere/.well-known/agent-card.json"),
        ("GET", "/desk/nothing/.well-known/agent-card.json", "/nowhere/nothing/.well-known/agent-card.json"),
        ("GET", "/a2a/nothing/.well-known/agent-card.json", "/nowhere/nothing/.well-known/agent-card.json"),
    ],
)
async def test_to_a_stranger_every_path_looks_the_same(site: Site, method: str, path: str, nowhere: str) -> None:
    async with open_http(V1) as http:
        answer = await http.request(method, site.gateway.url + path)
        missing = await http.request(method, site.gateway.url + nowhere)
    assert answer.status_code == 401
    assert without_request_id(answer) == without_request_id(missing)


def _until_the_answer_ends(sock: socket.socket) -> bytes:
    got = b""
    while part := sock.recv(65536):
        got += part
    return got


@pytest.mark.parametrize("expecting", [False, True])
async def test_a_stranger_is_refused_before_its_body_is_read(site: Site, expecting: bool) -> None:  # noqa: FBT001 - a column
    address = urlsplit(site.gateway.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as sock:
        expect = b"Expect: 100-continue\r\n" if expecting else b""
        sock.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\n" + expect + b"Content-Length: 200000\r\n\r\n")
        if not expecting:
            # Some clients lose an answer that comes while they write, so a little more is taken.
            sock.sendall(b"x" * 200000)
        answer = _until_the_answer_ends(sock)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"100 Continue" not in answer
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_official_client_says_what_was_refused(site: Site, binding: str) -> None:
    async with open_http() as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=False)
        client = await create_client(site.gateway.url + "/echo", config)
        with pytest.raises(A2AClientError, match="401"):
            await send(client, saying("hello"))
        with pytest.raises(AgentCardResolutionError) as refused:
            await create_client(site.gateway.url + "/hidden", config)
        assert refused.value.status_code == httpx.codes.UNAUTHORIZED


async def test_one_credential_serves_many_calls_and_one_bad_one_spoils_none(site: Site) -> None:
    url = site.gateway.url + "/echo"
    async with open_http(V1) as http:
        for headers, status in ((bearer(token()), 200), (bearer("bad"), 401), (bearer(token()), 200)):
            answer = await http.post(url, content=frame("GetTask", {"id": "t"}), headers=headers)
            assert answer.status_code == status


async def test_without_the_issuers_keys_nobody_is_let_in_and_everybody_is_told_to_come_back(
    site: Site, tmp_path: Path
) -> None:
    issuer = {
        "issuer": ISSUER,
        "audience": "agents",
        "jwks": f"http://127.0.0.1:{refused_port()}/keys",
        "tenant": "acme",
    }
    configuration = {
        "auth": {"issuers": {"corp": issuer}},
        "tenants": {"acme": ["echo"]},
        "agents": {"echo": site.agents["echo"].url},
    }
    with gateway_process(configuration, tmp_path) as gateway:
        async with open_http({**V1, **bearer(token())}) as http:
            rpc = await http.post(gateway.url + "/echo", content=frame("SendMessage", message()))
            rest = await http.post(gateway.url + "/echo/message:send", json=message())
    assert (rpc.status_code, error(rpc)["code"]) == (503, -31503)
    assert (rest.status_code, error(rest)["status"]) == (503, "UNAVAILABLE")
    for answer in (rpc, rest):
        assert int(answer.headers["retry-after"]) >= 1
        assert "AUTH_UNAVAILABLE" in reasons(answer)
        check_request_id(answer)
