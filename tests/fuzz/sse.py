"""Server-sent events: the same events in the same order, however the stream is cut, in bounded memory.

Bstream        the first byte is the size of the pieces, the rest is what an agent sends
"""

import re

from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.sse import Event, SseDecoder, encode
from tests.fuzz.driver import run

CAP = 1024

SEEDS = [
    b"\x03data: 1\n\ndata: 2\r\n\r\ndata: 3\r\r",
    b"\x01event: error\r\ndata: {\r\ndata: }\r\n\r\n",
    b"\x02\xef\xbb\xbfid: 7\ndata:x\n\n: ping\n\n:\n\nretry: 1\n\n",
    b"\x07data\n\ndata:\n\nevent: a\nevent: b\ndata: x\n\ndata: half",
    b"\x05data: " + b"x" * CAP + b"\n\n",
    b"\x04\r\n\r\n\r\rdata: 1\r\n\rdata: 2\n\r\n",
    b"\x09: " + b"c" * 70 + b"\n\n: c\ndata: x\n\n",
]
WORDS = [
    b"data: ", b"data:", b"data", b"event: ", b"event:", b"id: ", b"retry: ", b": ", b":", b"\n", b"\r",
    b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\r", b"\xef\xbb\xbf", b"x" * 100, b"{}", b"\xc3\xa4", b"\xe2\x80\xa8", b"\x0b",
    b"\x0c", b"\x85",
]  # fmt: skip


def target(data: bytes) -> object:
    """Reads the stream in pieces of three sizes."""
    size, stream = (data[0] if data else 0) + 1, data[1:]
    found = [_decoded(stream, each) for each in (1, size, len(stream) + 1)]
    assert len({(tuple(_reads(events)), refused) for events, _, refused in found}) == 1
    for events, rest, refused in found:
        given = b"".join(event.raw for event in events)
        assert given + rest == stream or (refused and stream.startswith(given))
        # Events are complete in themselves: read as the standard reads them, and only whole ones.
        assert _reads(events) == _as_the_standard_reads(given)
        for event in events:
            assert len(event.raw) <= CAP or event.silent
    reads = _reads(found[0][0])
    for name, value in reads:
        if b"\n" not in value and not set(name) & set("\r\n"):
            assert _reads(_decoded(encode(value, name), 1)[0]) == [(name, value)] or _is_strange(name)
    return len(reads), found[0][2], len(found[2][0])


def _decoded(stream: bytes, size: int) -> tuple[list[Event], bytes, bool]:
    decoder = SseDecoder(CAP)
    events: list[Event] = []
    for at in range(0, len(stream), size):
        try:
            events += decoder.feed(stream[at : at + size])
        except UpstreamProtocol:
            break
        assert decoder.held <= CAP
    return events, decoder.rest, decoder.refused is not None


def _reads(events: list[Event]) -> list[tuple[str, bytes]]:
    return [read for event in events if (read := event.read()) is not None]


def _as_the_standard_reads(stream: bytes) -> list[tuple[str, bytes]]:
    """WHATWG HTML §9.2.6, line by line."""
    found: list[tuple[str, bytes]] = []
    name, data = "message", list[bytes]()
    for line in re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            found += [(name, b"\n".join(data))] if data else []
            name, data = "message", []
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace") or "message"
    return found


def _is_strange(name: str) -> bool:
    """Whether a name of an agent's is one that the gateway would never write: it has none but its own."""
    return name != "error"


if __name__ == "__main__":
    run(target, SEEDS, words=WORDS, longest=4 * 1024)
