"""One attempt at one webhook, over TLS on loopback."""

import hashlib

import jwt
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.a2a.fault import StateUnavailable
from gateway.a2a.push_config import PushConfig
from gateway.push.delivery import (
    MOST_READ,
    Deliverer,
    DeliveryResult,
    DeliveryRetryPolicy,
    Outcome,
    WebhookDelivery,
    backoff,
)
from gateway.push.signing import Signer
from gateway.push.ssrf import WebhookPolicy
from gateway.tasks.sqlite import SqliteStore
from gateway.tasks.store import Note
from tests.push.support import HOST, Names, local, trusting, url, webhook
from tests.support.scripted import (
    ScriptedBackend,
    answers,
    answers_and_closes,
    answers_and_hangs,
    closes_at_once,
    drips,
    endless,
    head,
    refused_port,
    resets_at_once,
    whole,
)
from tests.table import for_each

pytestmark = pytest.mark.anyio

NOW = 1_800_000_000.0
BODY = b'{"task":{"id":"task-7"}}'
PUBLIC = ("93.184.216.34",)
OK = whole(b"{}")
LONG = 60.0


def delivery(to: str, **config: str) -> WebhookDelivery:
    return WebhookDelivery("d-1", PushConfig(to, **config), "task-7", "application/a2a+json", BODY)


def deliverer(policy: WebhookPolicy, signer: Signer | None = None, timeout: float = LONG) -> Deliverer:
    return Deliverer(policy, signer, tls=trusting(), timeout=timeout)


async def post(backend: ScriptedBackend, *, within: float = LONG, **config: str) -> Outcome:
    return await deliverer(local(backend), timeout=within).deliver(delivery(url(backend), **config))


async def test_a_notification_is_posted_with_all_that_its_receiver_needs() -> None:
    async with webhook(answers(OK)) as backend:
        outcome = await post(backend, token="tok-123")
        assert outcome == Outcome(DeliveryResult.DELIVERED)
        (request,) = backend.requests
        assert (request.method, request.target, request.body) == (b"POST", b"/a2a?key=secret", BODY)
        assert request.header(b"host") == f"{HOST}:{backend.port}".encode()
        assert request.header(b"content-type") == b"application/a2a+json"
        assert request.header(b"content-length") == str(len(BODY)).encode()
        assert request.header(b"x-a2a-notification-token") == b"tok-123"
        assert request.header(b"x-a2a-delivery") == request.header(b"idempotency-key") == b"d-1"
        assert request.header(b"user-agent") == b"a2a-gateway"
        assert request.header(b"authorization") is None
        assert b"cookie" not in {name.lower() for name, _ in request.headers}
        secured = backend.wires[0].transport.get_extra_info("ssl_object")
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
        await backend.all_gone()


async def test_a_notification_is_signed_and_the_client_s_own_credentials_come_first() -> None:
    store = SqliteStore(None)
    await store.open()
    signer = Signer(store, "https://gateway.example", wall=lambda: NOW)
    key = jwt.PyJWK((await signer.jwks())["keys"][0])
    async with webhook(answers(OK)) as backend:
        post = deliverer(local(backend), signer).deliver
        await post(delivery(url(backend)))
        await post(delivery(url(backend), scheme="Bearer"))
        await post(delivery(url(backend), scheme="Basic", credentials="dTpw"))
        await post(replace(delivery(url(backend)), attempt=2))
        bare, unshown, shown, again = backend.requests
    assert shown.header(b"authorization") == b"Basic dTpw"
    tokens = [
        (request.header(b"authorization") or b"").removeprefix(b"Bearer ") for request in (bare, unshown, again)
    ] + [shown.header(b"x-a2a-signature") or b""]
    ids = set()
    for token in tokens:
        claims = jwt.decode(
            token, key, ["ES256"], audience=f"https://{HOST}:{backend.port}", issuer="https://gateway.example",
            options={"verify_exp": False, "verify_iat": False},
        )  # fmt: skip
        assert claims["request_body_sha256"] == hashlib.sha256(BODY).hexdigest()
        assert claims["task_id"] == "task-7"
        ids.add(claims["jti"])
    assert len(ids) == 2
    for request in (bare, unshown, again):
        assert request.header(b"x-a2a-signature") is None


async def test_nothing_is_sent_without_the_signature_that_it_must_have() -> None:
    class Down(SqliteStore):
        async def settle(self, note: Note) -> bytes:
            raise StateUnavailable("down")

    signer = Signer(Down(), "https://gateway.example", wall=lambda: NOW)
    async with webhook(answers(OK)) as backend:
        outcome = await deliverer(local(backend), signer).deliver(delivery(url(backend)))
        assert outcome.result is DeliveryResult.RETRIED
        assert backend.requests == []


@for_each("status", [200, 201, 202, 204, 299])
async def test_any_success_is_a_delivery(status: int) -> None:
    raw = whole(b"", status=b"%d OK" % status) if status != 204 else b"HTTP/1.1 204 No Content\r\n\r\n"
    async with webhook(answers(raw)) as backend:
        assert await post(backend) == Outcome(DeliveryResult.DELIVERED)


@for_each("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_transient_statuses_are_retried(status: int) -> None:
    async with webhook(answers(whole(b"secret", b"retry-after: 7", status=b"%d No" % status))) as backend:
        outcome = await post(backend)
        assert (outcome.result, outcome.retry_after) == (DeliveryResult.RETRIED, 7.0)
        assert outcome.reason == f"https://{HOST}:{backend.port} answered {status}"


@for_each("status", [300, 301, 302, 307, 308, 400, 401, 403, 404, 405, 410, 413, 422])
async def test_permanent_statuses_are_dead_and_redirects_are_not_followed(status: int) -> None:
    async with webhook(answers(OK)) as elsewhere:
        location = b"location: " + url(elsewhere).encode()
        async with webhook(answers(whole(b"", location, status=b"%d No" % status))) as backend:
            assert (await post(backend)).result is DeliveryResult.DEAD
        assert elsewhere.wires == []


async def test_a_name_that_changes_its_mind_is_not_followed() -> None:
    names = Names(PUBLIC, ("127.0.0.1",))
    policy = WebhookPolicy(resolve=names)
    async with webhook(answers(OK)) as backend:
        # As it is when the configuration is set.
        assert await policy.refuse_address(policy.refuse_url(url(backend))) == PUBLIC
        outcome = await deliverer(policy).deliver(delivery(url(backend)))
        assert outcome.result is DeliveryResult.REFUSED
        assert backend.wires == []
    assert names.asked == [HOST, HOST]


async def test_the_address_that_was_judged_is_the_one_that_is_dialable() -> None:
    # Asked a third time, the name would lead elsewhere.
    names = Names(("127.0.0.1",), ("127.0.0.1",), ())
    async with webhook(answers(OK)) as backend:
        policy = local(backend, names)
        await policy.refuse_address(policy.refuse_url(url(backend)))
        assert (await deliverer(policy).deliver(delivery(url(backend)))).result is DeliveryResult.DELIVERED
    assert len(names.asked) == 2


async def test_another_address_is_tried_where_one_does_not_answer() -> None:
    async with webhook(answers(OK)) as backend:
        # Nobody listens on this one of loopback's.
        policy = local(backend, Names(("127.0.0.2", "127.0.0.1")))
        assert (await deliverer(policy).deliver(delivery(url(backend)))).result is DeliveryResult.DELIVERED


async def test_a_webhook_that_is_not_allowed_any_more_is_refused() -> None:
    async with webhook(answers(OK)) as backend:
        worker = deliverer(local(backend))
        worker.policy = WebhookPolicy(resolve=Names())
        for to in (url(backend), "http://hooks.example/"):
            outcome = await worker.deliver(delivery(to))
            assert outcome.result is DeliveryResult.REFUSED
            assert "key" not in outcome.reason
        assert backend.wires == []


async def test_a_name_without_an_address_is_tried_again() -> None:
    outcome = await deliverer(WebhookPolicy(resolve=Names(()))).deliver(delivery("https://hooks.example/key"))
    assert outcome == Outcome(DeliveryResult.RETRIED, "https://hooks.example has no address")


async def test_a_receiver_with_an_untrusted_or_wrong_certificate_gets_nothing() -> None:
    for names, authority in ((("other.example",), None), ((HOST,), trustme.CA())):
        trusted = {} if authority is None else {"authority": authority}
        async with webhook(answers(OK), *names, **trusted) as backend:
            assert (await post(backend, token="tok-123")).result is DeliveryResult.RETRIED
            assert backend.requests == []


@for_each(
    "script",
    [
        closes_at_once,
        resets_at_once,
        answers_and_closes(),
        answers_and_closes(b"HTTP/1.1 200"),
        answers_and_closes(b"garbage\r\n\r\n"),
        answers_and_closes(head(b"x: " + b"y" * 200_000)),
        answers_and_closes(b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"),
    ],
)
async def test_broken_answers_are_retried(script: object) -> None:
    async with webhook(script) as backend:  # type: ignore[arg-type]  # the scripts are
        assert (await post(backend)).result is DeliveryResult.RETRIED
        await backend.all_gone()


async def test_a_refused_connection_is_retried() -> None:
    port = refused_port()
    async with webhook(answers(OK)) as backend:
        backend.port, kept = port, backend.port
        assert (await post(backend)).result is DeliveryResult.RETRIED
        backend.port = kept


@for_each(
    "script",
    [
        answers_and_hangs(),
        answers_and_hangs(b"HTTP/1.1 200 OK\r\n"),
        drips(b"HTTP/1.1 200 OK\r\n", b"x-slow: " + b"y" * 9000),
        endless(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
)
async def test_an_attempt_has_its_time_and_no_more(script: object) -> None:
    async with webhook(script) as backend:  # type: ignore[arg-type]  # the scripts are
        outcome = await post(backend, within=0.5)
        assert outcome.result is DeliveryResult.RETRIED
        assert "within 0.5 s" in outcome.reason
        await backend.all_gone()


@for_each(
    "script",
    [
        answers_and_hangs(head(b"content-length: 10")),
        answers_and_closes(head(b"content-length: 10") + b"short"),
        endless(head(b"transfer-encoding: chunked"), b"400\r\n" + b"x" * 1024 + b"\r\n"),
        answers_and_closes(whole(b"x" * (MOST_READ * 50))),
    ],
)
async def test_the_head_says_it_all_and_no_long_answer_is_read(script: object) -> None:
    async with webhook(script) as backend:  # type: ignore[arg-type]  # the scripts are
        assert await post(backend) == Outcome(DeliveryResult.DELIVERED)
        await backend.all_gone()


async def test_nothing_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with webhook(answers(OK)) as backend:
        for name in ("HTTPS_PROXY", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{refused_port()}")
        assert (await post(backend)).result is DeliveryResult.DELIVERED


async def test_a_receiver_may_say_when_to_come_again_as_a_date() -> None:
    fields = (b"retry-after: Fri, 15 Jan 2027 08:01:00 GMT", b"date: Fri, 15 Jan 2027 08:00:00 GMT")
    async with webhook(answers(whole(b"", *fields, status=b"429 No"))) as backend:
        assert (await post(backend)).retry_after == 60.0


@given(failed=st.integers(1, 100), chance=st.floats(0, 1))
def test_pauses_grow_between_their_bounds(failed: int, chance: float) -> None:
    policy = DeliveryRetryPolicy(first_pause=2.0, longest_pause=60.0)
    assert 2.0 <= backoff(failed, chance, policy) <= min(60.0, 2.0 * 2.0**failed)
    assert backoff(failed, 0.0, policy) <= backoff(failed, chance, policy) <= backoff(failed, 1.0, policy)
    assert backoff(failed, chance, DeliveryRetryPolicy(first_pause=9.0, longest_pause=3.0)) == 3.0
