"""What an agent is told beside the call."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.call import Head
from gateway.a2a.dialect import Version
from gateway.principal import Principal
from gateway.upstream.headers import credentials, extensions, identity
from gateway.upstream.upstream import Caller, Treatment


def test_extensions_are_named_as_a_generation_does_each_once() -> None:
    came = [(b"x-a2a-extensions", b"b , a"), (b"accept", b"c"), (b"a2a-extensions", b"a,,d")]
    assert extensions(came, Version.V1_0) == [(b"a2a-extensions", b"b, a, d")]
    assert extensions(came, Version.V0_3) == [(b"x-a2a-extensions", b"b, a, d")]
    assert extensions([(b"a2a-extensions", b" ,")], Version.V1_0) == []
    assert extensions([], Version.V1_0) == []


def test_the_gateway_shows_itself_and_the_caller_only_where_the_file_says_so() -> None:
    head = Head("POST", b"/", headers=((b"authorization", b"a"), (b"x-api-key", b"k"), (b"cookie", b"c")))
    own = ((b"x-key", b"ours"),)
    assert credentials(Treatment(credentials=own), head) == [*own]
    assert credentials(Treatment(credentials=own, forward_caller=True), head) == [*head.headers[:2], *own]


def test_an_agent_is_told_who_calls_and_from_where() -> None:
    told = identity(Caller(Principal("acme", "alice"), "203.0.113.9", "r1"))
    assert told == [(b"x-forwarded-for", b"203.0.113.9"), (b"x-a2a-tenant", b"acme"), (b"x-a2a-subject", b"alice")]
    assert len(identity(Caller(Principal("acme"), "203.0.113.9", "r1"))) == 2


@given(st.text(max_size=6), st.text(min_size=1, max_size=6), st.text(max_size=6))
def test_whoever_calls_can_be_told_in_one_line(tenant: str, subject: str, address: str) -> None:
    for _, value in identity(Caller(Principal(tenant, subject), address, "r1"))[2:]:
        assert value.isascii()
        assert value.decode().isprintable()
        assert value == value.strip()
