"""The JSON-RPC envelope."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import fault as faults
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.bindings.jsonrpc import answers
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, BadRequest, Fault
from gateway.a2a.params import with_tenant
from gateway.a2a.paths import PathCall
from tests.a2a.sample import vector
from tests.table import for_each

[CASES] = (cases for name, cases in vector("errors").items() if name.startswith("jsonrpc_envelope"))


def read(body: bytes, *, path: PathCall | None = None, query: bytes = b"", hint: Version | None = None) -> Call:
    return jsonrpc.read_call(jsonrpc.open_envelope(body), path or PathCall(), query, hint)


def request(method: str, params: object = None, identity: object = 1) -> bytes:
    tree: dict[str, object] = {"jsonrpc": "2.0", "id": identity, "method": method}
    return json.dumps(tree if params is None else {**tree, "params": params}).encode()


def changed(body: bytes, tenant: str | None) -> bytes:
    return with_tenant(read(body).params, body, tenant)


# ---- Every dialect ---------------------------------------------------------------------------------------------------


@for_each(
    "alias",
    [
        "tasks/subscribe", "tasks/list", "tasks/pushNotification/set", "tasks/pushNotification/get",
        "agent/authenticatedExtendedCard", "ListTaskPushNotificationConfig",
    ],
)  # fmt: skip
def test_aliases_seen_in_the_wild_are_read(alias: str) -> None:
    assert read(request(alias, {"id": "t", "taskId": "t"})).method == alias


# ---- The envelope ----------------------------------------------------------------------------------------------------


@for_each("case", list(CASES))
def test_envelopes_are_refused_as_the_sdk_refuses_them(case: dict[str, Any]) -> None:
    body, expected = case["body_raw"].encode(), case["expect"]
    with pytest.raises(Fault) as caught:
        read(body)
    identity = b"null" if expected["id"] is None else jsonrpc.open_envelope(body).id
    rendered = json.loads(jsonrpc.render(caught.value, id=identity, version=Version.V1_0, details=[]))
    assert rendered["error"]["code"] == expected["error"]["code"]
    assert json.dumps(rendered["id"]) == json.dumps(expected["id"])
    assert caught.value.rpc_status == 200


@for_each(
    "identity",
    [b"1.0", b"1e3", b"1E3", b"-1.5", b"true", b"false", b"{}", b"[]", b"[1]", b'{"a":1}',
     b'"' + b"x" * 511 + b'"'],
)  # fmt: skip
def test_an_id_is_a_string_an_integer_or_null_of_bounded_length(identity: bytes) -> None:
    with pytest.raises(BadRequest, match="id must be a string or an integer of at most 512 bytes"):
        read(b'{"jsonrpc":"2.0","id":' + identity + b',"method":"GetTask","params":{"id":"t"}}')


def test_a_notification_never_runs_unseen() -> None:
    with pytest.raises(BadRequest, match="no id"):
        read(b'{"jsonrpc":"2.0","method":"SendMessage","params":{"message":{}}}')


@for_each("marker", [b'"1.0"', b"2.0", b"2", b"null", b'"2.00"', b'"\\u0032.0"', b'["2.0"]'])
def test_the_marker_is_one_string(marker: bytes) -> None:
    with pytest.raises(BadRequest, match="jsonrpc"):
        read(b'{"jsonrpc":' + marker + b',"id":1,"method":"GetTask","params":{"id":"t"}}')


@for_each("method", [b"1", b"null", b"[]", b'["GetTask"]', b"{}"])
def test_a_method_is_a_string(method: bytes) -> None:
    with pytest.raises(BadRequest, match="method must be a string"):
        read(b'{"jsonrpc":"2.0","id":1,"method":' + method + b',"params":{"id":"t"}}')


@for_each("params", ["", ',"params":null', ',"params":{}'])
def test_only_the_extended_card_needs_none(params: str) -> None:
    body = f'{{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"{params}}}'.encode()
    assert read(body).tenant is None
    assert json.loads(changed(body, "acme"))["params"] == {"tenant": "acme"}
    assert json.loads(changed(body, None)).get("params") in (None, {})
    with pytest.raises(BadParams):
        read(body.replace(b"GetExtendedAgentCard", b"ListTasks").replace(b":{}", b":null"))


# ---- The tenant ------------------------------------------------------------------------------------------------------

places = st.sampled_from([None, "", "acme", "globex"])


@given(path=st.sampled_from([None, "acme", "globex"]), inner=places, push=places, queried=places)
def test_all_places_of_the_tenant_agree_or_nothing_is_read(
    *, path: str | None, inner: str | None, push: str | None, queried: str | None
) -> None:
    params: dict[str, Any] = {"message": {}, "configuration": {"taskPushNotificationConfig": {"url": "u"}}}
    if inner is not None:
        params["tenant"] = inner
    if push is not None:
        params["configuration"]["taskPushNotificationConfig"]["tenant"] = push
    query = b"x=1" if queried is None else f"tenant={queried}&x=1".encode()
    body = request("SendMessage", params)
    named = {place for place in (path, inner, push, queried) if place}
    try:
        call = read(body, path=PathCall(tenant=path), query=query)
    except BadParams:
        assert len(named) > 1
        return
    assert {call.tenant} - {None} == named
    assert call.query == b"x=1"
    assert call.in_body == (inner is not None or push is not None)
    # The frame may stay as it is only if every reader finds the tenant in it, and no other.
    assert call.tenant_written == ((inner or None) == call.tenant and push in (None, call.tenant) and inner != "")
    for wanted in (None, "acme", "initech"):
        written = json.loads(changed(body, wanted))["params"]
        assert written.get("tenant") == wanted
        nested = written["configuration"]["taskPushNotificationConfig"]
        assert nested.get("tenant") == (None if push is None else wanted)


# ---- Faults ----------------------------------------------------------------------------------------------------------


@for_each(
    ("fault", "code"),
    [
        (faults.AuthMissing("who"), -32007),
        (faults.NotAdmitted("no"), -32008),
        (faults.RouteConflict("two"), -32008),
        (faults.UpstreamConnect("down"), -32011),
        (faults.UpstreamProtocol("odd"), -32603),
        (faults.MethodNotAllowed("no"), -32004),
        (faults.NoRoute("none"), -32602),
        (faults.TenantDenied("none"), -32602),
        (faults.HiddenConflict("none"), -32602),
    ],
)
def test_a_client_of_0_1_gets_the_codes_that_mean_the_same_there(fault: faults.Fault, code: int) -> None:
    answer = jsonrpc.render(fault, id=b"1", version=Version.V0_1, details=[])
    assert json.loads(answer)["error"]["code"] == code


# ---- Which answers are those of a call -------------------------------------------------------------------------------

BIG = b"9" * 400


@for_each(
    ("frame", "call"),
    [
        (b"1", b"1"), (b'"a"', b'"a"'), (b'"a"', b'"\\u0061"'), (b"", b"1"), (b"null", b'"a"'), (b"1.0", b"1"),
        (b"0", b"-0"), (b"9007199254740992", b"9007199254740993"), (b"9.007199254740992e15", b"9007199254740993"),
        (b"1" + b"0" * 400, BIG), (BIG, BIG), (b"null", b"0"), (b"null", b'""'),
    ],
)  # fmt: skip
def test_an_answer_is_known_by_its_id_as_servers_change_it(frame: bytes, call: bytes) -> None:
    assert answers(frame, call)


@for_each(
    ("frame", "call"),
    [
        (b"2", b"1"), (b'"1"', b"1"), (b"1", b'"1"'), (b"true", b"1"), (b"false", b"0"), (b"[]", b"1"), (b"{}", b'"a"'),
        (b'"b"', b'"a"'), (b"1.5", b"1"), (BIG, b"1"), (b"-" + BIG, BIG), (b"1e400", b"1"), (b"x", b"1"), (b"1", BIG),
        (b'"A"', b'"a"'), (b"9007199254740990", b"9007199254740993"), (b'"a"' + b" " * 4000, b'"a"'),
    ],
)  # fmt: skip
def test_an_answer_to_another_call_is_known_too(frame: bytes, call: bytes) -> None:
    assert not answers(frame, call)


@given(st.text(st.characters(codec="utf-8"), max_size=8) | st.integers(), st.binary(max_size=12))
def test_every_id_answers_itself_and_no_bytes_break_the_comparison(identity: object, other: bytes) -> None:
    written, escaped = json.dumps(identity, ensure_ascii=False).encode(), json.dumps(identity).encode()
    assert answers(written, escaped)
    assert answers(escaped, written)
    answers(other, written)
