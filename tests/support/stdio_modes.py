"""In which ways agents on stdio misbehave (`stdio_agent.py`); it needs nothing but Python."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.support.stdio_speech import Agent, Call, message, piece, status


def hangs() -> None:
    while True:
        signal.pause()


def dies(agent: Agent, call: Call) -> None:
    """Exits without an answer."""
    os._exit(1)


def is_killed(agent: Agent, call: Call) -> None:
    """Ends as by the kernel, for want of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def dies_in_frame(agent: Agent, call: Call) -> None:
    """Exits in the middle of an answer."""
    agent.raw(agent.says(call, "half")[:-10])
    os._exit(1)


def dies_in_stream(agent: Agent, call: Call) -> None:
    """Exits behind COUNT events."""
    agent.stream(call, agent.count, ends=False)
    os._exit(1)


def says_nothing(agent: Agent, call: Call) -> None:
    """Never answers, and goes on with other calls."""


def stops(agent: Agent, call: Call) -> None:
    """Never answers, and reads nothing more."""
    hangs()


def leaves_half(agent: Agent, call: Call) -> None:
    """Writes half a frame, and nothing more ever."""
    agent.raw(agent.says(call, "half")[:-10])
    hangs()


def drips(agent: Agent, call: Call) -> None:
    """Writes a good answer byte by byte."""
    for byte in agent.says(call, "drip"):
        agent.raw(bytes((byte,)))


def headed(*fields: str) -> "Mode":
    """Answers with these fields for a header, none of which may be what it should be."""

    def mode(agent: Agent, call: Call) -> None:
        content = json.dumps({"jsonrpc": "2.0", "id": call.id, "result": message(call, "lied")}).encode()
        lines = [
            line.replace("LONGER", str(len(content) + 1)).replace("SHORTER", str(len(content) - 1)) for line in fields
        ]
        lines = [line.replace("RIGHT", str(len(content))) for line in lines]
        agent.raw("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + content)

    mode.__doc__ = f"Answers under the header {', '.join(fields) or '(none)'}."
    return mode


def says_raw(data: bytes) -> "Mode":
    """Writes this in front of a good answer."""

    def mode(agent: Agent, call: Call) -> None:
        agent.raw(data + agent.says(call, "behind it"))

    mode.__doc__ = f"Writes {data[:40]!r} in front of a good answer."
    return mode


def frames_raw(content: bytes) -> "Mode":
    """Answers with a good frame with this in it, `ID` being the id of the call."""

    def mode(agent: Agent, call: Call) -> None:
        agent.raw(agent.frame(content.replace(b"ID", json.dumps(call.id).encode())))

    mode.__doc__ = f"Answers with a frame of {content[:60]!r}."
    return mode


def is_huge(agent: Agent, call: Call) -> None:
    """Answers with a text of COUNT bytes."""
    agent.raw(agent.says(call, "x" * agent.count))


def sends_endless(begin: bytes, again: bytes) -> "Mode":
    """Writes something that never ends."""

    def mode(agent: Agent, call: Call) -> None:
        agent.raw(begin)
        while True:
            agent.raw(again)

    mode.__doc__ = f"Writes {begin!r}, and {again[:10]!r} without end."
    return mode


def floods_stdout(agent: Agent, call: Call) -> None:
    """Writes COUNT frames that nobody asked for, and a good answer."""
    stray = agent.frame({"jsonrpc": "2.0", "id": "nobody", "result": message(call, "stray")})
    for _ in range(agent.count):
        agent.raw(stray)
    agent.raw(agent.says(call, "flooded"))


def floods_events(agent: Agent, call: Call) -> None:
    """Streams pieces of 10 KiB without end."""
    event = agent.frame({"jsonrpc": "2.0", "id": call.id, "result": piece(call, "x" * 10_000)})
    while True:
        agent.raw(event)


def floods_stderr(agent: Agent, call: Call) -> None:
    """Writes COUNT lines to stderr, and a good answer."""
    for number in range(agent.count):
        sys.stderr.write(f"line {number} {'x' * 90}\n")
    sys.stderr.flush()
    agent.raw(agent.says(call, "flooded"))


def floods_stderr_line(agent: Agent, call: Call) -> None:
    """Writes COUNT bytes to stderr without a line end, some of them no text, and a good answer."""
    sys.stderr.buffer.write(b"\xff\x00\x1b[2J" + b"x" * agent.count)
    sys.stderr.flush()
    agent.raw(agent.says(call, "flooded"))


def answers_twice(agent: Agent, call: Call) -> None:
    """Answers the same call twice."""
    agent.raw(agent.says(call, "once") + agent.says(call, "twice"))


def answers_nobody(agent: Agent, call: Call) -> None:
    """Answers calls that nobody made, and then this one."""
    for stray in ("nobody", 0, None, f"{call.id}x", [call.id], {"id": call.id}):
        agent.raw(agent.frame({"jsonrpc": "2.0", "id": stray, "result": message(call, "stray")}))
    agent.raw(agent.says(call, "mine"))


def answers_the_last(agent: Agent, call: Call) -> None:
    """Answers the call before this one again, and this one."""
    if agent.held:
        agent.raw(agent.says(agent.held.pop(), "late"))
    agent.held.append(call)
    agent.raw(agent.says(call, "mine"))


def reverses(agent: Agent, call: Call) -> None:
    """Waits for COUNT calls, and answers them with their own texts, the last one first."""
    agent.held.append(call)
    if len(agent.held) == agent.count:
        while agent.held:
            late = agent.held.pop()
            agent.raw(agent.says(late, late.text))


def interleaves(agent: Agent, call: Call) -> None:
    """Waits for COUNT streams, and tells them one event of each by turns."""
    agent.held.append(call)
    if len(agent.held) < agent.count:
        return
    for number in range(10):
        for each in agent.held:
            agent.answer(each, piece(each, f"{each.text} {number}"))
    while agent.held:
        late = agent.held.pop()
        agent.answer(late, status(late, "completed"))


def asks_back(agent: Agent, call: Call) -> None:
    """Asks the host for something, which A2A does not know, and answers with what the host says."""
    agent.raw(agent.frame({"jsonrpc": "2.0", "method": "log", "params": {"text": "a notification"}}))
    agent.raw(agent.frame({"jsonrpc": "2.0", "id": call.id, "method": "sampling/createMessage", "params": {}}))
    agent.held.append(call)


def closes_stdin(agent: Agent, call: Call) -> None:
    """Closes its stdin, and stays."""
    os.close(0)
    hangs()


def closes_stdout(agent: Agent, call: Call) -> None:
    """Closes its stdout, and stays."""
    os.close(agent.out.fileno())
    hangs()


def frames_otherwise(agent: Agent, call: Call) -> None:
    """Answers in the other framing than it was told."""
    other = "lsp" if agent.framing == "ndjson" else "ndjson"
    agent.raw(agent.frame({"jsonrpc": "2.0", "id": call.id, "result": message(call, other)}, framing=other))


def ends_by(*, field: str = "", null: bool = False, word: bool = False, fault: bool = False) -> "Mode":
    """Streams COUNT pieces of a task that does not rest, and ends the stream in this way."""

    def mode(agent: Agent, call: Call) -> None:
        agent.stream(call, agent.count, ends=False)
        if field:
            agent.answer(call, piece(call, "last"), field)
        if null:
            agent.answer(call, None)
        if word:
            agent.raw(agent.says(call, "last"))
        if fault:
            agent.fail(call, -32603, "no more")

    mode.__doc__ = "Streams COUNT pieces of a task that does not rest, and says the end otherwise, or not at all."
    return mode


def goes_on_after_the_end(agent: Agent, call: Call) -> None:
    """Streams to the end of the task, and on."""
    agent.stream(call, 1)
    for number in range(agent.count):
        agent.answer(call, piece(call, f"late {number}"))


def eats_memory(agent: Agent, call: Call) -> None:
    """Takes COUNT MiB, and answers if it got them."""
    kept = [bytearray(1 << 20) for _ in range(agent.count)]
    agent.raw(agent.says(call, f"{len(kept)} MiB"))


def eats_time(agent: Agent, call: Call) -> None:
    """Computes for ever."""
    while True:
        pass


def eats_files(agent: Agent, call: Call) -> None:
    """Opens COUNT files, and answers how many it got."""
    with ExitStack() as kept:
        got = 0
        try:
            while got < agent.count:
                kept.enter_context(Path(__file__).open())
                got += 1
        except OSError:
            pass
    agent.raw(agent.says(call, str(got)))


def leaves(agent: Agent, call: Call) -> None:
    """Exits in peace, without an answer."""
    os._exit(0)


def refuses(agent: Agent, call: Call) -> None:
    """Knows no such method."""
    agent.fail(call, -32601, "no such method")


def forks(agent: Agent, call: Call) -> None:
    """Starts a child that lives for ever and holds the pipes, and answers which."""
    child = subprocess.Popen([sys.executable, "-c", "import signal\nwhile True: signal.pause()"])
    agent.note("child", child.pid)
    agent.raw(agent.says(call, str(child.pid)))


def forks_stubborn(agent: Agent, call: Call) -> None:
    """As `forks`; the child ignores TERM and HUP."""
    program = "import signal\nfor each in (15, 1): signal.signal(each, signal.SIG_IGN)\nprint('up', flush=True)\n"
    program += "while True: signal.pause()"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    agent.note("child", child.pid)
    agent.raw(agent.says(call, str(child.pid)))


def dies_with_child(agent: Agent, call: Call) -> None:
    """Starts a child that holds the pipes, and exits without an answer."""
    child = subprocess.Popen([sys.executable, "-c", "import signal\nwhile True: signal.pause()"])
    agent.note("child", child.pid)
    os._exit(1)


Mode = Callable[[Agent, Call], None]
_ENVELOPE = b'{"jsonrpc":"2.0","id":ID'
MODES: dict[str, Mode] = {
    "behaves": lambda agent, call: agent.raw(agent.says(call, call.text)),
    "dies": dies,
    "is-killed": is_killed,
    "dies-in-frame": dies_in_frame,
    "dies-in-stream": dies_in_stream,
    "dies-with-child": dies_with_child,
    "says-nothing": says_nothing,
    "stops": stops,
    "leaves-half": leaves_half,
    "drips": drips,
    "length-too-long": headed("Content-Length: LONGER", "Content-Type: application/json"),
    "length-too-short": headed("Content-Length: SHORTER", "Content-Type: application/json"),
    "length-negative": headed("Content-Length: -1", "Content-Type: application/json"),
    "length-signed": headed("Content-Length: +RIGHT", "Content-Type: application/json"),
    "length-hex": headed("Content-Length: 0xff", "Content-Type: application/json"),
    "length-huge": headed("Content-Length: 99999999999", "Content-Type: application/json"),
    "length-twice": headed("Content-Length: RIGHT", "Content-Length: RIGHT", "Content-Type: application/json"),
    "length-missing": headed("Content-Type: application/json"),
    "length-only": headed("content-length:RIGHT"),
    "header-without-colon": headed("Content-Length: RIGHT", "nothing"),
    "header-many": headed("Content-Length: RIGHT", *[f"X-{number}: y" for number in range(100)]),
    "header-long": headed("Content-Length: RIGHT", "X: " + "y" * 10_000),
    "charset-other": headed("Content-Length: RIGHT", "Content-Type: application/json; charset=utf-16"),
    "header-endless": sends_endless(b"X-Filler: ", b"y" * 4096),
    "headers-endless": sends_endless(b"", b"X-Filler: y\r\n" * 100),
    "line-endless": sends_endless(b'{"jsonrpc":"2.0","result":"', b"y" * 65536),
    "blank-endless": sends_endless(b"", b"\r\n" * 4096),
    "garbage": says_raw(bytes(range(256))),
    "log-line": says_raw(b"INFO:     Started server process\n"),
    "log-json": says_raw(b'{"level":"info","message":"started"}\n'),
    "blank-lines": says_raw(b"\r\n\n\r\n"),
    "byte-order-mark": says_raw(b"\xef\xbb\xbf"),
    "no-json": frames_raw(b"<html>"),
    "empty": frames_raw(b""),
    "batch": frames_raw(b"[" + _ENVELOPE + b',"result":{}}]'),
    "null": frames_raw(b"null"),
    "no-result": frames_raw(_ENVELOPE + b"}"),
    "result-and-error": frames_raw(_ENVELOPE + b',"result":{},"error":{"code":-32603,"message":"x"}}'),
    "error-of-text": frames_raw(_ENVELOPE + b',"error":"no"}'),
    "two-ids": frames_raw(_ENVELOPE + b',"id":"nobody","result":{"message":{}}}'),
    "not-utf-8": frames_raw(_ENVELOPE + b',"result":{"message":"\xff\xfe"}}'),
    "nested": frames_raw(_ENVELOPE + b',"result":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
    "huge": is_huge,
    "floods-stdout": floods_stdout,
    "floods-events": floods_events,
    "floods-stderr": floods_stderr,
    "floods-stderr-line": floods_stderr_line,
    "answers-twice": answers_twice,
    "answers-nobody": answers_nobody,
    "answers-the-last": answers_the_last,
    "reverses": reverses,
    "interleaves": interleaves,
    "asks-back": asks_back,
    "closes-stdin": closes_stdin,
    "closes-stdout": closes_stdout,
    "frames-otherwise": frames_otherwise,
    "ends-by-field": ends_by(field="A2A-Stream: end"),
    "ends-by-null": ends_by(null=True),
    "ends-by-message": ends_by(word=True),
    "ends-by-error": ends_by(fault=True),
    "never-ends": ends_by(),
    "goes-on-after-the-end": goes_on_after_the_end,
    "eats-memory": eats_memory,
    "eats-time": eats_time,
    "eats-files": eats_files,
    "leaves": leaves,
    "refuses": refuses,
    "forks": forks,
    "forks-stubborn": forks_stubborn,
}
"""Faults of calls that are not answered as they should be."""
