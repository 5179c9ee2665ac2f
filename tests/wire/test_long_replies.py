"""A long answer is held to the same rules as a short one: it is read whole before a byte of it goes out."""

import pytest

from tests.support.gateway import fronted
from tests.support.scripted import answers, head, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio

SIZE = 2 << 20


def lengthy(opening: bytes, closing: bytes, size: int = SIZE) -> bytes:
    return opening + b'"result":"' + b"x" * size + b'"' + closing


@for_each("framing", [b"content-length: 2000", b"transfer-encoding: chunked"])
async def test_how_long_an_answer_may_be_is_the_operators_choice(framing: bytes) -> None:
    for size, good in ((2000, True), (2001, False)):
        body = lengthy(b'{"id":1,', b"}", 0)
        body = lengthy(b'{"id":1,', b"}", size - len(body))
        raw = whole(body) if b"length" in framing else head(framing) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        async with fronted(answers(raw), "connections: { kept: 2000 }") as (gateway, _):
            answer = await gateway.post("/echo")
            assert (answer.body == body) == good
            assert good or answer.json["error"]["code"] == -32006
            assert (await gateway.line())["detail"] == (None if good else "over 2000 bytes")


@for_each("inside", [b"{},", b'{"a":1},', b"0,"])
async def test_a_long_answer_of_too_many_values_is_refused(inside: bytes) -> None:
    """To read it would take twenty times its length."""
    body = b'{"jsonrpc":"2.0","id":1,"result":{"history":[%b0]}}' % (inside * (16 << 20 >> 1))
    async with fronted(answers(whole(body[: 31 << 20] if inside != b"0," else body))) as (gateway, _):
        answer = await gateway.post("/echo")
        assert answer.json["error"]["code"] == -32006
        assert "more than" in (await gateway.line())["detail"]


async def test_a_connection_serves_no_other_call_before_a_long_answer_on_it_was_read() -> None:
    """Nobody would know whose the next answer on it is (safety T14)."""
    async with fronted(answers(whole(lengthy(b'{"id":1,', b"}")))) as (gateway, backend):
        for _ in range(2):
            assert (await gateway.post("/echo")).status == 200
        assert len({request.connection for request in backend.requests}) == 2
