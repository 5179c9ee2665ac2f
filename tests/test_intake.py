"""Which endpoint, in which dialect, who and what: read from a request in the order in which it may be known."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress

import pytest

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import (
    AuthExpired,
    AuthInvalid,
    AuthUnavailable,
    BadParams,
    BadRequest,
    DuplicateKey,
    Fault,
    RateLimited,
    VersionUnsupported,
)
from gateway.a2a.json import BOUNDS
from gateway.entry import Entry
from gateway.exchange import Exchange
from gateway.identity.authenticator import Credentials
from gateway.intake import decode, decode_aside, identify, locate, version_text
from gateway.principal import Principal
from gateway.snapshot import Snapshot
from tests.doubles.gateway import CALL, compiled, keys, secret

pytestmark = pytest.mark.anyio

FILE = f"""\
{keys(acme="acme")}
gateway: {{ public_url: "https://gw.test/agents" }}
tenants: {{ acme: ["*"] }}
agents:
  echo: https://echo.example.com
  billing: {{ match: {{ path: /a2a, tenant: billing }}, backend: "https://billing.example.com" }}
  hosted: {{ match: {{ host: "*.agents.test" }}, backend: "https://hosted.example.com" }}
"""


@asynccontextmanager
async def snapshot() -> AsyncIterator[Snapshot]:
    async with compiled(FILE, "https://gw.test/agents") as found:
        yield found


def exchange_for(
    snapshot: Snapshot, path: str, method: str = "POST", *, query: bytes = b"", host: bytes = b"", **more: bytes
) -> Exchange:
    headers = tuple((name.replace("_", "-").encode(), value) for name, value in more.items())
    head = Head(method, path.encode("latin-1"), query, host.decode(), headers)
    return Exchange(head, "id", 0.0, snapshot.strangers)


# ---- LOCATE --------------------------------------------------------------------------------------------------------


async def test_an_id_that_cannot_be_read_is_told_only_behind_an_endpoint() -> None:
    async with snapshot() as found:
        entry = locate(found, exchange_for(found, "/agents/echo/tasks/%ff", "GET"))
        assert entry.endpoint is not None
        assert isinstance(entry.unread, BadRequest)
        assert locate(found, exchange_for(found, "/agents/horror/tasks/%ff", "GET")) == Entry()


@pytest.mark.parametrize(
    ("method", "path", "binding", "version"),
    [
        ("POST", "/echo", Binding.JSONRPC, Version.V1_0),
        ("GET", "/echo", Binding.REST, Version.V1_0),
        ("POST", "/echo/message:send", Binding.REST, Version.V1_0),
        ("POST", "/echo/v1/message:send", Binding.REST, Version.V0_3),
        ("POST", "/echo/tasks/t:cancel", Binding.REST, Version.V1_0),
        ("GET", "/echo/v1/card", Binding.REST, Version.V0_3),
    ],
)
async def test_a_dialect_is_guessed_alike_whether_the_endpoint_exists_or_not(
    method: str, path: str, binding: Binding, version: Version
) -> None:
    async with snapshot() as found:
        for place in ("/agents", "/agents/no", "/no"):
            exchange = exchange_for(found, place + path, method)
            locate(found, exchange)
            assert (exchange.binding, exchange.version) == (binding, version)


# ---- IDENTIFY ------------------------------------------------------------------------------------------------------


class Counted(list[tuple[str, str, str]]):
    def __call__(self, method: str, issuer: str, result: str) -> None:
        self.append((method, issuer, result))


async def who(
    snapshot: Snapshot, *, authorization: bytes | None = None, x_api_key: bytes | None = None
) -> tuple[Principal | None, Counted]:
    shown = {"authorization": authorization, "x_api_key": x_api_key}
    headers = {name: value for name, value in shown.items() if value is not None}
    exchange, counted = exchange_for(snapshot, "/", "POST", query=b"", host=b"", **headers), Counted()
    try:
        await identify(snapshot, exchange, counted, lambda: 0.0)
    except Fault:
        assert exchange.principal is None
    return exchange.principal, counted


async def test_who_shows_nonsense_is_refused_and_counted() -> None:
    async with snapshot() as found:
        for shown, method in ((b"Bearer x", "api_key"), (b"bearer a.b.c", "jwt"), (b"Basic YTpi", "unknown")):
            assert await who(found, authorization=shown) == (None, [(method, "", "invalid")])


async def after_waiting(
    monkeypatch: pytest.MonkeyPatch, outcome: Principal | Fault
) -> tuple[Principal | None, Counted]:
    """What becomes of a caller whose token has to wait, and then has this outcome."""

    async def slow(shown: Credentials, wall: Callable[[], float], tick: float) -> Principal:
        await asyncio.sleep(0)
        assert (shown.address, wall(), tick) == ("192.0.2.1", 0.0, 7.0)
        if isinstance(outcome, Fault):
            raise outcome
        return outcome

    async with snapshot() as found:
        monkeypatch.setattr(found.authenticator, "authenticate", slow)
        exchange, counted = exchange_for(found, "/", authorization=b"Bearer a.b.c"), Counted()
        exchange.client_ip, exchange.started = "192.0.2.1", 7.0
        with suppress(Fault):
            await identify(found, exchange, counted, lambda: 0.0)
        return exchange.principal, counted


async def test_a_token_that_has_to_wait_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ada = Principal("acme", method="jwt", issuer="corp")
    assert await after_waiting(monkeypatch, ada) == (ada, [("jwt", "corp", "ok")])


async def test_a_refused_token_is_counted_by_its_issuer_and_by_why(monkeypatch: pytest.MonkeyPatch) -> None:
    for fault, counted in (
        (AuthInvalid("no", issuer="corp"), ("jwt", "corp", "invalid")),
        (AuthExpired("no", issuer="corp"), ("jwt", "corp", "expired")),
        (AuthUnavailable("no", issuer="corp"), ("jwt", "corp", "unavailable")),
        (AuthInvalid("no"), ("jwt", "", "invalid")),
        (RateLimited("no"), ("jwt", "", "limited")),
    ):
        assert await after_waiting(monkeypatch, fault) == (None, [counted])


async def test_two_credentials_are_refused() -> None:
    async with snapshot() as found:
        both = exchange_for(found, "/", authorization=b"Bearer x", x_api_key=secret("acme"))
        with pytest.raises(AuthInvalid):
            await identify(found, both, Counted(), lambda: 0.0)


# ---- DECODE --------------------------------------------------------------------------------------------------------


async def decoded(
    path: str, body: bytes = b"", method: str = "POST", query: bytes = b"", *, a2a_version: bytes = b""
) -> Call:
    async with snapshot() as found:
        exchange = exchange_for(found, "/agents" + path, method, query=query, a2a_version=a2a_version)
        entry = locate(found, exchange)
        assert entry.path is not None
        call = decode(exchange, entry.path, body)
        assert (exchange.operation, exchange.version) == (call.operation, call.dialect.version)
        assert exchange.binding is call.dialect.binding
        return call


@pytest.mark.parametrize(
    ("header", "query", "method", "version"),
    [
        (b"", b"", b"SendMessage", Version.V1_0),
        (b"1.0", b"", b"SendMessage", Version.V1_0),
        (b"1.0.7", b"", b"SendMessage", Version.V1_0),
        (b" 1.0 ", b"", b"SendMessage", Version.V1_0),
        (b"0.2.6", b"", b"message/send", Version.V0_3),
        (b"0.3", b"A2A-Version=0.3", b"message/send", Version.V0_3),
        (b"", b"a2a-version=1.0", b"SendMessage", Version.V1_0),
        (b"", b"", b"tasks/send", Version.V0_1),
        # The objects decide where header and method contradict (protocol §1.4): these are of 1.0.
        (b"", b"", b"message/send", Version.V1_0),
        (b"1.0", b"", b"message/send", Version.V1_0),
        (b"0.3", b"", b"SendMessage", Version.V1_0),
    ],
)
async def test_the_version_is_what_the_client_says_else_what_its_grammar_shows(
    header: bytes, query: bytes, method: bytes, version: Version
) -> None:
    call = await decoded("/echo", CALL.replace(b"SendMessage", method), query=query, a2a_version=header)
    assert call.dialect.version is version


async def test_a_body_that_is_read_aside_tells_the_same() -> None:
    async with snapshot() as found:
        with ThreadPoolExecutor(1) as aside:
            for body in (CALL, CALL.replace(b"SendMessage", b"Nothing"), CALL.replace(b'"id":1', b'"id":1.5'), b"[]"):
                here, there = exchange_for(found, "/agents/echo"), exchange_for(found, "/agents/echo")
                path = locate(found, here).path
                assert path is not None
                try:
                    expected: object = decode(here, path, body)
                except BadRequest as fault:
                    with pytest.raises(type(fault), match=fault.message):
                        await decode_aside(there, path, body, bounds=BOUNDS, aside=aside)
                else:
                    assert await decode_aside(there, path, body, bounds=BOUNDS, aside=aside) == expected
                assert (there.rpc_id, there.operation) == (here.rpc_id, here.operation)
                assert (there.binding, there.version) == (here.binding, here.version)


@pytest.mark.parametrize("said", [b"2.0", b"9", b"0.4", b"one", b"1.0, 0.3", b"1.1", b"\xff"])
async def test_a_version_that_nobody_speaks_is_refused_under_the_callers_id(said: bytes) -> None:
    async with snapshot() as found:
        exchange = exchange_for(found, "/agents/echo", a2a_version=said)
        entry = locate(found, exchange)
        assert entry.path is not None
        with pytest.raises(VersionUnsupported):
            decode(exchange, entry.path, CALL.replace(b'"id":1', b'"id":"seven"'))
        assert exchange.rpc_id == b'"seven"'


TENANT = CALL.replace(b'"params":{', b'"params":{"tenant":"billing",')


@pytest.mark.parametrize(
    ("path", "body", "method", "query"),
    [
        ("/a2a/other", TENANT, "POST", b""),
        ("/a2a", TENANT, "POST", b"tenant=other"),
        ("/a2a/billing", CALL, "POST", b"tenant=other"),
        ("/a2a/other/message:send", b'{"message":{},"tenant":"billing"}', "POST", b""),
        ("/a2a/message:send", b'{"message":{},"tenant":"billing"}', "POST", b"tenant=other"),
        ("/a2a/billing/tasks/t", b"", "GET", b"tenant=other"),
        ("/a2a/tasks/t", b"", "GET", b"tenant=billing&tenant=billing"),
        ("/a2a/tasks/t", b"", "GET", b"Tenant=billing"),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":"a","tenant":"a",'), "POST", b""),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"Tenant":"a",'), "POST", b""),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":"a","\\u0074enant":"b",'), "POST", b""),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":["a"],'), "POST", b""),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":7,'), "POST", b""),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":"a\\u007f",'), "POST", b""),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":"a\\u0000",'), "POST", b""),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":"a\\u0085",'), "POST", b""),
        ("/a2a", CALL.replace(b'"params":{', b'"params":{"tenant":"%b",' % (b"x" * 257)), "POST", b""),
        ("/a2a/message:send", b'{"message":{},"tenant":"%b"}' % (b"\xc3\xa4" * 129), "POST", b""),
        ("/a2a/tasks/t", b"", "GET", b"tenant=a%C2%85"),
        ("/a2a/tasks/t", b"", "GET", b"tenant=" + b"x" * 257),
    ],
)
async def test_a_tenant_in_doubt_is_refused(path: str, body: bytes, method: str, query: bytes) -> None:
    with pytest.raises((BadParams, BadRequest, DuplicateKey)):
        await decoded(path, body, method, query)


async def test_two_versions_in_one_request_are_refused() -> None:
    with pytest.raises(BadRequest):
        version_text(Head("GET", b"/", b"A2A-Version=0.3", headers=((b"a2a-version", b"1.0"),)))
    for values in ((b"1.0", b"0.3"), (b"1.0", b"1.0")):
        head = Head("POST", b"/agents/echo", headers=tuple((b"a2a-version", value) for value in values))
        async with snapshot() as found:
            entry = locate(found, Exchange(head, "id", 0.0, found.strangers))
        assert (entry.endpoint, entry.path) == (None, None)
        assert entry.unread is not None
