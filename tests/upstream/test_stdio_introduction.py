"""How an agent on stdio shows that it is there, and who it is."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.a2a.dialect import Version
from gateway.a2a.fault import UpstreamTimeout
from gateway.a2a.framing.lsp import FrameDecoder, Framing, encode
from gateway.upstream.stdio_introduction import EXTENDED, MANNER, Introduction, Manner, introduce
from gateway.upstream.stdio_link import Link

pytestmark = pytest.mark.anyio

CARD = {"name": "Notes"}
UNKNOWN = {"error": {"code": -32601, "message": "no such method"}}


def linked(answers: Callable[[str, str], dict[str, Any] | None]) -> Link:
    """A pipe to an agent that answers a method in a generation."""
    decoder = FrameDecoder()

    def write(data: bytes) -> None:
        for frame in decoder.feed(data):
            call = json.loads(frame.content)
            answer = answers(call["method"], (frame.header(b"a2a-version") or b"").decode())
            if answer is not None:
                told = json.dumps({"jsonrpc": "2.0", "id": call["id"], **answer}).encode()
                asyncio.get_running_loop().call_soon(link.hear, encode(told, Framing.LSP))

    link = Link("notes", write=write)
    return link


async def test_it_gives_its_extended_card_in_whichever_generation_has_it() -> None:
    asked: list[tuple[str, str]] = []

    def old(method: str, version: str) -> dict[str, Any]:
        asked.append((method, version))
        return {"result": CARD} if method == "agent/getAuthenticatedExtendedCard" else UNKNOWN

    told = await introduce(linked(old), EXTENDED, MANNER, 10)
    assert asked == [("GetExtendedAgentCard", "1.0"), ("agent/getAuthenticatedExtendedCard", "0.3")]
    assert told.versions == (Version.V0_3,)
    assert json.loads(told.card or b"") == CARD


async def test_the_file_may_say_which_generation_is_asked() -> None:
    told = await introduce(
        linked(lambda _, version: {"result": {"name": version}}), EXTENDED, Manner(version=Version.V0_3), 10
    )
    assert json.loads(told.card or b"") == {"name": "0.3"}


@pytest.mark.parametrize(
    ("answer", "versions"),
    [
        (UNKNOWN, ()),
        ({"error": {"code": -32007, "message": "there is none"}}, (Version.V1_0, Version.V0_3)),
        ({"result": None}, (Version.V1_0, Version.V0_3)),
    ],
)
async def test_any_answer_shows_that_it_is_there(answer: dict[str, Any], versions: tuple[Version, ...]) -> None:
    assert await introduce(linked(lambda _method, _version: answer), EXTENDED, MANNER, 10) == Introduction(
        None, versions
    )


async def test_it_may_have_a_method_of_its_own_for_its_card() -> None:
    link = linked(lambda method, _: {"result": CARD} if method == "agent/card" else UNKNOWN)
    assert json.loads((await introduce(link, "agent/card", MANNER, 10)).card or b"") == CARD


async def test_it_is_not_asked_where_the_file_says_so() -> None:
    assert await introduce(linked(lambda _method, _version: None), "none", MANNER, 10) == Introduction()


async def test_who_does_not_answer_is_not_there() -> None:
    with pytest.raises(UpstreamTimeout):
        await introduce(linked(lambda _method, _version: None), EXTENDED, MANNER, 0.01)
