"""The faults: what each says on every wire, and what it never says."""

from typing import Any

import pytest

from gateway.a2a import fault as faults
from gateway.a2a.fault import OUTCOMES, REASONS, Fault
from gateway.a2a.fault_detail import details
from tests.a2a.sample import vector


def classes(root: type[Fault] = Fault) -> list[type[Fault]]:
    return [root, *(found for child in root.__subclasses__() for found in classes(child))]


def made(kind: type[Fault]) -> Fault:
    return faults.WrongHttpMethod("no", allowed=("GET",)) if kind is faults.WrongHttpMethod else kind("no")


@pytest.mark.parametrize("kind", classes())
def test_reasons_and_outcomes_come_from_the_closed_lists(kind: type[Fault]) -> None:
    assert kind.reason in REASONS
    assert kind.outcome in OUTCOMES
    assert kind.shown is None or kind.shown in REASONS


OURS = {kind.a2a_reason: kind for kind in reversed(classes()) if kind.a2a_reason is not None}
SPECIFIED = {error["reason"]: error for error in vector("errors")["a2a"]}


@pytest.mark.parametrize("reason", sorted(OURS.keys() - {"PARSE_ERROR"}))
def test_errors_of_the_protocol_have_its_codes_and_statuses(reason: str) -> None:
    ours, specified = OURS[reason], SPECIFIED[reason]
    rest = specified["v1.0-rest"]["http"]
    assert ours.rpc_code == specified["jsonrpc_code"]
    assert ours.grpc_status == rest["body"]["error"]["status"] == specified["v1.0-grpc"]["grpc"]["status"]
    # As in the text of 1.0.0: an agent that answers nonsense is a bad gateway's 502 here (design §12), and a type that
    # is no JSON has the status that HTTP has for that.
    own = {faults.UpstreamProtocol: 502, faults.ContentTypeUnsupported: 415}
    assert ours.http_status == own.get(ours, rest["status"])


def test_the_parse_error_is_that_of_json_rpc() -> None:
    assert (faults.ParseFailed.rpc_code, faults.ParseFailed.http_status) == (-32700, 400)


@pytest.mark.parametrize(
    ("hidden", "seen"),
    [
        (faults.TenantDenied, faults.NoRoute),
        (faults.HiddenConflict, faults.NoRoute),
        (faults.TenantDeniedEndpoint, faults.NoEndpoint),
    ],
)
def test_what_a_caller_may_not_know_looks_like_what_does_not_exist(hidden: type[Fault], seen: type[Fault]) -> None:
    def shown(kind: type[Fault]) -> tuple[Any, ...]:
        entries = details(kind("nothing here"), "r1")
        return entries, kind.rpc_code, kind.rpc_status, kind.http_status, kind.grpc_status

    assert shown(hidden) == shown(seen)
    assert hidden.reason != seen.reason
