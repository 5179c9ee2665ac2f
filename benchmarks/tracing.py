"""Cost of tracing for a call: off, not sampled, sampled; and off beside another checkout.

    python -m benchmarks.tracing [--before DIR] [--rounds N]

The first figure is what a call costs without tracing where a span is begun or asked for, alone in a loop. The others
are whole calls in turns, each run in a process of its own in which the gateway, its agent and its client run: CPU time
of that process. A collector that discards everything runs beside them. DIR is a checkout without tracing.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path

from gateway.a2a.call import Head
from gateway.app import Gateway
from gateway.config.check import examine
from gateway.proxy.client_address import trace_id
from gateway.proxy.request import RequestContext
from gateway.tasks.state_url import StateUrl
from gateway.telemetry.metrics import AgentMeter, GatewayMetrics

TREE = Path(__file__).resolve().parent.parent
_CALLS = 1500
_BODY = (
    b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER",'
    b'"parts":[{"text":"hi"}]}}}'
)
_RESULT = (
    b'{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"m2","role":"ROLE_AGENT","parts":[{"text":"ho"}]}}}'
)
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(_RESULT), _RESULT)
_EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_PARENT = b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"


async def _answer(answer: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            _, named, length = head.partition(b"content-length:")
            await reader.readexactly(int(length.partition(b"\r")[0]) if named else 0)
            writer.write(answer)


async def collector() -> None:
    server = await asyncio.start_server(partial(_answer, _EMPTY), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def calls(tracing: str, more: bytes) -> None:
    """Print the CPU time of a call in µs."""
    agent = await asyncio.start_server(partial(_answer, _ANSWER), "127.0.0.1", 0)
    text = f"version: 1\ngateway: {{ listen: '127.0.0.1:0', admin: '127.0.0.1:0' }}\n{tracing}\n"
    text += f"agents: {{ echo: 'http://127.0.0.1:{agent.sockets[0].getsockname()[1]}' }}\n"
    examined = examine(Path("gateway.yaml"), {}, text=text)
    gateway = Gateway(examined, access_stream=BytesIO(), state=StateUrl("memory"))
    await gateway.start()
    reader, writer = await asyncio.open_connection(*gateway.public_url.removeprefix("http://").split(":"))
    head = b"POST /echo HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b"
    request = head % (more, len(_BODY), _BODY)

    async def repeat(number: int) -> None:
        for _ in range(number):
            writer.write(request)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await reader.readexactly(len(_RESULT))

    await repeat(_CALLS // 5)
    began = time.process_time()
    await repeat(_CALLS)
    print((time.process_time() - began) / _CALLS * 1e6)
    writer.close()
    hurry = asyncio.Event()
    hurry.set()
    await gateway.stop(hurry, delay=0.0)
    agent.close()


def _command(tree: Path, call: str) -> list[str]:
    """Return the command that runs a coroutine of this file with the gateway of a checkout."""
    code = f"import asyncio, runpy; asyncio.run(runpy.run_path({__file__!r}){call})"
    return ["env", f"PYTHONPATH={tree}", sys.executable, "-c", code]


def _once(tree: Path, tracing: str, more: bytes = b"") -> float:
    command = _command(tree, f"['calls']({tracing!r}, {more!r})")
    return float(subprocess.check_output(command, stderr=subprocess.DEVNULL))


def _added() -> float:
    """Return what is added to a call without tracing, in µs."""
    request = RequestContext(
        Head("POST", b"/echo"), "id", 0.0, AgentMeter(GatewayMetrics("", list), "echo", frozenset())
    )

    def before() -> None:
        request.trace_id = trace_id(request.head)

    def off() -> None:
        request.trace(None)
        # Once for each place on the way of a call that asks for a span.
        for _ in (1, 2, 3, 4, 5, 6, 7):
            if request.span is not None:
                raise AssertionError

    took = [min(timeit.repeat(work, number=100_000, repeat=15)) * 10 for work in (off, before)]
    return took[0] - took[1]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--before", type=Path, help="a checkout without tracing")
    arguments.add_argument("--rounds", type=int, default=9)
    asked = arguments.parse_args()
    print(f"added to a call without tracing, alone: {_added():.2f} µs")
    with subprocess.Popen(
        _command(TREE, "['collector']()"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as beside:
        assert beside.stdout is not None
        url = f"http://127.0.0.1:{int(beside.stdout.readline())}"

        def tracing(sample: float) -> str:
            return "observe: " + json.dumps({"tracing": {"otlp": url, "protocol": "http/protobuf", "sample": sample}})

        rows: dict[str, Callable[[], float]] = {
            "off": lambda: _once(TREE, ""),
            "not sampled": lambda: _once(TREE, tracing(0)),
            "sampled": lambda: _once(TREE, tracing(1)),
            "sampled by the caller": lambda: _once(TREE, tracing(0), _PARENT),
        }
        if asked.before is not None:
            rows["before"] = lambda: _once(asked.before, "")
        took: dict[str, list[float]] = {name: [] for name in rows}
        for _ in range(asked.rounds):
            for name, run in rows.items():
                took[name].append(run())
        beside.terminate()
    for name, figures in took.items():
        more = statistics.median(one - off for one, off in zip(figures, took["off"], strict=True))
        print(f"{name}: {statistics.median(figures):.1f} µs, least {min(figures):.1f}; beside off {more:+.1f}")


if __name__ == "__main__":
    main()
