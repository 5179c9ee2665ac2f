"""What a fault tells of the agent; the rows are played in `tests/test_failure_table.py`."""

import pytest

from gateway.a2a import fault as faults
from gateway.a2a.fault import Fault
from gateway.upstream.failure import Away, DeadlinePassed, Unsent, counts, tells_nothing


@pytest.mark.parametrize("kind", [faults.UpstreamConnect, faults.UpstreamReset, faults.UpstreamTimeout, Away])
def test_what_seems_not_to_be_there_counts(kind: type[Fault]) -> None:
    assert counts(kind("no"))
    assert not tells_nothing(kind("no"))


@pytest.mark.parametrize(
    "kind", [faults.ClientGone, faults.Draining, faults.Overloaded, faults.UpstreamIdle, DeadlinePassed, Unsent]
)
def test_what_is_not_the_agents_fault_tells_nothing(kind: type[Fault]) -> None:
    assert tells_nothing(kind("no"))
    assert not counts(kind("no"))


@pytest.mark.parametrize("kind", [faults.UpstreamProtocol, faults.UpstreamBusy, faults.StateUnavailable])
def test_else_the_agent_has_answered(kind: type[Fault]) -> None:
    assert not tells_nothing(kind("no"))
    assert not counts(kind("no"))


@pytest.mark.parametrize(
    ("kind", "like"),
    [(Away, faults.UpstreamProtocol), (DeadlinePassed, faults.UpstreamTimeout), (Unsent, faults.Draining)],
)
def test_clients_are_told_no_more_than_before(kind: type[Fault], like: type[Fault]) -> None:
    told = ("reason", "outcome", "rpc_code", "rpc_status", "http_status", "grpc_status", "a2a_reason", "shown")
    assert [getattr(kind, each) for each in told] == [getattr(like, each) for each in told]
