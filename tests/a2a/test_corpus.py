"""Every text of the corpus: taken and read as every other parser reads it, or refused for what it is."""

import json

import msgspec
import pytest

from gateway.a2a import fault as faults
from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall
from tests.a2a.corpus import DOCUMENTS, DOUBLED, ENVELOPE, PARAMS, SEND, TENANTS, VALUES
from tests.support.yardstick import cpu_seconds
from tests.table import for_each

BODIES = {name: ENVELOPE % (SEND % text) for name, text in VALUES.items()} | DOCUMENTS


def taken(name: str) -> bool:
    return name[0] == "y" or name.endswith("_taken")


TAKEN = {name: body for name, body in BODIES.items() if taken(name)}
REFUSED = {name: body for name, body in BODIES.items() if not taken(name)}


def read(body: bytes) -> Call:
    return jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(), b"", None)


def test_the_corpus_is_large_enough() -> None:
    assert len(BODIES) + len(DOUBLED) + len(PARAMS) > 300
    assert {name[:2] for name in BODIES} == {"y_", "n_", "i_"}
    assert all(name.endswith(("_taken", "_refused")) for name in BODIES if name[0] == "i")


@for_each("body", TAKEN.values())
def test_accepted_bodies_are_read_by_other_parsers(body: bytes) -> None:
    call = read(body)
    assert call.body == body
    tree = json.loads(body)
    assert (call.id, call.method) == (b'"c-1"', "SendMessage")
    assert (tree["id"], tree["method"], set(tree["params"])) == ("c-1", "SendMessage", {"message"})
    msgspec.json.decode(body)


@for_each(("name", "body"), REFUSED.items())
def test_refused_bodies_get_the_right_fault(name: str, body: bytes) -> None:
    with pytest.raises(faults.BadRequest) as caught:
        read(body)
    if name[0] == "n" and "a_hundred_thousand" not in name:
        assert caught.type is faults.ParseFailed
    else:
        assert caught.type is faults.BadRequest


@for_each("body", [body for body in REFUSED.values() if len(body) > 5000])
def test_a_long_text_that_is_refused_costs_less_than_50_ms(body: bytes) -> None:
    def refused() -> None:
        with pytest.raises(faults.BadRequest):
            read(body)

    assert cpu_seconds(refused) < 0.05


@for_each("body", [*DOUBLED.values(), *(ENVELOPE % params for params in PARAMS.values())])
def test_a_member_in_two_guises_is_refused(body: bytes) -> None:
    with pytest.raises(faults.DuplicateKey):
        read(body)


@for_each("body", PARAMS.values())
@for_each("operation", [Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE])
@for_each("version", [Version.V1_0, Version.V0_3])
def test_a_member_in_two_guises_is_refused_over_rest(body: bytes, operation: Operation, version: Version) -> None:
    with pytest.raises(faults.DuplicateKey):
        rest.read_call(PathCall(operation), body, b"", version)


@for_each("body", TENANTS.values())
def test_a_tenant_that_is_none_is_read_exactly_or_refused(body: bytes) -> None:
    for place in (b'{"tenant":%b}', b'{"configuration":{"taskPushNotificationConfig":{"tenant":%b}}}'):
        params = place % body
        try:
            call = read(ENVELOPE % params)
        except faults.BadRequest:
            continue
        assert call.tenant == json.loads(body)
