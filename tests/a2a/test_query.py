"""Queries: one more place for a tenant, and bytes that must survive."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import BadRequest
from gateway.a2a.query import query_value, split_query


@pytest.mark.parametrize(
    ("query", "tenant", "passed"),
    [
        (b"", None, b""),
        (b"pageToken=tok%3D%3D&pageSize=5", None, b"pageToken=tok%3D%3D&pageSize=5"),
        (b"tenant=acme", "acme", b""),
        (b"a=1&tenant=acme&b=2", "acme", b"a=1&b=2"),
        (b"t%65nant=acme&a=%26tenant%3Dother", "acme", b"a=%26tenant%3Dother"),
        (b"tenant=a+b", "a b", b""),
        (b"tenant=a%26b", "a&b", b""),
        (b"tenant", None, b""),
        (b"tenant=", None, b""),
        (b"a=1&&b=2&", None, b"a=1&&b=2&"),
        (b"+tenant=acme", None, b"+tenant=acme"),
        (b"a=tenant=acme", None, b"a=tenant=acme"),
    ],
)
def test_the_tenant_is_taken_out_and_the_rest_is_passed_byte_for_byte(
    query: bytes, tenant: str | None, passed: bytes
) -> None:
    assert split_query(query) == (tenant, passed)


@pytest.mark.parametrize(
    "query",
    [
        b"tenant=a&tenant=b",
        b"tenant=a&tenant=a",
        b"tenant=a&t%65nant=b",
        b"tenant&tenant=b",
        b"a=1&a=2",
        b"Tenant=a",
        b"TENANT=a",
        b"tenan%54=a",
        b"a=1;tenant=b",
        b"tenant=%ff",
        b"%c3%28=1",
        b"a=\xff",
        b"a=\xc3\xa4",
        b"a= b",
        b"a#b",
        b"a\r\nx: y",
        b"a=\0",
    ],
)
def test_what_two_servers_could_read_in_two_ways_is_refused(query: bytes) -> None:
    with pytest.raises(BadRequest):
        split_query(query)


pieces = st.sampled_from(
    [b"tenant", b"Tenant", b"%74enant", b"a", b"=", b"&", b"+", b";", b"%26", b"%3d", b"%ff", b"x"]
)


@given(st.lists(pieces, max_size=8).map(b"".join))
def test_what_is_passed_on_names_no_tenant_to_anybody(query: bytes) -> None:
    try:
        tenant, passed = split_query(query)
    except BadRequest:
        return
    before = parse_qsl(query.decode(), keep_blank_values=True)
    after = parse_qsl(passed.decode(), keep_blank_values=True)
    assert [pair for pair in before if pair[0] != "tenant"] == after
    assert [value or None for name, value in before if name == "tenant"] in ([], [tenant])
    assert parse_qsl(passed.decode(), keep_blank_values=True, separator=";")[:1] in ([], after[:1]) or b"&" in passed


def test_a_parameter_is_found_whatever_its_case_is() -> None:
    assert query_value(b"x=1&a2a-version=1.0", "A2A-Version") == "1.0"
    assert query_value(b"A2A%2DVersion=0.3", "A2A-Version") == "0.3"
    assert query_value(b"A2A-Version", "A2A-Version") == ""
    assert query_value(b"version=1.0", "A2A-Version") is None
    with pytest.raises(BadRequest):
        query_value(b"A2A-Version=%ff", "A2A-Version")
