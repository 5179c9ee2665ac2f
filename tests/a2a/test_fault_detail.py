"""What programs are told of a fault, and what is for the log alone."""

import pytest

from gateway.a2a import fault as faults
from gateway.a2a.fault import A2A_DOMAIN, GATEWAY_DOMAIN, Fault
from gateway.a2a.fault_detail import details
from tests.a2a.test_fault import classes, made

FAULTS = classes()


@pytest.mark.parametrize("kind", FAULTS)
def test_details_name_the_request_and_the_protocols_own_reason_first(kind: type[Fault]) -> None:
    entries = details(made(kind), "r1")
    assert entries
    assert all(entry["metadata"] == {"requestId": "r1"} for entry in entries)
    domains = [entry["domain"] for entry in entries]
    assert domains in ([A2A_DOMAIN], [GATEWAY_DOMAIN], [A2A_DOMAIN, GATEWAY_DOMAIN])
    assert (A2A_DOMAIN in domains) == (kind.a2a_reason is not None)
    assert all(str(entry["reason"]).isupper() for entry in entries)


def test_a_task_that_is_not_there_is_told_in_the_protocols_words_alone() -> None:
    [entry] = details(faults.TaskNotFound("Task not found"), "r1")
    assert (entry["reason"], entry["domain"]) == ("TASK_NOT_FOUND", A2A_DOMAIN)


def test_what_is_for_the_log_is_in_no_detail() -> None:
    fault = faults.UpstreamConnect("the agent could not be reached", detail="10.1.2.3 refused", retry_after=2.0)
    assert "10.1.2.3" not in f"{fault}{details(fault, 'r1')}"
    assert (fault.detail, fault.retry_after) == ("10.1.2.3 refused", 2.0)


def test_a_parameter_of_a_wrong_shape_is_named_for_whoever_reads_fields() -> None:
    fault = faults.BadParams("parts must be a list", field="message.parts")
    *infos, last = details(fault, "r1")
    assert [info["reason"] for info in infos] == ["INVALID_PARAMS", "BAD_REQUEST"]
    assert last == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": "message.parts", "description": "parts must be a list"}],
    }


def test_where_no_field_is_known_none_is_named() -> None:
    assert details(faults.BadParams("params is missing"), "r1") == details(faults.BadParams("no", field=""), "r1")
    assert len(details(faults.BadParams("params is missing"), "r1")) == 2
