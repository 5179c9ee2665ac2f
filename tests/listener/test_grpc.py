"""Services for gRPC clients: A2A, health and reflection, and nothing else; and their limits."""

import asyncio
import logging
import os
import subprocess
import sys
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio has no types
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest  # type: ignore[import-untyped]  # as above
from grpc_health.v1.health_pb2_grpc import HealthStub  # type: ignore[import-untyped]  # as above

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.framing.grpc import frame
from gateway.listener import grpc as listener
from tests.listener.grpc_front import fronting, patient, streams
from tests.support.http2_client import REQUEST, SEND, STREAM
from tests.table import for_each

pytestmark = pytest.mark.anyio

REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
OK = (200, b"0", [b"ok"])


def asking(path: str) -> list[tuple[bytes, bytes]]:
    return [(name, path.encode() if name == b":path" else value) for name, value in REQUEST]


async def refused(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value


# ---- Methods -------------------------------------------------------------------------------------------------------


async def test_methods_of_a2a_are_answered_by_the_pipeline() -> None:
    async with fronting() as front, front.channel() as channel:
        for path in BY_PATH:
            assert await channel.unary_unary(path)(path.encode(), timeout=10) == path.encode()
        assert [head.grpc.path for head in front.heads if head.grpc] == list(BY_PATH)
        assert front.unread == []


@for_each(
    "path",
    [
        "/a2a.v1.A2AService/Nothing",
        "/a2a.v1.A2AService",
        "/lf.a2a.v1.a2aservice/SendMessage",
        SEND + "?a=b",
        SEND + "/",
    ],
)
async def test_an_unknown_method_is_refused_and_logged(path: str) -> None:
    async with fronting() as front, front.channel() as channel:
        error = await refused(channel.unary_unary(path)(b"", timeout=10))
        assert (error.code(), error.details()) == (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        assert len(dict(error.trailing_metadata())["x-request-id"]) == 16
        assert front.unread == [("127.0.0.1", 404, "there is no such method")]
        assert front.heads == []


@pytest.mark.parametrize("path", [b"", b"*", b"/\xff\xfe", b"\xc3", SEND.encode() + b"\xff", b"/" + b"x" * 5000])
async def test_a_path_of_any_bytes_ends_only_its_own_call(path: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with fronting(streams) as front, front.channel() as channel:
        other = channel.unary_stream(STREAM)(b"")
        assert await other.read() == b"first"
        client = await front.client()
        asked = [(name, path if name == b":path" else value) for name, value in REQUEST]
        for _ in range(3):
            assert (await client.answer(client.ask(asked)))[1] == b"12"
        assert front.unread == [("127.0.0.1", 404, "there is no such method")] * 3
        front.go.set()
        assert await other.read() is grpc.aio.EOF
        assert await channel.unary_stream(STREAM)(b"").read() == b"first"
        assert caplog.records == []


@pytest.mark.parametrize("path", ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", REFLECTION])
async def test_a_question_that_cannot_be_read_is_refused(path: str, caplog: pytest.LogCaptureFixture) -> None:
    async with fronting() as front, front.channel() as channel:
        error = await refused(channel.stream_stream(path)(iter([b"\xff\xff"]), timeout=10).read())
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caplog.records == []


async def test_strangers_may_keep_few_calls_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MOST_OTHER_CALLS", 2)
    async with fronting() as front, front.channel() as channel:
        stub = HealthStub(channel)
        watching = [stub.Watch(HealthCheckRequest(), timeout=10) for _ in range(2)]
        for each in watching:
            await each.read()
        error = await refused(stub.Watch(HealthCheckRequest(), timeout=10).read())
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        # Or a stranger could have the gateway taken for dead.
        assert (await stub.Check(HealthCheckRequest(), timeout=10)).status == 1
        watching[0].cancel()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert (await stub.Watch(HealthCheckRequest(), timeout=10).read()).status == 1
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.01)


# ---- Heads ---------------------------------------------------------------------------------------------------------


async def test_a_head_has_the_metadata_as_http_2_has_them_and_the_rest_of_the_deadline() -> None:
    async with fronting() as front, front.channel() as channel:
        metadata = (("x-api-key", "one"), ("x-api-key", "two"), ("x-own-bin", b"\x00\xff"))
        await channel.unary_unary(SEND)(b"", metadata=metadata, timeout=10)
        [head] = front.heads
        assert (head.method, head.path, head.host, head.peer, head.scheme) == (
            "POST", SEND.encode(), "", "127.0.0.1", "http",
        )  # fmt: skip
        assert head.all(b"x-api-key") == (b"one", b"two")
        assert head.first(b"x-own-bin") == b"AP8="
        assert head.timeout is not None
        assert 9 < head.timeout <= 10
        names = {name for name, _ in head.headers}
        assert names == {b"x-api-key", b"x-own-bin", b"user-agent"}


async def test_calls_with_equal_heads_share_only_their_cache() -> None:
    async with fronting() as front, front.channel() as channel, front.channel() as other:
        for each, value, timeout in ((channel, "a", 10), (channel, "a", None), (channel, "b", 10), (other, "a", 10)):
            await each.unary_unary(SEND)(b"", metadata=(("x-api-key", value),), timeout=timeout)
        one, again, different, elsewhere = front.heads
        assert one.cache is not None
        assert one.cache is again.cache
        assert again.timeout is None
        # A stream lets go of its head.
        again.forget()
        assert one.first(b"x-api-key") == b"a"
        assert len({id(each.cache) for each in (one, different, elsewhere)}) == 3


@for_each("value", [b"a\r\nx-a2a-tenant: globex", b"a\nb", b"a\0b", b"a\x7f"])
async def test_a_value_that_would_end_a_line_reaches_nobody(value: bytes) -> None:
    async with fronting() as front:
        client = await front.client()
        assert (await client.answer(client.ask(body=frame(b""), more=[(b"traceparent", value)])))[1] == b"3"
        assert front.heads == []
        assert front.unread == [("127.0.0.1", 400, "a header is malformed")]


async def test_a_value_that_is_no_text_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "grpc")
    async with fronting() as front:
        client = await front.client()
        stream = client.ask(body=frame(b"ok"), more=[(b"authorization", b"Bearer secret\xff")])
        assert await client.answer(stream) == OK
    assert "secret" not in caplog.text


async def test_metadata_are_limited_in_number_and_size() -> None:
    async with fronting(metadata=8192, http={"header_count": 20}) as front, front.channel() as channel:
        many, long = [(f"x-{number}", "a") for number in range(21)], [("x-long", "a" * 9000)]
        error = await refused(channel.unary_unary(SEND)(b"", metadata=tuple(many), timeout=10))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert front.heads == []
        assert front.unread == [("127.0.0.1", 431, "there are more than 20 headers")]
        error = await refused(channel.unary_unary(SEND)(b"", metadata=tuple(long), timeout=10))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        # grpc-core shows such a call without the metadata that are too long, and cancels it before its message.
        await front.until(lambda: (front.gone, front.open) == (len(front.heads), 0))
        assert await channel.unary_unary(SEND)(b"ok", timeout=10) == b"ok"


# ---- Limits --------------------------------------------------------------------------------------------------------


async def test_a_compressed_message_is_refused() -> None:
    async with fronting() as front, front.channel() as channel:
        call = channel.unary_unary(SEND)(b"x" * 1000, timeout=10, compression=grpc.Compression.Gzip)
        assert (await refused(call)).code() is grpc.StatusCode.UNIMPLEMENTED
        await front.until(lambda: (front.gone, front.open) == (len(front.heads), 0))


async def test_calls_of_one_connection_are_limited() -> None:
    async with fronting(patient, streams=3) as front, front.channel() as channel:
        calls = [asyncio.ensure_future(channel.unary_unary(SEND)(b"", timeout=10)) for _ in range(5)]
        await front.until(lambda: len(front.heads) == 3)
        front.go.set()
        told = await asyncio.gather(*calls, return_exceptions=True)
        # The others wait in the client, or are refused where it began them before it knew the limit.
        assert told.count(b"at last") >= 3


async def test_a_client_that_takes_back_its_calls_at_once_disturbs_no_other() -> None:
    async with fronting(streams) as front, front.channel() as channel:
        other = channel.unary_stream(STREAM)(b"")
        assert await other.read() == b"first"
        client = await front.client()
        for _ in range(1000):
            stream = client.h2.get_next_available_stream_id()
            client.h2.send_headers(stream, asking(STREAM))
            client.h2.reset_stream(stream, 8)
        client.flush()
        assert await channel.unary_stream(STREAM)(b"").read() == b"first"
        await front.until(lambda: front.open == 2)
        front.go.set()
        assert await other.read() is grpc.aio.EOF


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with fronting(deadline="200ms") as front:
        host, _, port = front.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(10):
            while await reader.read(1000):
                pass
        writer.close()


async def test_a_connection_without_calls_is_closed_politely() -> None:
    async with fronting(idle="300ms") as front:
        client = await front.client()
        assert await client.answer(client.ask(body=frame(b"ok"))) == OK
        await client.finished()
        assert client.goaway is not None


PROGRAM = """
import asyncio
import gateway.listener.grpc
from tests.listener.grpc_front import fronting
import grpc

async def main():
    async with fronting() as front, front.channel() as channel:
        for _ in range(3):
            try:
                await channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")(b"", compression=grpc.Compression.Gzip)
            except grpc.aio.AioRpcError as error:
                print(error.code().name)

asyncio.run(main())
"""


def test_a_client_makes_core_write_nothing_past_the_log() -> None:
    # In a process of its own: only what is set before the library is loaded counts.
    environ = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    ran = subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, timeout=60, check=True)
    assert (ran.stdout, ran.stderr) == (b"UNIMPLEMENTED\n" * 3, b"")


# ---- Another certificate or limit, and the end -----------------------------------------------------------------------


async def test_another_limit_on_messages_holds_for_the_next_connection_and_open_calls_go_on() -> None:
    async with fronting(streams) as front, front.channel() as channel:
        front.longest = 1000
        call = channel.unary_stream(STREAM)(b"")
        assert await call.read() == b"first"
        await front.listener.renew(None, 1000)
        async with front.channel() as later:
            error = await refused(later.unary_stream(STREAM)(b"x" * 3000, timeout=10, wait_for_ready=True).read())
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        front.go.set()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK


async def test_a_drained_connection_finishes_its_calls() -> None:
    async with fronting(streams) as front, front.channel() as channel:
        call = channel.unary_stream(STREAM)(b"")
        assert await call.read() == b"first"
        front.listener.stop_accepting()
        async with front.channel() as later:
            error = await refused(later.unary_unary(SEND)(b"", timeout=10))
            assert error.code() is grpc.StatusCode.UNAVAILABLE
        front.go.set()
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
