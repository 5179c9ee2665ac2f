"""The table of errors: it says what the protocol says, and what the gateway's own faults and the docs say."""

from pathlib import Path
from typing import Any

import pytest

from gateway.a2a import error_kind
from gateway.a2a import fault as faults
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.dialect import Version
from gateway.a2a.error_kind import BY_CODE, BY_REASON, CODES_OF_0_1, KINDS, ErrorKind, code_toward
from gateway.a2a.fault import Fault
from tests.a2a.sample import vector
from tests.a2a.test_fault import classes, made

ENTRIES: list[dict[str, Any]] = vector("errors")["a2a"]
DOCS = Path(__file__).parents[2] / "docs" / "errors.md"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["reason"])
def test_every_error_of_the_protocol_has_its_names_and_numbers(entry: dict[str, Any]) -> None:
    kind = BY_REASON[entry["reason"]]
    status = entry["v1.0-rest"]["http"]
    assert (kind.name, kind.code) == (entry["error"], entry["jsonrpc_code"])
    assert (kind.http_status, kind.grpc_status) == (status["status"], status["body"]["error"]["status"])
    assert kind.grpc_status == entry["v1.0-grpc"]["grpc"]["status"]
    assert code_toward(kind.code, Version.V1_0) == kind.code
    assert code_toward(kind.code, Version.V0_3) == entry["v0.3-jsonrpc"]["http"]["body"]["error"]["code"]
    if "v0.3-rest" in entry:
        assert kind.status_toward(Version.V0_3) == entry["v0.3-rest"]["http"]["status"]


def test_no_two_errors_have_one_code_or_one_reason_or_one_name() -> None:
    assert len(BY_CODE) == len({kind.name for kind in KINDS}) == len(KINDS)
    assert len(BY_REASON) == len([kind for kind in KINDS if kind.reason is not None])


# JSON-RPC's name, and 0.1's.
_NAMED_ELSEWHERE = (error_kind.PARSE_ERROR, error_kind.UNAUTHORIZED)


def test_every_reason_is_its_name_in_capitals() -> None:
    for kind in KINDS:
        if kind.reason is not None and not kind.challenges and kind not in _NAMED_ELSEWHERE:
            words = kind.reason.removesuffix("_ERROR").split("_")
            assert kind.name == "".join(map(str.capitalize, words)) + "Error"


# ---- The gateway's own ---------------------------------------------------------------------------------------------

OWN = [kind for kind in classes() if kind.a2a_reason is not None]
# What the gateway alone says: nothing at this path for this caller.
ALONE = {faults.NoEndpoint.rpc_code}


@pytest.mark.parametrize("fault", OWN)
def test_faults_that_are_errors_of_the_protocol_agree_with_the_table(fault: type[Fault]) -> None:
    kind = BY_REASON[fault.a2a_reason or ""]
    assert fault.rpc_code == kind.code
    if not issubclass(fault, faults.UpstreamProtocol):
        # A gateway's 502 for that one (design §12), or the 429 and 503 of an agent; and HTTP's own for a wrong type.
        status = 415 if fault is faults.ContentTypeUnsupported else kind.http_status
        assert (fault.http_status, fault.grpc_status) == (status, kind.grpc_status)
    for version in Version:
        assert jsonrpc.code_of(made(fault), version, midway=False) == code_toward(kind.code, version)


@pytest.mark.parametrize("fault", classes())
def test_every_code_of_a_fault_is_in_the_table(fault: type[Fault]) -> None:
    assert fault.rpc_code in BY_CODE or fault.rpc_code in ALONE


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.code > -32000], ids=lambda kind: kind.name)
def test_errors_that_1_0_does_not_have_are_those_of_faults(kind: ErrorKind) -> None:
    found = [fault for fault in classes() if fault.rpc_code == kind.code]
    assert found
    assert {(fault.http_status, fault.grpc_status) for fault in found} == {(kind.http_status, kind.grpc_status)}


# ---- 0.1 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        (-32001, error_kind.TASK_NOT_FOUND),
        (-32002, error_kind.TASK_NOT_CANCELABLE),
        (-32003, error_kind.PUSH_NOTIFICATION_NOT_SUPPORTED),
        (-32004, error_kind.UNSUPPORTED_OPERATION),
        (-32005, error_kind.CONTENT_TYPE_NOT_SUPPORTED),
        pytest.param(-32006, error_kind.UNSUPPORTED_OPERATION, id="StreamingNotSupported"),
        pytest.param(-32007, error_kind.UNAUTHENTICATED, id="AuthenticationRequired"),
        pytest.param(-32008, error_kind.UNAUTHORIZED, id="AuthorizationFailed"),
        pytest.param(-32009, error_kind.UNSUPPORTED_OPERATION, id="InvalidTaskState"),
        pytest.param(-32010, error_kind.RATE_LIMIT_EXCEEDED, id="RateLimitExceeded"),
        pytest.param(-32011, error_kind.RESOURCE_UNAVAILABLE, id="ResourceUnavailable"),
        (-32603, error_kind.INTERNAL_ERROR),
        (-32050, None),
    ],
)
def test_a_code_of_0_1_means_what_0_1_meant(code: int, meant: ErrorKind | None) -> None:
    assert error_kind.of_code(code, Version.V0_1) is meant


@pytest.mark.parametrize(
    ("code", "told"),
    [
        pytest.param(-32004, -32004, id="UnsupportedOperation"),
        pytest.param(-32005, -32005, id="ContentTypeNotSupported"),
        pytest.param(-32006, -32603, id="InvalidAgentResponse"),
        pytest.param(-32007, -32004, id="ExtendedAgentCardNotConfigured"),
        pytest.param(-32008, -32603, id="ExtensionSupportRequired"),
        pytest.param(-32009, -32603, id="VersionNotSupported"),
        pytest.param(-32010, -32603, id="an agent's own that is RateLimitExceeded there"),
        pytest.param(-32011, -32603, id="an agent's own that is ResourceUnavailable there"),
        pytest.param(-31401, -32007, id="Unauthenticated"),
        pytest.param(-31403, -32008, id="Unauthorized"),
        pytest.param(-31429, -32010, id="RateLimitExceeded"),
        pytest.param(-31503, -32011, id="ResourceUnavailable"),
        pytest.param(-32050, -32050, id="an agent's own"),
    ],
)
def test_a_client_of_0_1_is_told_no_code_that_means_another_thing_to_it(code: int, told: int) -> None:
    assert code_toward(code, Version.V0_1) == told


def test_whatever_goes_to_0_1_under_one_of_its_codes_comes_back_as_that() -> None:
    for kind in KINDS:
        if (told := code_toward(kind.code, Version.V0_1)) in CODES_OF_0_1:
            assert error_kind.of_code(told, Version.V0_1) is kind


@pytest.mark.parametrize(("code", "told"), [(-32007, -32007), (-32008, -32603), (-32009, -32603), (-32010, -32010)])
def test_0_3_is_not_told_what_came_with_1_0(code: int, told: int) -> None:
    assert code_toward(code, Version.V0_3) == told


# ---- Names and statuses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("TaskNotFoundError", error_kind.TASK_NOT_FOUND),
        ("TaskNotFound", error_kind.TASK_NOT_FOUND),
        ("io.a2a.spec.TaskNotFoundError", error_kind.TASK_NOT_FOUND),
        ("TASK_NOT_FOUND", error_kind.TASK_NOT_FOUND),
        ("https://a2a-protocol.org/errors/task-not-found", error_kind.TASK_NOT_FOUND),
        ("https://a2a-protocol.org/errors/version-not-supported", error_kind.VERSION_NOT_SUPPORTED),
        ("AuthenticatedExtendedCardNotConfiguredError", error_kind.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
        ("JSONParseError", error_kind.PARSE_ERROR),
        ("InternalError", error_kind.INTERNAL_ERROR),
        ("UNAUTHENTICATED", error_kind.UNAUTHENTICATED),
        ("RateLimitExceededError", error_kind.RATE_LIMIT_EXCEEDED),
        ("about:blank", None),
        ("", None),
        ("TaskNotFoundError" * 1000, None),
    ],
)
def test_a_name_is_known_however_it_is_written(name: str, meant: ErrorKind | None) -> None:
    assert error_kind.of_name(name) is meant


@pytest.mark.parametrize(
    ("status", "word", "words", "meant"),
    [
        (404, "", "", error_kind.TASK_NOT_FOUND),
        (404, "NOT_FOUND", "Method not found", error_kind.METHOD_NOT_FOUND),
        (404, "", "authenticated extended card is not configured", error_kind.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
        (409, "FAILED_PRECONDITION", "", error_kind.TASK_NOT_CANCELABLE),
        (415, "INVALID_ARGUMENT", "", error_kind.CONTENT_TYPE_NOT_SUPPORTED),
        (422, "INVALID_ARGUMENT", "", error_kind.INVALID_PARAMS),
        (501, "UNIMPLEMENTED", "", error_kind.UNSUPPORTED_OPERATION),
        (501, "", "Push Notification is not supported", error_kind.PUSH_NOTIFICATION_NOT_SUPPORTED),
        (502, "INTERNAL", "", error_kind.INVALID_AGENT_RESPONSE),
        (400, "INVALID_ARGUMENT", "", error_kind.INVALID_PARAMS),
        (400, "FAILED_PRECONDITION", "", error_kind.UNSUPPORTED_OPERATION),
        (400, "", "", error_kind.INVALID_REQUEST),
        (418, "", "", error_kind.INVALID_REQUEST),
        (500, "", "", error_kind.INTERNAL_ERROR),
        (504, "", "", error_kind.INTERNAL_ERROR),
        (None, "UNAUTHENTICATED", "", error_kind.UNAUTHENTICATED),
        (None, "", "", error_kind.INTERNAL_ERROR),
        (200, "", "", error_kind.INTERNAL_ERROR),
    ],
)
def test_a_status_means_what_most_agents_mean_by_it(
    status: int | None, word: str, words: str, meant: ErrorKind
) -> None:
    assert error_kind.of_status(status, word, words) is meant


# ---- The docs --------------------------------------------------------------------------------------------------------


def line(kind: ErrorKind) -> str:
    """How the docs have an error."""
    older = code_toward(kind.code, Version.V0_3), code_toward(kind.code, Version.V0_1)
    statuses = dict.fromkeys((kind.http_status, kind.status_toward(Version.V0_3)))
    cells = (
        f"`{kind.name}`",
        "none" if kind.reason is None else f"`{kind.reason}`",
        str(kind.code),
        *("refused" if kind.challenges else "same" if code == kind.code else str(code) for code in older),
        " / ".join(map(str, statuses)),
        kind.grpc_status,
    )
    return f"| {' | '.join(cells)} |"


def test_the_docs_have_the_table() -> None:
    written = DOCS.read_text().split("## Errors of agents, translated")[1]
    rows = [row for row in written.splitlines() if row.startswith("| `") and "Error`" in row]
    assert "\n".join(rows) == "\n".join(line(kind) for kind in KINDS)


def test_the_docs_have_the_codes_of_0_1() -> None:
    written = DOCS.read_text().split("## Errors of agents, translated")[1]
    for code, kind in CODES_OF_0_1.items():
        meaning = "refused" if kind.challenges else f"`{kind.name}`"
        assert any(row.startswith(f"| {code} |") and row.endswith(f"| {meaning} |") for row in written.splitlines())
