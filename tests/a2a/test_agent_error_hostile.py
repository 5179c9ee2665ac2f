"""Errors of agents that mean no good: nothing raises, nothing is long, and what is written says what was read."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import error_kind
from gateway.a2a.agent_error import (
    LONGEST_MESSAGE,
    AgentError,
    read_event,
    read_jsonrpc,
    read_rest,
    write_jsonrpc,
    write_rest,
)
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.error_detail import LONGEST_DETAILS
from gateway.a2a.error_kind import BY_REASON
from gateway.a2a.fault import A2A_DOMAIN, ERROR_INFO
from tests.a2a.test_agent_error import info, rpc, told

V0_1, V0_3, V1_0 = Version

# ---- Bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["x", "é", "🙂"])
def test_a_long_message_is_cut_between_characters(letter: str) -> None:
    found = rpc({"code": -32001, "message": letter * 1_000_000})
    assert found.message == letter * (LONGEST_MESSAGE - 1) + "…"
    assert rpc({"code": -32001, "message": letter * LONGEST_MESSAGE}).message == letter * LONGEST_MESSAGE


def test_what_is_written_is_bounded_whatever_was_said() -> None:
    long = ["x" * 5000] * 20
    data = [info(error_kind.TASK_NOT_FOUND, errors=long)] + [{"@type": "t", "x": text} for text in long]
    found = rpc({"code": -32001, "message": "x" * 100_000, "data": data})
    assert (found.reason, found.details[0]) == ("TASK_NOT_FOUND", info(error_kind.TASK_NOT_FOUND))
    assert len(found.details) == 4
    assert len(write_jsonrpc(found, id=b"1", version=V1_0)) < LONGEST_DETAILS + LONGEST_MESSAGE + 200


# ---- Whatever an agent writes ----------------------------------------------------------------------------------------

words = st.sampled_from(["error", "code", "message", "data", "details", "status", "type", "title", "detail", "errors"])
names = words | st.sampled_from(["@type", "reason", "domain", "metadata", "jsonrpcCode", "field"]) | st.text(max_size=3)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-32001, -32007, -32010, -32050, -31401, 400, 401, 404])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from([ERROR_INFO, A2A_DOMAIN, "-32050", "-32001", "TaskNotFoundError", "UNAUTHENTICATED"])
    | st.sampled_from(sorted(BY_REASON))
)
infos = st.fixed_dictionaries(
    {"@type": st.just(ERROR_INFO), "reason": st.sampled_from(sorted(BY_REASON))},
    optional={
        "domain": st.sampled_from([A2A_DOMAIN, "", "x"]),
        "metadata": st.dictionaries(st.just("jsonrpcCode") | st.text(max_size=3), scalars),
    },
)
trees = st.recursive(scalars | infos, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=20)
errors = st.fixed_dictionaries(
    {},
    optional={"code": scalars, "message": scalars, "data": trees, "details": trees, "status": scalars, "type": trees},
)
bodies = errors | st.fixed_dictionaries(
    {"error": errors}, optional={"code": scalars, "message": scalars, "type": trees}
)


def write_all(found: AgentError | None) -> None:
    if found is not None:
        for version in Version:
            msgspec.json.decode(write_jsonrpc(found, id=b"1", version=version))
            msgspec.json.decode(write_rest(found, version=version)[1])


@given(st.binary() | trees.map(msgspec.json.encode), st.integers(), st.sampled_from(Version))
def test_nothing_that_an_agent_writes_raises(body: bytes, status: int, version: Version) -> None:
    write_all(read_jsonrpc(body, version))
    write_all(read_rest(status, body, version))
    for binding in Binding:
        write_all(read_event(body, binding, version))


@given(errors | trees, bodies | trees, st.sampled_from([400, 404, 409, 422, 429, 500, 502, 503]))
def test_what_is_written_in_1_0_says_all_that_was_read(error: object, body: object, status: int) -> None:
    for found in (
        read_jsonrpc(msgspec.json.encode(error), V1_0),
        read_rest(status, msgspec.json.encode(body), V1_0),
        read_event(msgspec.json.encode(body), Binding.REST, V1_0),
    ):
        if found is None or found.challenges:
            continue
        envelope = write_jsonrpc(found, id=b"1", version=V1_0)
        assert read_event(envelope, Binding.JSONRPC, V1_0) == found
        assert read_rest(*write_rest(found, version=V1_0), V1_0) == found


@given(errors, st.sampled_from([V0_1, V0_3]))
def test_no_client_is_told_of_a_bad_credential_by_an_agent(error: object, version: Version) -> None:
    found = read_jsonrpc(msgspec.json.encode(error), version)
    assert found is not None
    for ours in Version:
        code = told(found, ours)["code"]
        assert code not in (-31401, 401)
        assert ours is not V0_1 or code != -32007
        assert write_rest(found, version=ours)[0] not in (401, 407)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"error":', b'{"error":{"data":', b'{"error":{"data":[['])
def test_depth_costs_nothing(opening: bytes) -> None:
    body = opening * 200_000
    assert read_rest(500, body, V0_3) is None
    assert read_jsonrpc(body, V0_3) is None
    assert read_event(body, Binding.REST, V0_3) is None
