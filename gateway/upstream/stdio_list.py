"""A list of tasks where several processes have tasks of their own: all are asked, and their lists are merged."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from gateway.a2a.bindings.stdio import hear
from gateway.a2a.document import Members
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.lsp import Frame, Framing
from gateway.a2a.merging import MergedList, Wanted
from gateway.upstream.response import Response
from gateway.upstream.stdio_link import Link

Ask = Callable[[Link, Members], Response]
_NOTHING = msgspec.Raw(b"{}")


async def merged(links: Sequence[Link | None], body: Members, ask: Ask, seconds: float, longest: int) -> Frame:
    """The answer to a ListTasks.

    Args:
        links: The pipes of all processes; None for one that does not run, whose tasks are gone.
        body: Members of the JSON-RPC request.
        ask: Sends one.
        seconds: For each page of each process.
        longest: Bytes of one.

    Raises:
        BadParams: the size of the page is out of bounds, or its token is none of this list.
        UpstreamProtocol: what came is no page.
        UpstreamTimeout, UpstreamReset, NoHealthyBackend, Overloaded: there is no answer.
    """
    missing = frozenset(number for number, link in enumerate(links) if link is None)
    listing = MergedList(body.get("params", _NOTHING), len(links), missing)

    async def page(wanted: Wanted) -> Frame:
        link = links[wanted.source]
        assert link is not None
        response = ask(link, {**body, "params": listing.params(wanted)})
        try:
            await response.head(link.loop.time() + seconds)
            return Frame(await response.read(longest, seconds), response.headers, Framing.LSP)
        finally:
            response.close()

    while wanted := listing.wanted():
        pages = await asyncio.gather(*map(page, wanted))
        for each, frame in zip(wanted, pages, strict=True):
            heard = hear(frame.content)
            if heard is None:
                raise UpstreamProtocol("the agent's answer is no page of tasks")
            if "result" not in heard.members:
                # Its own error, or what whoever relays it refuses.
                return frame
            listing.give(each, heard.members["result"])
    answer = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "result": msgspec.Raw(listing.result())})
    return Frame(answer, [], Framing.LSP)
