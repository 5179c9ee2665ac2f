"""Fuzzes the JSON guard: any body is refused as a client's mistake, or read as every other parser reads it.

What is taken must be strict JSON within bounds; what is refused as no JSON must be none; another tenant must change
nothing else. An agent's answer goes through the same hands on its way back.
"""

import json
import math
from collections.abc import Callable
from typing import Any

from gateway.a2a import json as strict_json
from gateway.a2a import progress
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.jsonrpc import answers
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import BadRequest, ParseFailed
from gateway.a2a.json import BodyBounds
from gateway.a2a.operation import Operation
from gateway.a2a.params import with_tenant
from gateway.a2a.paths import PathCall
from gateway.a2a.push_config import restore_tenant
from tests.a2a.corpus import DOCUMENTS, DOUBLED, ENVELOPE, PARAMS, SEND, TENANTS, VALUES
from tests.fuzz.driver import run

NARROW = BodyBounds(depth=12, members=60, elements=60)
"""Bounds that mutations reach."""
PUSH = b'{"tenant":"acme","message":{},"configuration":{"taskPushNotificationConfig":{"tenant":"acme","url":"u"}}}'
SEEDS = [
    *[ENVELOPE % (SEND % text) for text in VALUES.values() if len(text) < 1000],
    *[text for text in (*DOCUMENTS.values(), *DOUBLED.values(), *PARAMS.values()) if len(text) < 1000],
    *[ENVELOPE % b'{"tenant":%b,"message":{}}' % text for text in TENANTS.values() if len(text) < 1000],
    ENVELOPE % PUSH,
    PUSH,
    b' { "tenant" : "a\\u0063me" , "id" : "c" , "config" : { "tenant" : "acme" } } ',
    b'{"jsonrpc":"2.0","id":"c-1","result":{"configs":[{"tenant":"acme","id":"c"}]}}',
    b"[" * 11 + b"]" * 11,
]
WORDS = [
    b'"tenant":"acme"', b'"\\u0074enant":"x"', b'"Tenant":1', b'"params":{', b'"message":{', b'"configuration":{',
    b'"taskPushNotificationConfig":{', b'"__proto__":', b"{", b"}", b"[", b"]", b",", b":", b"\\u", b"\\ud83d",
    b"\\ude00", b"\\u0000", b'\\"', b"\\\\", b"1e309", b"-0", b"9" * 310, b"e+308", b"0.", b"null", b"true", b"NaN",
    b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc3\xa4", b"\xf0\x9f\x98\x80", "param\u017f".encode(), b"/*", b"\t", b"\n",
    b"[[[[[[", b"{},",
]  # fmt: skip

_NOTHING = object()


def target(data: bytes) -> object:
    """Return the outcome of one body, of any of its kinds."""
    kinds: tuple[Callable[[bytes], Call], ...] = (_over_jsonrpc, _over_rest, _created_over_rest)
    return (*[_request(data, read) for read in kinds], _answer(data))


def _over_jsonrpc(data: bytes) -> Call:
    return jsonrpc.read_call(jsonrpc.open_envelope(data, NARROW), PathCall(), b"", None)


def _over_rest(data: bytes) -> Call:
    return rest.read_call(PathCall(Operation.SEND_MESSAGE), data, b"", Version.V1_0, bounds=NARROW)


def _created_over_rest(data: bytes) -> Call:
    return rest.read_call(PathCall(Operation.CREATE_PUSH_CONFIG), data, b"", Version.V0_3, bounds=NARROW)


def _request(data: bytes, read: Callable[[bytes], Call]) -> object:
    try:
        call = read(data)
    except BadRequest as fault:
        if isinstance(fault, ParseFailed):
            assert _strict(data) is _NOTHING, "refused as no JSON, but it is"
        return type(fault), fault.message
    tree = _strict(data)
    assert isinstance(tree, list), "taken, but no strict JSON object"
    depth, members, elements = _count(tree)
    assert (depth <= NARROW.depth, members <= NARROW.members, elements <= NARROW.elements) == (True, True, True)
    _compare(call, dict(tree))
    for wanted in ("initech", 'a"\u00e4\\', None):
        written = with_tenant(call.params, data, wanted)
        assert _strict(written) == _told(call, tree, wanted), "another tenant changed more than the tenant"
    return call.operation, call.dialect, call.tenant is None, call.tenant_written, len(call.params.tenants)


def _compare(call: Call, members: dict[str, Any]) -> None:
    params = members
    if call.dialect.binding is Binding.JSONRPC:
        assert (members["jsonrpc"], members["method"]) == ("2.0", call.method)
        assert members["id"] == json.loads(call.id, parse_int=_Number)
        params = dict(members.get("params") or [])
    if params.get("tenant"):
        assert params["tenant"] == call.tenant


def _strict(data: bytes) -> Any:
    """The document by Python's parser, objects as lists of pairs; `_NOTHING` where it is no strict JSON."""
    try:
        text = data.decode()
        tree = json.loads(
            text, object_pairs_hook=_Pairs, parse_constant=_refuse, parse_int=_Number, parse_float=_Number
        )
        json.dumps(tree, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        # Half a surrogate pair is no text, whatever Python makes of it.
        return _NOTHING
    return tree


class _Pairs(list[Any]):
    """The members of an object, as they are written."""


class _Number(str):
    """A number, as it is written."""

    __slots__ = ()


def _refuse(word: str) -> None:
    raise ValueError(word)


def _count(value: Any) -> tuple[int, int, int]:
    if not isinstance(value, list):
        assert not (isinstance(value, _Number) and math.isinf(float(value))), value
        return 0, 0, 0
    named = isinstance(value, _Pairs)
    found = [_count(item[1] if named else item) for item in value]
    depth = 1 + max((inner[0] for inner in found), default=0)
    own = len(value)
    members = sum(inner[1] for inner in found) + (own if named else 0)
    return depth, members, sum(inner[2] for inner in found) + (0 if named else own)


def _told(call: Call, tree: Any, wanted: str | None) -> Any:
    """The document with another tenant in each of its places, told by the names that lead to them."""
    inner = [[name for name, _ in way] for way in call.params.inner]
    if call.dialect.binding is not Binding.JSONRPC:
        return _placed(tree, inner, wanted)
    params = dict(tree).get("params")
    if params is None:
        if wanted is None:
            return tree
        given = _Pairs([("tenant", wanted)])
        if "params" not in dict(tree):
            return _Pairs([("params", given), *tree])
        return _Pairs([(name, given if name == "params" else value) for name, value in tree])
    changed = _placed(params, inner, wanted)
    return _Pairs([(name, changed if name == "params" else value) for name, value in tree])


def _placed(params: Any, inner: list[list[str]], wanted: str | None) -> Any:
    changed = _with(params, wanted)
    if wanted is not None and "tenant" not in dict(params):
        changed = _Pairs([("tenant", wanted), *changed])
    for way in inner:
        changed = _inside(changed, way, wanted)
    return changed


def _with(members: Any, wanted: str | None) -> Any:
    kept = [(name, wanted if name == "tenant" else value) for name, value in members]
    return _Pairs([pair for pair in kept if pair[0] != "tenant" or wanted is not None])


def _inside(members: Any, way: list[str], wanted: str | None) -> Any:
    if not way:
        return _with(members, wanted)
    return _Pairs([(name, _inside(value, way[1:], wanted) if name == way[0] else value) for name, value in members])


def _answer(data: bytes) -> object:
    told = jsonrpc.read_progress(data)
    progress.read_bare(data)
    answers(data, b'"c-1"')
    for binding in (Binding.JSONRPC, Binding.REST):
        try:
            restored = restore_tenant(data, binding, "mine")
        except BadRequest:
            continue
        strict_json.open_body(restored) if restored[:1] == b"{" else None
    return None if told is None else told.event


if __name__ == "__main__":
    run(target, SEEDS, words=WORDS, slow=0.2, longest=8192)
