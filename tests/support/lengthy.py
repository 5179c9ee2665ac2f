"""Agents of every dialect whose answers and events are as long as they are asked for, and a gateway before them all.

    async with lengthy() as site:
        text = await site.ask("stdio 1.0", Dialect(Binding.REST, Version.V1_0), Operation.SEND_MESSAGE, 30 << 20)

As a2a-sdk does, agents of JSON-RPC write the `id` behind the `result`. The text of a message says how long the answer
is to be.
"""

import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no types
from google.protobuf import json_format  # type: ignore[import-untyped]  # protobuf ships no types

from gateway.a2a.bindings.grpc_message import request_class, result_class
from gateway.a2a.bindings.grpc_method import BY_PATH, SCOPE_FIELD, method_of
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from tests.support.gateway import Running, agent, running
from tests.support.grpc_agent import Asked, grpc_agent
from tests.support.grpc_bytes import held
from tests.support.grpc_gateway import LISTENS
from tests.support.scripted import ScriptedBackend, Wire, head, whole

V0_3, V1_0 = Version.V0_3, Version.V1_0
SEND, STREAM = Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE
EVENTS = 2
"""Events of a stream."""
AGENTS = ("jsonrpc 1.0", "jsonrpc 0.3", "rest 1.0", "rest 0.3", "grpc 1.0", "grpc 0.3", "stdio 1.0")
CLIENTS = tuple(Dialect(binding, version) for binding in Binding for version in (V1_0, V0_3))


def tree(version: Version, binding: str, text: str, state: str = "COMPLETED") -> dict[str, Any]:
    """A task whose artifact has this text, in the words of an agent."""
    if version is V1_0 or binding != "jsonrpc":
        part: dict[str, Any] = {"text": text}
        done = "TASK_STATE_" + state
        return {
            "id": "t",
            "contextId": "c",
            "status": {"state": done},
            "artifacts": [{"artifactId": "a", "parts": [part]}],
        }
    artifacts = [{"artifactId": "a", "parts": [{"kind": "text", "text": text}]}]
    return {"kind": "task", "id": "t", "contextId": "c", "status": {"state": state.lower()}, "artifacts": artifacts}


def envelope(result: dict[str, Any], identity: object) -> bytes:
    """An answer with its id behind its result."""
    return json.dumps({"jsonrpc": "2.0", "result": result, "id": identity}).encode()


def _wanted(body: bytes) -> tuple[int, bool]:
    """Return the wanted length of an answer, and whether it is exact in bytes as written."""
    found = body.split(b"long:")[1]
    return int(found[: found.index(b".")]), b"exactly" in body


def fitted(make: Callable[[str], bytes], size: int, *, exactly: bool) -> bytes:
    """Return the output of `make` for a text of so many bytes, or for one that makes the whole so long."""
    made = make("x" * size)
    return make("x" * (2 * size - len(made))) if exactly else made


def over_http(binding: str, version: Version) -> Any:
    """Return the script of an agent over HTTP."""
    wraps = version is V1_0 or binding == "rest"

    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            size, exactly = _wanted(request.body)
            call = json.loads(request.body) if binding == "jsonrpc" else {}
            streams = "stream" in call.get("method", request.target.decode()).lower()

            def said(text: str, state: str = "COMPLETED", call: dict[str, Any] = call) -> bytes:
                task = tree(version, binding, text, state)
                result = {"task": task} if wraps else task
                answer: bytes = json.dumps(result).encode() if binding == "rest" else envelope(result, call["id"])
                return answer

            if not streams:
                await wire.send(whole(fitted(said, size, exactly=exactly)))
                continue
            await wire.send(head(b"transfer-encoding: chunked", content_type=b"text/event-stream"))
            for number in range(EVENTS):
                state = "COMPLETED" if number == EVENTS - 1 else "WORKING"

                def event(text: str, said: Callable[[str, str], bytes] = said, state: str = state) -> bytes:
                    return b"data: " + said(text, state) + b"\n\n"

                data = fitted(event, size, exactly=exactly)
                for at in range(0, len(data), 1 << 20):
                    piece = data[at : at + (1 << 20)]
                    await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            await wire.send(b"0\r\n\r\n")

    return script


async def _over_grpc(asked: Asked) -> None:
    if b"long:" not in asked.message:
        await asked.fail("UNIMPLEMENTED")
        return
    method = BY_PATH[asked.path]
    size, exactly = _wanted(asked.message)

    def said(text: str, state: str) -> bytes:
        found = result_class(method.operation, method.version)()
        json_format.ParseDict({"task": tree(V1_0, "rest", "", state)}, found)
        # By itself: the reader of JSON looks at each character.
        found.task.artifacts[0].parts[0].text = text
        return bytes(found.SerializeToString())

    count = EVENTS if method.operation.streams else 1
    for number in range(count):
        state = "COMPLETED" if number == count - 1 else "WORKING"
        await asked.write(fitted(partial(said, state=state), size, exactly=exactly))


STDIO = """
import json, sys
for line in sys.stdin.buffer:
    call = json.loads(line)
    text = line.decode()
    if "long:" not in text:
        answer = {"jsonrpc": "2.0", "error": {"code": -32601, "message": "no"}, "id": call["id"]}
        print(json.dumps(answer), flush=True)
        continue
    size = int(text.split("long:")[1].split(".")[0])
    states = ["WORKING"] * (EVENTS - 1) if "Stream" in call["method"] else []
    for state in [*states, "COMPLETED"]:
        task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_" + state}}
        task["artifacts"] = [{"artifactId": "a", "parts": [{"text": "x" * size}]}]
        print(json.dumps({"jsonrpc": "2.0", "result": {"task": task}, "id": call["id"]}), flush=True)
""".replace("EVENTS", str(EVENTS))


@dataclass(frozen=True)
class Site:
    """The gateway."""

    gateway: Running

    async def ask(
        self, name: str, dialect: Dialect, operation: Operation, size: int, *, exactly: bool = False
    ) -> list[str]:
        """Ask an agent for so long a text; gives the texts of its answer or of its events.

        Or the reason of the error, or `cut` for a stream whose dialect has no word for it.
        """
        words = f"long:{size}. {'exactly' if exactly else ''}"
        if dialect.binding is Binding.GRPC:
            return await self._over_grpc(name, dialect, operation, words)
        target, body = request_of(name, dialect, operation, words)
        try:
            answer = await self._posted(target, body)
        except ConnectionResetError:
            return ["cut"]
        reasons = _REASON.findall(answer[-2000:])
        return [reasons[-1].decode().lower()] if reasons else texts(answer)

    async def _posted(self, target: str, body: bytes) -> bytes:
        """Return all that is answered, which a busy machine takes its time for; HTTP/1.0 has no chunks."""
        client = await self.gateway.client()
        head = f"POST {target} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        await client.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        try:
            return await client.reader.read()
        finally:
            client.leave()

    async def _over_grpc(self, name: str, dialect: Dialect, operation: Operation, words: str) -> list[str]:
        old = dialect.version is V0_3
        method = method_of(operation, dialect.version, scoped=old)
        params = _params(dialect, words) | ({} if old else {"tenant": _path(name)})
        message = json_format.ParseDict(params, request_class(method)()).SerializeToString()
        message += held(SCOPE_FIELD, _path(name).encode()) if old else b""
        options = (("grpc.max_receive_message_length", -1),)
        async with grpc.aio.insecure_channel(self.gateway.gateway.grpc_address, options) as channel:
            call = channel.unary_stream(method.path)(message)
            try:
                told = [each async for each in call]
            except grpc.aio.AioRpcError as error:
                reasons = _REASON_IN_DETAILS.findall(dict(error.trailing_metadata())["grpc-status-details-bin"])
                return [reasons[-1].decode().lower()]
        found = [result_class(operation, dialect.version).FromString(each) for each in told]
        return [_text(json_format.MessageToDict(each)) for each in found]


def _path(name: str) -> str:
    return name.replace(" ", "-").replace(".", "-")


def _params(dialect: Dialect, words: str) -> dict[str, Any]:
    named = dialect.version is V0_3 and dialect.binding is Binding.JSONRPC
    part = {"kind": "text", "text": words} if named else {"text": words}
    message: dict[str, Any] = {"messageId": "m", "role": "user" if named else "ROLE_USER"}
    old = dialect.version is V0_3 and not named
    message["content" if old else "parts"] = [part]
    if named:
        message["kind"] = "message"
    return {"request" if dialect == Dialect(Binding.GRPC, V0_3) else "message": message}


def request_of(name: str, dialect: Dialect, operation: Operation, words: str) -> tuple[str, bytes]:
    """The target and the body of a call over HTTP."""
    params = _params(dialect, words)
    if dialect.binding is Binding.REST:
        verb = "message:stream" if operation is STREAM else "message:send"
        return f"/{_path(name)}{'/v1' if dialect.version is V0_3 else ''}/{verb}", json.dumps(params).encode()
    method = {SEND: ("SendMessage", "message/send"), STREAM: ("SendStreamingMessage", "message/stream")}[operation]
    call = {"jsonrpc": "2.0", "id": "c-1", "method": method[dialect.version is V0_3], "params": params}
    return f"/{_path(name)}", json.dumps(call).encode()


def texts(answer: bytes) -> list[str]:
    """The text of each task, or of each artifact, in an answer or its events."""
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"text/event-stream" not in head.lower():
        return [_text(json.loads(body))]
    found = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: ")]
    return [text for each in found if (text := _text(json.loads(each)))]


def _text(told: Any) -> str:
    """The only long text of an answer, wherever it stands."""
    if isinstance(told, dict):
        return next(filter(None, map(_text, told.values())), "")
    if isinstance(told, list):
        return next(filter(None, map(_text, reversed(told))), "")
    return told if isinstance(told, str) and len(told) > 1000 else ""


@asynccontextmanager
async def lengthy(folder: Path, *agents: str, settings: str = "", more: str = "") -> AsyncIterator[Site]:
    """The agents and the gateway.

    Args:
        agents: Those of `AGENTS` that are started; all where none is named.
        settings: Further settings of `gateway:`, as YAML in one line.
        more: Further settings of each agent, likewise.
    """
    async with AsyncExitStack() as stack:
        entries = ""
        for name in agents or AGENTS:
            binding, _, version = name.partition(" ")
            if binding == "stdio":
                (folder / "agent.py").write_text(STDIO)
                command = json.dumps([sys.executable, str(folder / "agent.py")])
                backend = (
                    f"{{ stdio: {{ command: {command}, framing: ndjson, card: none }}, a2a_version: '{version}' }}"
                )
            else:
                if binding == "grpc":
                    url = (await stack.enter_async_context(grpc_agent(_over_grpc, options=UNBOUNDED))).url
                else:
                    script = agent(over_http(binding, Version(version)))
                    url = (await stack.enter_async_context(ScriptedBackend(script))).url
                backend = f'{{ url: "{url}", protocol: {binding}, a2a_version: "{version}" }}'
            at = f"match: {{ path: /{_path(name)} }}"
            entries += f"  {_path(name)}: {{ {at}, backend: {backend}{', ' if more else ''}{more} }}\n"
        text = f"gateway: {{ {LISTENS}{', ' if settings else ''}{settings} }}\nagents:\n{entries}"
        gateway = await stack.enter_async_context(running(text, path=folder / "gateway.yaml", settled=False))
        yield Site(gateway)


_REASON_IN_DETAILS = re.compile(rb"([A-Z_]{5,})\x12\x0ba2a-gateway")
_REASON = re.compile(rb'"reason": ?"([A-Z_]+)"')
UNBOUNDED = (("grpc.max_send_message_length", -1),)
