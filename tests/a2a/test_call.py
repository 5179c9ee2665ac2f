"""The head of a request, and the call that it makes."""

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.a2a.parameter import NOTHING, Parameters

HEAD = Head("GET", b"/", headers=((b"a", b"1"), (b"b", b"2"), (b"a", b"3")))


def test_a_header_that_stands_twice_is_seen_twice() -> None:
    assert HEAD.all(b"a") == (b"1", b"3")
    assert HEAD.first(b"a") == b"1"


def test_a_header_that_is_not_there_is_none() -> None:
    assert HEAD.all(b"c") == ()
    assert HEAD.first(b"c") is None


def test_a_head_that_is_forgotten_holds_no_header() -> None:
    head = Head("GET", b"/x", headers=((b"authorization", b"Bearer secret"),), cache={1: 2})
    head.forget()
    assert (head.path, head.headers, head.values, head.cache) == (b"/x", (), {}, {})
    assert head.first(b"authorization") is None


def test_a_call_that_is_forgotten_holds_no_body() -> None:
    dialect = Dialect(Binding.JSONRPC, Version.V1_0)
    call = Call(
        Operation.SEND_MESSAGE,
        dialect,
        "SendMessage",
        id=b"1",
        task_id="t",
        body=b"{}",
        params=Parameters({}, {}, ("a",)),
    )
    call.forget()
    assert (call.body, call.params, call.id, call.task_id) == (b"", NOTHING, b"1", "t")
