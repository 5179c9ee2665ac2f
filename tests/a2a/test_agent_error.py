"""Errors of agents: read in every dialect, told to clients of every dialect, and bounded whatever the agent writes."""

import itertools
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import msgspec
import pytest
from a2a.client.errors import A2AClientError
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.compat.v0_3 import types as types_0_3
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types import a2a_pb2
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a import fault as table
from gateway.a2a.agent_error import (
    DEEPEST_DETAIL,
    LONGEST_DETAILS,
    LONGEST_MESSAGE,
    MOST_DETAILS,
    STRUCT,
    AgentError,
    read_event,
    read_jsonrpc,
    read_rest,
    write_jsonrpc,
    write_rest,
)
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import A2A_DOMAIN, BY_REASON, ERROR_INFO, INTERNAL_ERROR, KINDS, ErrorKind, code_toward
from gateway.a2a.json import Tree, write
from tests.a2a.sample import vector
from tests.table import for_each

V0_1, V0_3, V1_0 = Version
ENTRIES: list[dict[str, Any]] = vector("errors")["a2a"]


def rpc(error: object, version: Version = V1_0) -> AgentError:
    found = read_jsonrpc(json.dumps(error).encode(), version)
    assert found is not None
    return found


def rest(body: object, status: int = 400, version: Version = V1_0) -> AgentError:
    found = read_rest(status, json.dumps(body).encode(), version)
    assert found is not None
    return found


def told(error: AgentError, version: Version = V1_0) -> Any:
    """The `error` that a JSON-RPC client gets."""
    return json.loads(write_jsonrpc(error, id=b'"c-1"', version=version))["error"]


def info(kind: ErrorKind, **metadata: object) -> Tree:
    return {"@type": ERROR_INFO, "reason": kind.reason, "domain": A2A_DOMAIN, "metadata": metadata}


# ---- Every pair of dialects ------------------------------------------------------------------------------------------


def said(entry: dict[str, Any]) -> list[Any]:
    """Every way in which the vectors have agents say one error: the dialect, the HTTP status, the body."""
    ways = []
    for binding, version in itertools.product((Binding.JSONRPC, Binding.REST), (V0_3, V1_0)):
        found = entry.get(f"v{version}-{binding.label}")
        if found is not None:
            status = found["http"]["status"]
            bodies = [found["http"]["body"], *(body for body in found.get("also_seen", []) if isinstance(body, dict))]
            ways += [(Dialect(binding, version), status, body) for body in bodies]
    if (java := entry.get("v1.0.0-spec-and-a2a-java")) is not None:
        body = json.loads(json.dumps(entry["v1.0-rest"]["http"]["body"]))
        body["error"].update(code=java["http_status"], status=java["grpc_status"])
        ways.append((Dialect(Binding.REST, V1_0), java["http_status"], body))
    return ways


SAID = [
    pytest.param(entry, *way, id=f"{entry['reason']}-{way[0]}-{number}")
    for entry in ENTRIES
    for number, way in enumerate(said(entry))
]


def heard(dialect: Dialect, status: int, body: Any) -> AgentError:
    found = (
        read_jsonrpc(json.dumps(body["error"]).encode(), dialect.version)
        if dialect.binding is Binding.JSONRPC
        else read_rest(status, json.dumps(body).encode(), dialect.version)
    )
    assert found is not None
    return found


@for_each(("entry", "theirs", "status", "body"), SAID)
def test_every_error_of_every_dialect_is_told_to_every_other(
    entry: dict[str, Any], theirs: Dialect, status: int, body: Any
) -> None:
    kind = BY_REASON[entry["reason"]]
    if theirs == Dialect(Binding.JSONRPC, V0_3) and table.code_toward(kind.code, V0_3) != kind.code:
        # Errors new in 1.0 are internal in older generations, and cannot be told apart again.
        kind = INTERNAL_ERROR
    words = entry["v1.0-rest"]["http"]["body"]["error"]["message"]
    found = heard(theirs, status, body)
    assert (found.code, found.reason, found.message, found.http_status) == (
        kind.code, kind.reason, words, kind.http_status,
    )  # fmt: skip
    assert found.details[0] == {**info(kind), "metadata": found.details[0]["metadata"]}
    assert not found.challenges

    older = next(each for each in ENTRIES if each["reason"] == kind.reason)
    code_0_3 = older["v0.3-jsonrpc"]["http"]["body"]["error"]["code"]
    assert told(found, V0_3)["code"] == code_0_3
    for version in Version:
        error = told(found, version)
        assert (error["code"], error["message"]) == (table.code_toward(kind.code, version), words)

    status, written = write_rest(found, version=V1_0)
    assert (status, json.loads(written)["error"]["status"]) == (kind.http_status, kind.grpc_status)
    if theirs.version is V1_0:
        assert json.loads(written) == entry["v1.0-rest"]["http"]["body"]
        assert told(found) == entry["v1.0-jsonrpc"]["http"]["body"]["error"]

    status, written = write_rest(found, version=V0_3)
    superset = json.loads(written)
    assert (superset["code"], superset["type"]) == (code_0_3, kind.name)
    assert superset["error"]["details"][0]["reason"] == kind.reason
    if "v0.3-rest" in older:
        assert status == older["v0.3-rest"]["http"]["status"]
        for shape in (older["v0.3-rest"]["http"]["body"], *older["v0.3-rest"]["also_seen"][:2]):
            assert {**shape, "message": words}.items() <= superset.items()


# ---- What tells what it is -------------------------------------------------------------------------------------------


def test_the_reason_says_more_than_the_code_and_the_code_more_than_the_rest() -> None:
    details = [info(table.TASK_NOT_FOUND)]
    assert rpc({"code": -32603, "data": details}).code == -32001
    assert rpc({"code": -32603, "data": details}, V0_3).code == -32001
    assert rest({"error": {"code": 409, "status": "UNAVAILABLE", "details": details}}, 500).code == -32001
    body = {"code": -32002, "type": "TaskNotFoundError", "message": "x", "error": {"code": 415, "message": "x"}}
    assert rest(body, 415).code == -32002
    del body["code"]
    assert rest(body, 415).code == -32001
    del body["type"]
    assert rest(body, 415).code == -32005


def test_an_event_has_the_status_that_its_body_says() -> None:
    found = read_event(b'{"error":{"code":404,"message":"gone"}}', Binding.REST, V1_0)
    assert found is not None
    assert found.code == -32001


# ---- 0.1 -------------------------------------------------------------------------------------------------------------


def test_limits_and_outages_of_0_1_map_to_429_and_503() -> None:
    limited, out = rpc({"code": -32010}, V0_1), rpc({"code": -32011}, V0_1)
    assert write_rest(limited, version=V1_0)[0] == 429
    assert write_rest(out, version=V1_0)[0] == 503
    assert (told(limited, V0_1)["code"], told(out, V0_1)["code"]) == (-32010, -32011)


# ---- Codes of the agent's own ----------------------------------------------------------------------------------------


def test_over_rest_a_code_of_the_agents_own_is_told_beside_an_internal_error() -> None:
    found = rpc({"code": -32050, "message": "so"})
    status, body = write_rest(found, version=V1_0)
    assert status == 500
    assert json.loads(body) == {
        "error": {
            "code": 500,
            "status": "INTERNAL",
            "message": "so",
            "details": [info(INTERNAL_ERROR, jsonrpcCode="-32050")],
        }
    }
    status, body = write_rest(found, version=V0_3)
    assert status == 500
    assert (json.loads(body)["code"], json.loads(body)["type"]) == (-32050, "InternalError")


# ---- Data ------------------------------------------------------------------------------------------------------------


@for_each("version", [V0_1, V0_3])
@for_each("data", [{"why": [1.5]}, "why", 0, [{"loc": ["message"], "msg": "missing"}], [], {}])
def test_data_of_older_agents_is_kept_for_older_clients(version: Version, data: object) -> None:
    found = rpc({"code": -32602, "message": "so", "data": data}, version)
    assert told(found, V0_3)["data"] == told(found, V0_1)["data"] == data
    assert json.loads(write_rest(found, version=V0_3)[1])["data"] == data


def test_without_data_older_clients_get_the_reason() -> None:
    found = rpc({"code": -32001, "message": "so", "data": None}, V0_3)
    assert told(found, V0_3)["data"] == [info(table.TASK_NOT_FOUND)]


# ---- Shapes ----------------------------------------------------------------------------------------------------------


@for_each(
    "body",
    [
        b"",
        b"<html>502 Bad Gateway</html>",
        b"null",
        b"[]",
        b'"Not Found"',
        b"{}",
        b'{"detail":"Not Found"}',
        b'{"error":"invalid_token","error_description":"expired"}',
        b'{"error":{}}',
        b'{"error":null}',
        b'{"message":1}',
        b'{"message":""}',
        b'{"type":"about:blank"}',
        b'{"title":"Not Found"}',
        b"\xef\xbb\xbf" + b'{"message":"x"}',
        '{"message":"x"}'.encode("utf-16"),
        b'{"message":"\xff"}',
    ],
)
@for_each("version", Version)
def test_a_page_and_other_json_are_no_error_of_a2a(body: bytes, version: Version) -> None:
    assert read_rest(404, body, version) is None


def test_a_bare_message_is_an_error_of_0_3_alone() -> None:
    body = b'{"message":"Forbidden"}'
    assert read_rest(404, body, V0_3) is not None
    assert read_rest(404, body, V1_0) is None
    assert rest({"message": "so", "type": "TaskNotFoundError"}).code == -32001
    assert rest({"message": "so", "code": -32050}).code == -32050
    assert read_rest(404, b'{"message":"so","type":"other"}', V1_0) is None
    assert read_rest(404, b'{"message":"so","code":404}', V1_0) is None


@for_each("error", [b"null", b'"boom"', b"1", b"[]", b"", b"{", b"nonsense"])
def test_an_error_that_is_no_object_is_none(error: bytes) -> None:
    assert read_jsonrpc(error, V1_0) is None


@for_each(
    ("error", "code", "message"),
    [
        ({}, -32603, "Internal error"),
        ({"code": "-32001"}, -32001, "Task not found"),
        ({"code": -32001.0, "message": None}, -32001, "Task not found"),
        ({"code": -32001.5, "message": "so"}, -32603, "so"),
        ({"code": True, "message": ["so"]}, -32603, "Internal error"),
        ({"code": 10**30, "message": " "}, -32603, "Internal error"),
        ({"code": -32002, "message": "so", "more": {"x": [1]}, "data": 5}, -32002, "so"),
        ({"message": "so", "type": "TaskNotFoundError"}, -32001, "so"),
    ],
)
def test_members_that_are_missing_or_of_another_type_cost_no_more_than_themselves(
    error: object, code: int, message: str
) -> None:
    found = rpc(error)
    assert (found.code, found.message) == (code, message)


# ---- Events ----------------------------------------------------------------------------------------------------------


@for_each(
    ("data", "binding"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t"}}}', Binding.JSONRPC),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":null}', Binding.JSONRPC),
        (b'{"jsonrpc":"2.0","id":1,"error":"boom"}', Binding.JSONRPC),
        (b'{"task":{"id":"t","error":{"code":1}}}', Binding.REST),
        (b'{"message":{"parts":[]}}', Binding.REST),
        (b'{"error":null}', Binding.REST),
        (b"nonsense", Binding.REST),
        (b"", Binding.JSONRPC),
    ],
)
def test_an_event_that_is_no_error_is_none(data: bytes, binding: Binding) -> None:
    for version in Version:
        assert read_event(data, binding, version) is None


# ---- Bounds ---------------------------------------------------------------------------------------------------------


@for_each("letter", ["x", "é", "🙂"])
def test_a_long_message_is_cut_between_characters(letter: str) -> None:
    found = rpc({"code": -32001, "message": letter * 1_000_000})
    assert found.message == letter * (LONGEST_MESSAGE - 1) + "…"
    assert rpc({"code": -32001, "message": letter * LONGEST_MESSAGE}).message == letter * LONGEST_MESSAGE


def test_written_errors_are_bounded() -> None:
    long = [{"@type": "t", "x": "x" * 5000}] * 20
    found = rpc({"code": -32001, "message": "x" * 100_000, "data": long})
    assert len(found.details) == 4
    assert len(write_jsonrpc(found, id=b"1", version=V1_0)) < LONGEST_DETAILS + LONGEST_MESSAGE + 200
    many = rpc({"code": -32001, "data": [{"@type": "t", "n": number} for number in range(1000)]})
    assert [detail.get("n") for detail in many.details] == [None, *range(MOST_DETAILS - 1)]


def test_a_detail_beyond_the_bounds_is_left_out_alone() -> None:
    deep: Tree = {}
    for _ in range(DEEPEST_DETAIL):
        deep = {"in": deep}
    long = {"@type": "t", "x": "x" * LONGEST_DETAILS}
    for odd in (
        json.dumps({**deep, "@type": "t"}),
        json.dumps(long),
        '{"@type":"t","a":1e400}',
        '{"@type":"t","a":1e9999999999}',
    ):
        found = read_jsonrpc(b'{"code":-32001,"data":[%b,{"@type":"u"}]}' % odd.encode(), V1_0)
        assert found is not None
        assert found.details[1:] == ({"@type": "u"},)


def test_numbers_keep_their_digits() -> None:
    said = b'{"@type":"t","a":1.50,"b":123456789012345678901234567890,"c":-0.0,"d":9007199254740993}'
    found = read_jsonrpc(b'{"code":-32001,"data":[%b]}' % said, V1_0)
    assert found is not None
    assert found.details[1]["a"] == Decimal("1.50")
    assert write(found.details[1]) == said


@for_each(
    ("said", "found"),
    [
        ({"why": "x"}, [{"@type": STRUCT, "value": {"why": "x"}}]),
        ("why", [{"@type": STRUCT, "value": {"value": ["why"]}}]),
        (0, [{"@type": STRUCT, "value": {"value": [0]}}]),
        ([{"loc": ["x"]}, "x", None], [{"@type": STRUCT, "value": {"value": [{"loc": ["x"]}, "x"]}}]),
        ([{"why": 1}, {"@type": "t"}], [{"@type": "t"}, {"@type": STRUCT, "value": {"why": 1}}]),
        ([{"@type": 1}], [{"@type": STRUCT, "value": {"@type": 1}}]),
        ([None, {}, [], ""], []),
    ],
)
def test_details_without_a_type_go_into_a_struct(said: object, found: list[Tree]) -> None:
    assert list(rpc({"code": -32001, "data": said}).details[1:]) == found


@for_each(
    "detail",
    [
        {**info(table.TASK_NOT_FOUND), "domain": "example.com"},
        {**info(table.TASK_NOT_FOUND), "domain": 1},
        {**info(table.TASK_NOT_FOUND), "reason": "QUOTA"},
        {**info(table.TASK_NOT_FOUND), "reason": ["TASK_NOT_FOUND"]},
        {**info(table.TASK_NOT_FOUND), "@type": "type.googleapis.com/google.rpc.Help"},
    ],
)
def test_only_an_error_info_of_a2a_is_a_reason(detail: Tree) -> None:
    assert rpc({"code": -32603, "data": [detail]}).reason == "INTERNAL_ERROR"


@for_each("code", ["-32001", "401", "-31401", "2147483648", "\uff11", "1e3", -32050, None])
def test_metadata_never_bring_in_a_code_of_a2a(code: object) -> None:
    found = rpc({"code": -32603, "data": [info(INTERNAL_ERROR, jsonrpcCode=code)]})
    assert (found.code, found.reason) == (-32603, "INTERNAL_ERROR")


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
def test_errors_written_in_1_0_keep_every_member(error: object, body: object, status: int) -> None:
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


@for_each("opening", [b"[", b'{"a":', b'{"error":', b'{"error":{"data":', b'{"error":{"data":[['])
def test_depth_costs_nothing(opening: bytes) -> None:
    body = opening * 200_000
    assert read_rest(500, body, V0_3) is None
    assert read_jsonrpc(body, V0_3) is None
    assert read_event(body, Binding.REST, V0_3) is None


# ---- Errors of agents as a2a-sdk's own clients understand them: which exception they raise, with which words----------

BY_NAME = {kind.__name__: kind for kind in JSON_RPC_ERROR_CODE_MAP}
# The SDK has no reason for it, so that its clients of HTTP+JSON see a 400 alone.
WITHOUT_REASON = -32700
BY_CODE = {code: kind for kind, code in JSON_RPC_ERROR_CODE_MAP.items()}
KNOWN = [pytest.param(kind, id=kind.name) for kind in KINDS if kind.name in BY_NAME]
URL = "https://gateway.example/a2a"


def error_of(code: int, message: str = "so") -> AgentError:
    found = read_jsonrpc(json.dumps({"code": code, "message": message}).encode(), Version.V1_0)
    assert found is not None
    return found


def card() -> Any:
    return a2a_pb2.AgentCard()


def heard_jsonrpc(error: AgentError, version: Version) -> Exception:
    body = json.loads(write_jsonrpc(error, id=b'"1"', version=version))
    kind = JsonRpcTransport if version is Version.V1_0 else CompatJsonRpcTransport
    found: Exception = kind(httpx.AsyncClient(verify=False), card(), URL)._create_jsonrpc_error(body["error"])
    return found


def heard_rest(error: AgentError, version: Version) -> Exception:
    status, body = write_rest(error, version=version)
    kind = RestTransport if version is Version.V1_0 else CompatRestTransport
    transport = kind(httpx.AsyncClient(verify=False), card(), URL)
    return raised(transport._handle_http_error, failed(status, body))


def failed(status: int, body: bytes) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", URL)
    response = httpx.Response(status, content=body, headers={"content-type": "application/json"}, request=request)
    return httpx.HTTPStatusError("failed", request=request, response=response)


def raised(call: Callable[[Any], object], argument: object) -> Exception:
    with pytest.raises((A2AError, A2AClientError)) as caught:
        call(argument)
    return caught.value


@for_each("kind", KNOWN)
def test_clients_of_1_0_raise_the_exception_of_that_name(kind: ErrorKind) -> None:
    error = error_of(kind.code)
    for found in (
        heard_jsonrpc(error, Version.V1_0),
        *([] if kind.code == WITHOUT_REASON else [heard_rest(error, Version.V1_0)]),
    ):
        assert type(found) is BY_NAME[kind.name]
        assert str(found) == "so"


@for_each("kind", KNOWN)
def test_clients_of_0_3_raise_the_nearest_exception(kind: ErrorKind) -> None:
    error = error_of(kind.code)
    assert type(heard_jsonrpc(error, Version.V0_3)) is BY_CODE[code_toward(kind.code, Version.V0_3)]
    # Over HTTP+JSON the name is told, and there is one for each.
    assert type(heard_rest(error, Version.V0_3)) is BY_NAME[kind.name]
    assert str(heard_rest(error, Version.V0_3)) == "so"


@for_each("kind", list(KINDS))
def test_written_errors_fit_the_types_of_0_3(kind: ErrorKind) -> None:
    written = write_jsonrpc(error_of(kind.code), id=b'"1"', version=Version.V0_3)
    found = types_0_3.JSONRPCErrorResponse.model_validate_json(written)
    assert found.error is not None
    assert found.error.code == json.loads(written)["error"]["code"]


def test_an_error_of_the_agents_own_shows_its_code_or_its_words() -> None:
    error = error_of(-32050, "the printer is on fire")
    for version in (Version.V1_0, Version.V0_3):
        assert "the printer is on fire" in str(heard_jsonrpc(error, version))
        assert "the printer is on fire" in str(heard_rest(error, version))
    assert "-32050" in str(heard_jsonrpc(error, Version.V1_0))
