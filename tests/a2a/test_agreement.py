"""Every parser reads a forwarded request alike: the tenant, the method and the id that the gateway decided on.

Texts come from a grammar of A2A requests with members twice, escaped or in another case, odd numbers and odd space;
the readers are Python's json, msgspec, protobuf's ProtoJSON with the official messages, and Node's JSON.parse.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from a2a.types import a2a_pb2
from google.protobuf import json_format  # type: ignore[import-untyped]  # protobuf has no types of its own
from hypothesis import event, given
from hypothesis import strategies as st

from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.params import with_tenant
from gateway.a2a.paths import PathCall
from tests.a2a.corpus import DOCUMENTS, ENVELOPE, SEND, VALUES
from tests.support.node import Node

# ---- The grammar -----------------------------------------------------------------------------------------------------


@st.composite
def spelled(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A string, now and then with some of its characters escaped."""
    text = draw(texts)
    if draw(st.integers(0, 9)):
        return json.dumps(text, ensure_ascii=False)
    written = ""
    for character in text:
        if draw(st.integers(0, 2)) == 0:
            code = draw(st.sampled_from(["\\u{:04x}", "\\u{:04X}"]))
            written += "".join(code.format(unit) for unit in _units(character))
        else:
            written += json.dumps(character, ensure_ascii=False)[1:-1]
    return f'"{written}"'


def _units(character: str) -> Iterator[int]:
    raw = character.encode("utf-16-be")
    return (int.from_bytes(raw[place : place + 2]) for place in range(0, len(raw), 2))


good_spaces = st.sampled_from(["", "", " ", "\n", "\t ", "\r\n"])
bad_spaces = st.sampled_from(["", "", "", "", "", "", "", "", "\x0c", "\u00a0", "/**/"])
good_numbers = st.sampled_from(
    ["0", "-0", "7", "-1.5", "1e2", "1E+05", "9007199254740993", "1" * 25, "1e308", "1e-400", "0." + "3" * 40]
)
bad_numbers = st.sampled_from(["1e309", "01", "1.", ".5", "+1", "0x1", "NaN", "-Infinity", "9" * 309, "1e1000"])
texts = st.sampled_from(["", "acme", "globex", "a}", '","tenant":"x', "\\", '"', "\u00e4", "\U0001f600", "]", "\u2028"])
good_leaves = spelled(texts) | good_numbers | st.sampled_from(["true", "false", "null"])
bad_leaves = bad_numbers | st.sampled_from(["tru", '"\\ud800"', '"\\x"', "'a'", '"\n"', '"a', "[1,]", ""])
good_tenants = spelled(st.sampled_from(["acme", "acme", "acme", ""])) | st.just("null")
bad_tenants = spelled(st.sampled_from(["globex", "Acme"])) | st.sampled_from(["1", "{}", '["acme"]'])
odd_names = st.sampled_from(
    ["tenant", "Tenant", "TENANT", "params", "Params", "param\u017f", "method", "METHOD", "id", "ID", "__proto__", "x",
     "tenant\0", "message", "me\u017fsage", "taskId", "tas\u212aId", "task_id", "configuration", "metadata", ""]
)  # fmt: skip


class Pen:
    """Writes requests; now and then, if it is a bad one, with a mistake."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self._bad = draw(st.integers(0, 2)) == 0
        self._gaps = draw(st.booleans())

    def pick(self, good: st.SearchStrategy[str], bad: st.SearchStrategy[str]) -> str:
        return self.draw(bad if self._bad and self.draw(st.integers(0, 9)) == 0 else good)

    def gap(self) -> str:
        return self.pick(good_spaces, bad_spaces) if self._gaps else ""

    def tenant(self) -> str:
        return self.pick(good_tenants, bad_tenants)

    def object(self, *members: tuple[str, str] | None) -> str:
        """An object of these members in any order, and now and then one twice, or one that nobody expects."""
        there = [member for member in members if member is not None]
        pairs = [(self.draw(spelled(st.just(name))), value) for name, value in self.draw(st.permutations(there))]
        if self.draw(st.integers(0, 19)) == 0:
            extra = self.draw(spelled(odd_names)), self.pick(good_leaves, bad_leaves)
            pairs.insert(self.draw(st.integers(0, len(pairs))), extra)
        if self._bad and pairs and self.draw(st.integers(0, 9)) == 0:
            pairs.insert(self.draw(st.integers(0, len(pairs))), self.draw(st.sampled_from(pairs)))
        inside = [f"{self.gap()}{name}{self.gap()}:{self.gap()}{value}{self.gap()}" for name, value in pairs]
        return "{" + ",".join(inside) + "}"

    def maybe(self, name: str, value: str) -> tuple[str, str] | None:
        return (name, value) if self.draw(st.booleans()) else None

    def anything(self, depth: int = 2) -> str:
        """A value that nobody looks into: members may stand twice there."""
        kind = self.draw(st.integers(0, 3)) if depth else 0
        if kind < 2:
            return self.pick(good_leaves, bad_leaves)
        inner = [self.anything(depth - 1) for _ in range(self.draw(st.integers(0, 3)))]
        if kind == 2:
            return "[" + ",".join(inner) + "]"
        return "{" + ",".join(f"{self.draw(spelled(odd_names))}:{value}" for value in inner) + "}"

    def params(self) -> str:
        """The parameters of a SendMessage."""
        push = self.object(self.maybe("tenant", self.tenant()), ("url", '"https://x"'))
        configuration = self.object(
            self.maybe("taskPushNotificationConfig", push), self.maybe("historyLength", "1"), self.maybe("x", "[]")
        )
        message = self.object(
            ("messageId", '"m"'),
            ("role", '"ROLE_USER"'),
            ("parts", '[{"text":"hi"}]'),
            self.maybe("taskId", self.draw(spelled(st.just("t")))),
            self.maybe("metadata", self.anything()),
        )
        return self.object(
            ("message", message),
            self.maybe("configuration", configuration),
            self.maybe("tenant", self.tenant()),
            self.maybe("metadata", self.anything()),
        )

    def request(self) -> str:
        identity = self.pick(spelled(texts) | st.sampled_from(["1", "-0", "null", "9007199254740993"]), bad_leaves)
        method = self.draw(spelled(st.sampled_from(["SendMessage", "SendStreamingMessage"])))
        members = ("jsonrpc", '"2.0"'), ("id", identity), ("method", method), ("params", self.params())
        return self.gap() + self.object(*members) + self.gap()


sends = st.composite(lambda draw: Pen(draw).params())
requests = st.composite(lambda draw: Pen(draw).request())


# ---- The readers -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node() -> Iterator[Node | None]:
    with ExitStack() as stack:
        yield stack.enter_context(Node()) if Node.is_here() else None


def told(params: Any) -> tuple[object, ...]:
    """The tenants that a reader finds in parameters, where it looks for them; an empty one is none."""
    configuration = params.get("configuration") or {}
    push = configuration.get("taskPushNotificationConfig") or {}
    return params.get("tenant") or None, push.get("tenant") or None


def proto_told(text: bytes) -> tuple[object, ...] | None:
    """As protobuf reads them; None where it refuses the parameters."""
    try:
        request = json_format.Parse(text, a2a_pb2.SendMessageRequest(), ignore_unknown_fields=True)
    except json_format.ParseError:
        return None
    return request.tenant or None, request.configuration.task_push_notification_config.tenant or None


def readings(body: bytes, node: Node | None) -> list[Any]:
    read = [json.loads(body), msgspec.json.decode(body)]
    if node is not None:
        read.append(node.parse(body))
    return read


def forwarded(call: Call, wanted: str | None) -> bytes:
    """Return the request that an agent gets for this tenant."""
    if (call.tenant_written and wanted == call.tenant) or (wanted is None and not call.in_body):
        return call.body
    return with_tenant(call.params, call.body, wanted)


wanted_tenants = st.sampled_from(["initech", None])


def agree(call: Call, body: bytes, wanted: str | None, node: Node | None) -> None:
    """Every reader of `body` finds this tenant, and the method and the id of the call."""
    trees = readings(body, node)
    if call.dialect.binding is Binding.JSONRPC:
        raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])["params"]
        for tree in trees:
            assert tree["method"] == call.method
            # A double is what Node has for a number.
            identity = json.loads(call.id)
            assert type(tree["id"]) is type(identity) or isinstance(identity, int)
            assert tree["id"] == (float(identity) if isinstance(identity, int) and tree is trees[-1] else identity)
        trees = [tree["params"] for tree in trees]
    else:
        raw = msgspec.Raw(body)
    places = {told(tree) for tree in trees}
    assert len(places) == 1
    [(outer, inner)] = places
    # An agent of HTTP+JSON is told by the path as well.
    assert outer == wanted or (outer is None and call.dialect.binding is Binding.REST and "tenant" not in trees[0])
    assert inner in (None, wanted)
    assert proto_told(bytes(raw)) in (None, (outer, inner))


@given(requests(), wanted_tenants)
def test_requests_forwarded_over_json_rpc_are_read_alike(node: Node | None, text: str, wanted: str | None) -> None:
    body = text.encode("utf-8", "surrogatepass")
    try:
        call = jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)
    except BadRequest as fault:
        event(f"refused: {fault.reason}")
        return
    event("forwarded")
    agree(call, forwarded(call, wanted), wanted, node)
    if call.tenant_written:
        assert forwarded(call, call.tenant) == body
        agree(call, body, call.tenant, node)


@given(sends(), wanted_tenants)
def test_requests_forwarded_over_rest_are_read_alike(node: Node | None, text: str, wanted: str | None) -> None:
    body = text.encode("utf-8", "surrogatepass")
    try:
        call = rest.read_call(PathCall(Operation.SEND_MESSAGE), body, b"", Version.V1_0)
    except BadRequest as fault:
        event(f"refused: {fault.reason}")
        return
    event("forwarded")
    agree(call, with_tenant(call.params, body, wanted), wanted, node)
    if call.tenant_written and call.in_body:
        agree(call, body, call.tenant, node)


def test_the_corpus_is_read_alike(node: Node | None) -> None:
    bodies = [ENVELOPE % (SEND % value) for value in VALUES.values()] + list(DOCUMENTS.values())
    taken = 0
    for body in bodies:
        try:
            call = jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)
        except BadRequest:
            continue
        taken += 1
        agree(call, body, None, node)
        agree(call, forwarded(call, "initech"), "initech", node)
    assert taken > 50


@pytest.mark.skipif(not Node.is_here(), reason="there is no Node on this machine")
def test_node_is_asked_what_it_reads() -> None:
    with Node() as node:
        assert node.parse(b'{"a":1,"a":[2,"\xc3\xa4"]}') == {"a": [2, "\u00e4"]}
        for text in (b"", b"[1,]", b'"\xff"', b"\xef\xbb\xbf1"):
            with pytest.raises(ValueError, match="no JSON"):
                node.parse(text)
