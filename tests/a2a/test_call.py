"""The head of a request."""

from gateway.a2a.call import Head

HEAD = Head("GET", b"/", headers=((b"a", b"1"), (b"b", b"2"), (b"a", b"3")))


def test_a_header_that_stands_twice_is_seen_twice() -> None:
    assert HEAD.all(b"a") == (b"1", b"3")
    assert HEAD.first(b"a") == b"1"


def test_a_header_that_is_not_there_is_none() -> None:
    assert HEAD.all(b"c") == ()
    assert HEAD.first(b"c") is None
