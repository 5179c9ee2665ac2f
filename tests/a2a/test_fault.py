"""The error table: it agrees with the protocol's vectors, with the faults that use it, and with the manual."""

from pathlib import Path
from typing import Any

from gateway.a2a import fault as table
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.dialect import Version
from gateway.a2a.fault import (
    BAD_REQUEST,
    BY_CODE,
    BY_REASON,
    CODES_OF_0_1,
    KINDS,
    OUTCOMES,
    REASONS,
    ErrorKind,
    Fault,
    code_toward,
)
from tests.a2a.sample import vector
from tests.reference import REMEDIES
from tests.table import for_each

ENTRIES: list[dict[str, Any]] = vector("errors")["a2a"]
MANUAL = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()


def classes() -> list[type[Fault]]:
    """Return the faults of the table."""
    return [kind for kind in vars(table).values() if isinstance(kind, type) and issubclass(kind, Fault)]


def made(kind: type[Fault]) -> Fault:
    return table.WrongHttpMethod("no", allowed=("GET",)) if kind is table.WrongHttpMethod else kind("no")


# ---- The table -------------------------------------------------------------------------------------------------------


@for_each("entry", ENTRIES)
def test_errors_have_the_names_codes_and_statuses_of_the_protocol(entry: dict[str, Any]) -> None:
    kind = BY_REASON[entry["reason"]]
    status = entry["v1.0-rest"]["http"]
    assert (kind.name, kind.code) == (entry["error"], entry["jsonrpc_code"])
    assert (kind.http_status, kind.grpc_status) == (status["status"], status["body"]["error"]["status"])
    assert kind.grpc_status == entry["v1.0-grpc"]["grpc"]["status"]
    assert code_toward(kind.code, Version.V0_3) == entry["v0.3-jsonrpc"]["http"]["body"]["error"]["code"]
    if "v0.3-rest" in entry:
        assert kind.status_toward(Version.V0_3) == entry["v0.3-rest"]["http"]["status"]


def test_codes_reasons_and_names_are_unique() -> None:
    assert len(BY_CODE) == len({kind.name for kind in KINDS}) == len(KINDS)
    assert len(BY_REASON) == len([kind for kind in KINDS if kind.reason is not None])


@for_each("kind", KINDS)
def test_a_code_never_means_another_error_to_a_client_of_0_1(kind: ErrorKind) -> None:
    told = code_toward(kind.code, Version.V0_1)
    meant = table.of_code(told, Version.V0_1)
    assert meant in (kind, table.INTERNAL_ERROR, table.UNSUPPORTED_OPERATION)


@for_each(("code", "to_0_3", "to_0_1"), [(-32050, -32050, -32050), (-32010, -32010, -32603), (-32011, -32011, -32603)])
def test_an_agents_own_code_passes_unless_it_means_something_to_the_client(code: int, to_0_3: int, to_0_1: int) -> None:
    assert code_toward(code, Version.V1_0) == code
    assert (code_toward(code, Version.V0_3), code_toward(code, Version.V0_1)) == (to_0_3, to_0_1)
    assert table.of_code(-32050, Version.V0_1) is None


@for_each(
    ("name", "meant"),
    [
        ("TaskNotFoundError", table.TASK_NOT_FOUND),
        ("TaskNotFound", table.TASK_NOT_FOUND),
        ("io.a2a.spec.TaskNotFoundError", table.TASK_NOT_FOUND),
        ("TASK_NOT_FOUND", table.TASK_NOT_FOUND),
        ("https://a2a-protocol.org/errors/version-not-supported", table.VERSION_NOT_SUPPORTED),
        ("AuthenticatedExtendedCardNotConfiguredError", table.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
        ("InternalError", table.INTERNAL_ERROR),
        ("about:blank", None),
        ("", None),
        ("TaskNotFoundError" * 1000, None),
    ],
)
def test_a_name_is_known_however_it_is_written(name: str, meant: ErrorKind | None) -> None:
    assert table.of_name(name) is meant


@for_each(
    ("status", "word", "words", "meant"),
    [
        (404, "", "", table.TASK_NOT_FOUND),
        (404, "NOT_FOUND", "Method not found", table.METHOD_NOT_FOUND),
        (404, "", "authenticated extended card is not configured", table.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
        (501, "", "Push Notification is not supported", table.PUSH_NOTIFICATION_NOT_SUPPORTED),
        (400, "INVALID_ARGUMENT", "", table.INVALID_PARAMS),
        (400, "", "", table.INVALID_REQUEST),
        (504, "", "", table.INTERNAL_ERROR),
        (None, "UNAUTHENTICATED", "", table.UNAUTHENTICATED),
        (None, "", "", table.INTERNAL_ERROR),
        (200, "", "", table.INTERNAL_ERROR),
    ],
)
def test_a_status_alone_means_the_likeliest_error(status: int | None, word: str, words: str, meant: ErrorKind) -> None:
    assert table.of_status(status, word, words) is meant


# ---- Faults ----------------------------------------------------------------------------------------------------------


@for_each("kind", classes())
def test_every_fault_agrees_with_the_table(kind: type[Fault]) -> None:
    assert kind.reason in REASONS
    assert kind.outcome in OUTCOMES
    assert kind.shown is None or kind.shown in REASONS
    # Only the gateway says that there is nothing at a path for this caller.
    assert kind.rpc_code in BY_CODE or kind.rpc_code == table.NoEndpoint.rpc_code
    if kind.a2a_reason is not None:
        error = BY_REASON[kind.a2a_reason]
        assert kind.rpc_code == error.code
        assert {jsonrpc.code_of(made(kind), version, midway=True) for version in Version} == {-32603}


def test_details_tell_the_wrong_field_and_nothing_from_the_log() -> None:
    *_, last = table.BadParams("parts must be a list", field="message.parts").details("r1")
    violation = {"field": "message.parts", "description": "parts must be a list"}
    assert last == {"@type": BAD_REQUEST, "fieldViolations": [violation]}
    fault = table.UpstreamConnect("the agent could not be reached", detail="10.1.2.3 refused", retry_after=2.0)
    assert "10.1.2.3" not in f"{fault}{fault.details('r1')}"
    assert (fault.detail, fault.retry_after) == ("10.1.2.3 refused", 2.0)


# ---- The manual ------------------------------------------------------------------------------------------------------


def test_each_reason_has_a_remedy_for_the_caller_and_for_the_operator() -> None:
    assert set(REMEDIES) == set(REASONS) == {kind.reason for kind in classes()}


def line(kind: ErrorKind) -> str:
    """Return the row of an error in the manual."""
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


def test_the_manual_has_the_table() -> None:
    written = MANUAL.split("## Errors of agents, translated")[1].splitlines()
    assert [row for row in written if row.startswith("| `") and "Error`" in row] == [line(kind) for kind in KINDS]
    for code, kind in CODES_OF_0_1.items():
        meaning = "refused" if kind.challenges else f"`{kind.name}`"
        assert any(row.startswith(f"| {code} |") and row.endswith(f"| {meaning} |") for row in written)
