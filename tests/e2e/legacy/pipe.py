"""An agent of either SDK behind its standard streams: what comes on the pipe is put to its ASGI application.

Neither SDK has a binding for stdio. What comes as events is written as frames with one id; all else as one frame. It
imports nothing but the standard library, and is run by either interpreter.
"""

import asyncio
import json
import sys
from typing import Any


async def serve(app: Any, path: str, framing: str) -> None:
    """Answer to the end of standard input, many calls at a time."""
    reader = asyncio.StreamReader(limit=2**26)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    open_calls: set[asyncio.Task[None]] = set()
    while (found := await _read(reader)) is not None:
        headers, content = found
        task = loop.create_task(_answer(app, path, headers, content, framing))
        open_calls.add(task)
        task.add_done_callback(open_calls.discard)


async def _read(reader: asyncio.StreamReader) -> "tuple[list[tuple[bytes, bytes]], bytes] | None":
    headers: list[tuple[bytes, bytes]] = []
    line = await reader.readline()
    if line.startswith(b"{"):
        return headers, line
    while line.strip():
        name, _, value = line.partition(b":")
        headers.append((name.strip().lower(), value.strip()))
        line = await reader.readline()
    if not headers:
        return None
    return headers, await reader.readexactly(int(dict(headers)[b"content-length"]))


async def _answer(app: Any, path: str, headers: list[tuple[bytes, bytes]], content: bytes, framing: str) -> None:
    given = False
    streams = False
    rest = b""

    async def receive() -> dict[str, Any]:
        nonlocal given
        if given:
            # Nobody can hang up on a pipe.
            await asyncio.Event().wait()
        given = True
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        nonlocal streams, rest
        if message["type"] == "http.response.start":
            streams = dict(message["headers"]).get(b"content-type", b"").startswith(b"text/event-stream")
            return
        rest += message.get("body", b"")
        if streams:
            *events, rest = rest.replace(b"\r\n", b"\n").split(b"\n\n")
            for event in events:
                data = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
                if data:
                    _write(b"".join(data), framing)
        elif not message.get("more_body"):
            _write(rest, framing)

    asked = {name: value for name, value in headers if name not in (b"content-length", b"content-type")}
    method = json.loads(content).get("method", "")
    # A line has no header, so its generation shows in the names of its methods alone.
    asked.setdefault(b"a2a-version", b"0.3" if "/" in method else b"1.0")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [*asked.items(), (b"content-type", b"application/json"), (b"host", b"pipe")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    if streams:
        # Over HTTP the end of the answer says it, which after a task was cancelled is all that a2a-sdk 0.3 says.
        _write(json.dumps({"jsonrpc": "2.0", "id": json.loads(content)["id"], "result": None}).encode(), framing)


def _write(content: bytes, framing: str) -> None:
    if framing == "lsp":
        head = f"Content-Length: {len(content)}\r\nContent-Type: application/json\r\n\r\n"
        sys.stdout.buffer.write(head.encode() + content)
    else:
        sys.stdout.buffer.write(content + b"\n")
    sys.stdout.buffer.flush()
