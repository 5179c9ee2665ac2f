"""The cost of translation between generations, beside the conversions of a2a-sdk.

    python -m benchmarks.translation

CPU time of this process for one object whole: read from JSON, lifted, lowered and written as JSON. Best of five, the
gateway and the SDK in turns. The SDK knows no members but its own and turns integers into doubles; the gateway does
neither.

A row is a `Pair`: who translates something else beside something else appends to `PAIRS`.
"""

import json
import time
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import msgspec
from a2a.compat.v0_3 import conversions
from a2a.compat.v0_3 import types as v03
from a2a.types import a2a_pb2 as v10
from google.protobuf.json_format import MessageToJson, Parse  # type: ignore[import-untyped]  # protobuf ships no stubs
from pydantic import BaseModel

from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall
from gateway.a2a.translation import Translation
from gateway.a2a.versions import v0_3, v1_0
from gateway.a2a.versions.version import Form, Memo

ROUNDS = 5
SECONDS = 0.2

Work = Callable[[], bytes]


class Pair(NamedTuple):
    """One row: the gateway's way of doing something, and another's.

    Attributes:
        name: The conversion.
        ours: Does it once, and returns what is written.
        theirs: The same as another does it; None where nobody does.
        aim: Microseconds that ours is to stay below.
    """

    name: str
    ours: Work
    theirs: Work | None
    aim: float


class Row(NamedTuple):
    """Microseconds of CPU for each, and how many bytes were read from and written to."""

    name: str
    ours: float
    theirs: float | None
    aim: float
    length: int


# ---- What is translated: about a thousand bytes of each --------------------------------------------------------------

_TEXT = "Summarise the attached order, please, and say which of its lines cannot be delivered this week. " * 4
PARTS: list[Tree] = [
    {"kind": "text", "text": _TEXT},
    {
        "kind": "data",
        "data": {"order": 42, "lines": [{"sku": "A-1", "qty": 3}, {"sku": "B-2", "qty": 1}], "paid": True},
    },
    {
        "kind": "file",
        "file": {"uri": "https://files.example.net/o/42.pdf", "mimeType": "application/pdf", "name": "42.pdf"},
    },
]
MESSAGE: Tree = {
    "kind": "message", "messageId": "0195f2a0-7b1e-7c8e-9d1a-3f1f0a6b2c4d", "contextId": "ctx-42", "role": "user",
    "parts": PARTS, "metadata": {"trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "attempt": 1},
}  # fmt: skip
PARAMS: Tree = {
    "message": MESSAGE,
    "configuration": {"acceptedOutputModes": ["text/plain", "application/json"], "blocking": True, "historyLength": 5},
    "metadata": {"tier": "gold"},
}
TASK: Tree = {
    "kind": "task", "id": "0195f2a0-7b1e-7c8e-9d1a-3f1f0a6b2c4e", "contextId": "ctx-42",
    "status": {"state": "completed", "timestamp": "2026-02-03T04:05:06.789Z"},
    "artifacts": [{"artifactId": "art-1", "name": "summary", "parts": [{"kind": "text", "text": _TEXT}]}],
    "history": [{**MESSAGE, "parts": [{"kind": "text", "text": "Summarise it."}], "taskId": "task-7"}],
    "metadata": {"cost": 1.5},
}  # fmt: skip
EVENT: Tree = {
    "kind": "status-update", "taskId": "task-7", "contextId": "ctx-42", "final": False,
    "status": {
        "state": "working", "timestamp": "2026-02-03T04:05:06.789Z",
        "message": {
            "kind": "message", "messageId": "msg-s", "role": "agent", "taskId": "task-7", "contextId": "ctx-42",
            "parts": [{"kind": "text", "text": "reading line 3 of 42"}],
        },
    },
}  # fmt: skip


# ---- The gateway -----------------------------------------------------------------------------------------------------

_decode = msgspec.json.Decoder(Tree, float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode
_SEND = Operation.SEND_MESSAGE
OLD, NEW = v0_3.FORM, v1_0.FORM


def params(raw: bytes, ours: Form, theirs: Form) -> bytes:
    memo = Memo(message_id="made")
    return _encode(theirs.lower_params(_SEND, ours.lift_params(_SEND, _decode(raw), memo), memo))


def result(raw: bytes, theirs: Form, ours: Form) -> bytes:
    memo = Memo(message_id="made")
    return _encode(ours.lower_result(_SEND, theirs.lift_result(_SEND, _decode(raw), memo), memo))


def event(raw: bytes, theirs: Form, ours: Form) -> bytes:
    memo = Memo(message_id="made")
    (lowered,) = ours.lower_event(theirs.lift_event(_decode(raw), memo), memo, last=False)
    return _encode(lowered)


# ---- a2a-sdk ---------------------------------------------------------------------------------------------------------


def _core(message: object) -> bytes:
    return bytes(MessageToJson(message, indent=None).encode())


def _compat(model: BaseModel) -> bytes:
    return model.model_dump_json(by_alias=True, exclude_none=True).encode()


def sdk_lifts_params(raw: bytes) -> bytes:
    read = v03.MessageSendParams.model_validate_json(raw)
    request = v03.SendMessageRequest.model_construct(id="1", params=read)
    return _core(conversions.to_core_send_message_request(request))


def sdk_lowers_params(raw: bytes) -> bytes:
    return _compat(conversions.to_compat_send_message_request(Parse(raw, v10.SendMessageRequest()), "1").params)


def sdk_lifts_task(raw: bytes) -> bytes:
    return _core(v10.SendMessageResponse(task=conversions.to_core_task(v03.Task.model_validate_json(raw))))


def sdk_lowers_task(raw: bytes) -> bytes:
    return _compat(conversions.to_compat_task(Parse(raw, v10.SendMessageResponse()).task))


def sdk_lifts_event(raw: bytes) -> bytes:
    read = v03.TaskStatusUpdateEvent.model_validate_json(raw)
    return _core(v10.StreamResponse(status_update=conversions.to_core_task_status_update_event(read)))


def sdk_lowers_event(raw: bytes) -> bytes:
    read = Parse(raw, v10.StreamResponse()).status_update
    return _compat(conversions.to_compat_task_status_update_event(read))


# ---- The table -------------------------------------------------------------------------------------------------------


def pairs() -> list[Pair]:
    old_params, old_task, old_event = (
        json.dumps(tree, separators=(",", ":")).encode() for tree in (PARAMS, TASK, EVENT)
    )
    new_params, new_task = params(old_params, OLD, NEW), result(old_task, OLD, NEW)
    new_event = event(old_event, OLD, NEW)
    return [
        Pair("message, 0.3 to 1.0", lambda: params(old_params, OLD, NEW), lambda: sdk_lifts_params(old_params), 30),
        Pair("message, 1.0 to 0.3", lambda: params(new_params, NEW, OLD), lambda: sdk_lowers_params(new_params), 30),
        Pair("task, 0.3 to 1.0", lambda: result(old_task, OLD, NEW), lambda: sdk_lifts_task(old_task), 30),
        Pair("task, 1.0 to 0.3", lambda: result(new_task, NEW, OLD), lambda: sdk_lowers_task(new_task), 30),
        Pair("status event, 0.3 to 1.0", lambda: event(old_event, OLD, NEW), lambda: sdk_lifts_event(old_event), 15),
        Pair("status event, 1.0 to 0.3", lambda: event(new_event, NEW, OLD), lambda: sdk_lowers_event(new_event), 15),
    ]


def calls() -> list[Pair]:
    """A whole `Translation`, as the line uses it: envelope, ids, path and query included."""
    old_event = json.dumps({"jsonrpc": "2.0", "id": "7", "result": EVENT}, separators=(",", ":")).encode()
    new_params = params(json.dumps(PARAMS, separators=(",", ":")).encode(), OLD, NEW)
    new_task = result(json.dumps(TASK, separators=(",", ":")).encode(), OLD, NEW)
    new_event = b'{"statusUpdate":%b}' % event(json.dumps(EVENT).encode(), OLD, NEW)[len('{"statusUpdate":') : -1]
    rpc = _rpc_call("SendMessage", new_params)
    old = _rpc_call("message/stream", json.dumps(PARAMS, separators=(",", ":")).encode())
    path = PathCall(Operation.SEND_MESSAGE)
    over_rest = rest.read_call(path, new_params, b"", Version.V1_0)
    to_rest, to_rpc = Translation(rpc, _REST), Translation(over_rest, _RPC)
    to_old, to_new = Translation(_rpc_call("SendStreamingMessage", new_params), _OLD), Translation(old, _REST)
    answered = b'{"jsonrpc":"2.0","id":"1","result":%b}' % new_task
    return [
        Pair("call 1.0, JSON-RPC to HTTP+JSON", lambda: Translation(rpc, _REST).call.body, None, 10),
        Pair("call 1.0, HTTP+JSON to JSON-RPC", lambda: Translation(over_rest, _RPC).call.body, None, 10),
        Pair("answer 1.0, HTTP+JSON to JSON-RPC", lambda: to_rest.answer(new_task), None, 10),
        Pair("answer 1.0, JSON-RPC to HTTP+JSON", lambda: to_rpc.answer(answered), None, 10),
        Pair("call 0.3 to 1.0, JSON-RPC to HTTP+JSON", lambda: Translation(old, _REST).call.body, None, 30),
        Pair("event 0.3 to 1.0, JSON-RPC", lambda: to_old.event(old_event), None, 15),
        Pair("event 1.0 to 0.3, HTTP+JSON to JSON-RPC", lambda: to_new.event(new_event), None, 15),
    ]


def _rpc_call(method: str, raw: bytes) -> Call:
    body = b'{"jsonrpc":"2.0","id":"7","method":"%b","params":%b}' % (method.encode(), raw)
    return jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)


_RPC = Dialect(Binding.JSONRPC, Version.V1_0)
_REST = Dialect(Binding.REST, Version.V1_0)
_OLD = Dialect(Binding.JSONRPC, Version.V0_3)

PAIRS: list[Callable[[], list[Pair]]] = [pairs, calls]
"""Functions that make the rows; each is called once."""


def micros(work: Work, seconds: float) -> float:
    """Microseconds of CPU that one call takes, over about so many seconds."""
    loops = 1
    while True:
        started = time.process_time()
        for _ in range(loops):
            work()
        taken = time.process_time() - started
        if taken >= seconds:
            return taken / loops * 1e6
        loops = max(loops * 2, int(loops * seconds / max(taken, 1e-9)))


def measure(pair: Pair, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> Row:
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(micros(pair.ours, seconds))
        if pair.theirs is not None:
            theirs.append(micros(pair.theirs, seconds))
    return Row(pair.name, min(ours), min(theirs) if theirs else None, pair.aim, len(pair.ours()))


def table(rows: list[Row]) -> str:
    lines = [f"{'us of CPU, best of five':41}{'bytes':>7}{'gateway':>10}{'aim':>6}{'a2a-sdk':>10}{'ratio':>8}"]
    for row in rows:
        theirs = f"{'-':>10}{'-':>8}" if row.theirs is None else f"{row.theirs:10.1f}{row.theirs / row.ours:7.1f}x"
        lines.append(f"{row.name:41}{row.length:7}{row.ours:10.1f}{row.aim:6.0f}{theirs}")
    return "\n".join(lines)


def main() -> None:
    print(table([measure(pair) for make in PAIRS for pair in make()]))


if __name__ == "__main__":
    main()
