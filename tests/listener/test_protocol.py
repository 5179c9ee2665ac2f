"""A client's connection: one request at a time, an end that is told apart from a loss, and a leave that is noticed."""

import asyncio
import logging

import pytest

from gateway.a2a.call import Head
from gateway.listener.http1 import ClientResponder
from tests.listener.front import TEXT, Front, echoes, fronting, limited, patient, streams
from tests.support.gateway import request
from tests.support.undisturbed import undisturbed
from tests.table import for_each

pytestmark = pytest.mark.anyio

GET = request("GET", "/", None)
POST = request("POST", "/", b"hello")


# ---- A connection serves requests one after the other --------------------------------------------------------------


async def test_every_answer_has_a_date_and_names_no_server() -> None:
    async with fronting() as front:
        await front.until(lambda: bool(front.edge.common_lines))
        said = (await front.says(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))).lower()
        assert b"\r\ndate: " in said
        assert b"server" not in said


@for_each("more", [b"GET", POST, b"\x00\x01garbage\r\n\r\n", b"\r\n"])
@for_each("together", [True, False])
async def test_pipelined_requests_are_not_served(more: bytes, *, together: bool) -> None:
    for asked in (GET, POST):
        async with fronting(patient) as front:
            client = await front.client()
            await client.send(asked + more if together else asked)
            await front.until(lambda: len(front.heads) == 1)
            if not together:
                await client.send(more)
                await front.until(lambda: not front.connection.keeps)
            front.go.set()
            answer = await client.answer()
            assert answer.body == b"at last"
            assert await client.ended() == b""
            assert (len(front.heads), front.refused) == (1, [])


async def test_a_flood_behind_a_request_is_not_kept() -> None:
    async with fronting(patient) as front:
        client = await front.client()
        await client.send(GET)
        await front.until(lambda: len(front.heads) == 1)
        for _ in range(100):
            await client.send(b"x" * 65536)
        assert not front.connection.unread
        assert front.wires[0].unread == 0
        front.go.set()
        assert (await client.answer()).body == b"at last"


async def test_empty_lines_in_front_of_a_request_are_none_of_it() -> None:
    async with fronting() as front:
        client = await front.client()
        for before in (b"\r\n", b"\r\n\r\n", b""):
            await client.send(before + POST)
            assert (await client.answer()).body == b"hello"
        await client.send(b"\r\n")
        await client.send(b"\r")
        await client.send(b"\n" + GET)
        assert (await client.answer()).body == b"GET /"


async def test_a_request_may_come_byte_by_byte() -> None:
    async with fronting() as front:
        client = await front.client()
        for asked in (POST, GET, request("POST", "/", None, [(b"Transfer-Encoding", b"chunked")])):
            for number in range(len(asked)):
                await client.send(asked[number : number + 1])
                await asyncio.sleep(0)
            if b"chunked" in asked:
                for byte in b"3\r\none\r\n0\r\n\r\n":
                    await client.send(bytes((byte,)))
            answer = await client.answer()
            assert answer.status == 200
            assert answer.header("connection") is None
        assert front.heads[-1].method == "POST"


async def test_heads_that_differ_in_the_length_alone_are_read_once_and_the_lengths_hold() -> None:
    async with fronting() as front:
        client = await front.client()
        for body in (b"a", b"b" * 1000, b"", b"cc"):
            await client.ask("POST", "/", body)
            assert (await client.answer()).body == (body or b"POST /")
        assert all(head is front.heads[0] for head in front.heads)
        await client.ask("POST", "/other", b"a")
        await client.answer()
        assert front.heads[-1].path == b"/other"


# ---- The end of a connection ---------------------------------------------------------------------------------------


@for_each("said", [b"close", b"Close", b"keep-alive, CLOSE", b"x-hop ,close"])
async def test_a_client_that_wants_no_more_is_told_so_and_closed_on(said: bytes) -> None:
    async with fronting() as front:
        client = await front.client()
        await client.ask("GET", "/", None, [(b"Connection", said)])
        answer = await client.answer()
        assert answer.header("connection") == "close"
        assert await client.ended() == b""


async def test_http_1_0_gets_whole_answers_and_no_second_one() -> None:
    async with fronting() as front:
        for lines in (b"", b"Host: x\r\n", b"Connection: keep-alive\r\n"):
            client = await front.client()
            await client.send(b"GET / HTTP/1.0\r\n" + lines + b"\r\n")
            answer = await client.answer()
            assert (answer.body, answer.header("connection"), answer.header("content-length")) == (
                b"GET /",
                "close",
                "5",
            )
            assert await client.ended() == b""


async def test_a_stream_to_http_1_0_ends_with_the_connection_and_has_no_chunks() -> None:
    async with fronting(streams) as front:
        front.go.set()
        said = await front.says(b"GET / HTTP/1.0\r\n\r\n")
        head, _, body = said.partition(b"\r\n\r\n")
        assert body == b"first"
        assert b"transfer-encoding" not in head
        assert b"content-length" not in head
        assert b"connection: close" in head


async def test_the_loss_of_a_stream_that_ends_with_the_connection_is_a_reset() -> None:
    async def breaks(front: Front, head: Head, wire: ClientResponder) -> None:
        wire.open(200, [TEXT])
        await wire.write(b"first")
        await front.go.wait()
        wire.cut()

    async with fronting(breaks) as front:
        client = await front.client()
        await client.send(b"GET / HTTP/1.0\r\n\r\n")
        await client.head()
        assert await client.reader.readexactly(5) == b"first"
        front.go.set()
        with pytest.raises(ConnectionResetError):
            await client.reader.read()


async def test_the_loss_of_a_chunked_stream_has_no_last_chunk() -> None:
    async def breaks(front: Front, head: Head, wire: ClientResponder) -> None:
        wire.open(200, [TEXT])
        await wire.write(b"first")
        wire.cut()

    async with fronting(breaks) as front:
        client = await front.client()
        await client.send(GET)
        await client.head()
        assert await client.piece() == b"first"
        with pytest.raises(asyncio.IncompleteReadError):
            await client.piece()


async def test_the_answer_to_head_has_the_length_of_the_other_and_no_body() -> None:
    async with fronting() as front:
        client = await front.client()
        for _ in range(2):
            await client.ask("HEAD", "/", None)
            answer = await client.answer(bodiless=True)
            assert answer.header("content-length") == "6"
        await client.send(GET)
        assert (await client.answer()).body == b"GET /"


@undisturbed(0.5)
async def test_a_resting_connection_is_closed_after_a_while() -> None:
    async with fronting(limits=limited(keep_alive=0.1)) as front:
        client = await front.client()
        await client.send(GET)
        await client.answer()
        started = asyncio.get_running_loop().time()
        assert await client.ended() == b""
        assert 0.05 < asyncio.get_running_loop().time() - started < 2
        assert front.refused == []


@undisturbed(0.05)
async def test_a_connection_in_use_is_not_closed_for_having_rested_before() -> None:
    async with fronting(patient, limited(keep_alive=0.1)) as front:
        client = await front.client()
        front.go.set()
        await client.send(GET)
        await client.answer()
        front.go.clear()
        await client.send(GET)
        await asyncio.sleep(0.2)
        front.go.set()
        assert (await client.answer()).body == b"at last"
        await client.send(GET)
        assert (await client.answer()).body == b"at last"


# ---- Who leaves is noticed -----------------------------------------------------------------------------------------


async def leaves_after(front: Front, sent: bytes, *, half: bool) -> None:
    client = await front.client()
    await client.send(sent)
    await front.until(lambda: len(front.heads) == 1)
    if half:
        client.writer.write_eof()
    else:
        client.leave()
    await front.until(lambda: not front.edge.connections)
    await front.until(lambda: not front.edge.tasks)


@for_each("half", [True, False])
async def test_a_client_that_leaves_while_it_waits_ends_its_request(*, half: bool) -> None:
    for serve in (patient, streams):
        async with fronting(serve) as front:
            await leaves_after(front, GET, half=half)
            assert (front.gone, front.cancelled) == (1, 1)


@for_each("half", [True, False])
@for_each("framing", [b"Content-Length: 10\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"])
async def test_a_client_that_leaves_in_its_body_ends_its_request(framing: bytes, *, half: bool) -> None:
    async with fronting() as front:
        await leaves_after(front, b"POST / HTTP/1.1\r\nHost: x\r\n" + framing, half=half)
        assert front.gone == 1


async def test_a_client_that_left_is_gone_for_a_later_callback() -> None:
    entered = asyncio.Event()

    class Late(Front):
        async def answer(self, head: Head, wire: ClientResponder) -> None:
            entered.set()
            await self.go.wait()
            await super().answer(head, wire)

    async with fronting() as front:
        late = Late(echoes, go=front.go)
        front.edge.serve = late.answer
        client = await front.client()
        await client.send(GET)
        await entered.wait()
        client.leave()
        await front.until(lambda: not front.edge.connections)
        front.go.set()
        await front.until(lambda: not front.edge.tasks)
        assert late.gone == 1


async def test_writes_for_a_client_that_left_are_dropped() -> None:
    done = asyncio.Event()

    async def unaware(front: Front, head: Head, wire: ClientResponder) -> None:
        wire.when_gone(lambda: None)
        wire.open(200, [TEXT])
        await front.go.wait()
        for _ in range(10):
            await wire.write(b"x" * 200_000)
            assert wire.write_nowait(b"y")
        await wire.drained()
        await wire.close()
        await wire.answer(200, [], b"")
        done.set()

    async with fronting(unaware) as front:
        client = await front.client()
        await client.send(GET)
        await client.head()
        client.leave()
        await front.until(lambda: not front.edge.connections)
        front.go.set()
        await front.until(done.is_set)


# ---- What goes wrong inside ----------------------------------------------------------------------------------------


async def test_a_request_that_cannot_be_served_is_answered_with_nothing_of_the_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails(front: Front, head: Head, wire: ClientResponder) -> None:
        raise ValueError("secret")

    async with fronting(fails) as front:
        client = await front.client()
        for _ in range(2):
            await client.send(GET)
            answer = await client.answer()
            assert (answer.status, answer.body) == (500, b"internal error\n")
    assert "secret" in caplog.text


async def test_a_stream_that_cannot_be_served_to_its_end_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(front: Front, head: Head, wire: ClientResponder) -> None:
        wire.open(200, [TEXT])
        await wire.write(b"first")
        raise ValueError

    async with fronting(fails) as front:
        with caplog.at_level(logging.CRITICAL):
            said = await front.says(GET)
        assert said.endswith(b"\r\n\r\n5\r\nfirst\r\n")


async def test_an_answer_with_a_broken_header_is_none(caplog: pytest.LogCaptureFixture) -> None:
    async def splits(front: Front, head: Head, wire: ClientResponder) -> None:
        await wire.answer(200, [(b"x", b"1\r\nset-cookie: a=b")], b"")

    async with fronting(splits) as front:
        said = await front.says(GET.replace(b"Host", b"Connection: close\r\nHost"))
        assert said.startswith(b"HTTP/1.1 500 ")
        assert b"set-cookie" not in said
    assert "line end" in caplog.text


# ---- The end of the server -----------------------------------------------------------------------------------------


async def test_a_server_that_stops_closes_what_rests_and_lets_the_rest_end() -> None:
    async with fronting(patient) as front:
        resting, beginning, asking = [await front.client() for _ in range(3)]
        await asking.send(GET)
        await beginning.send(GET[:20])
        await front.until(lambda: len(front.heads) == 1 and any(each.unread for each in front.connections))
        front.server.stop_accepting()
        assert await resting.ended() == b""
        await beginning.send(GET[20:])
        await front.until(lambda: len(front.heads) == 2)
        front.go.set()
        for client in (asking, beginning):
            answer = await client.answer()
            assert answer.body == b"at last"
            assert await client.ended() == b""
        assert answer.header("connection") == "close"


async def test_a_server_that_winds_down_says_so_with_each_answer() -> None:
    async with fronting() as front:
        before = await front.client()
        await before.send(GET)
        assert (await before.answer()).header("connection") is None
        front.server.close_after_answers()
        for client in (before, await front.client()):
            await client.send(GET)
            assert (await client.answer()).header("connection") == "close"
            assert await client.ended() == b""
