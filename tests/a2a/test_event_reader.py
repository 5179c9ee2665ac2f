"""The events of one stream are read as each would be read by itself."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.agent_frame import event_reader
from gateway.a2a.bindings.jsonrpc import read_progress
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.a2a.progress import Progress, read_bare

ENVELOPES = (
    b'{"jsonrpc":"2.0","id":"call-1","result":%b}',
    b'{"jsonrpc": "2.0", "id": "call-1", "result": %b}',
    b'{"result":%b,"id":1,"jsonrpc":"2.0"}',
    b"%b",
)
OBJECTS = (
    b'{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":%b}}',
    b'{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":%b,"append":true}}',
    b'{"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": %b, "lastChunk": true}}',
    b'{"artifactUpdate":{"artifact":%b,"taskId":"t","contextId":"c"}}',
    b'{"artifactUpdate":{"taskId":"other","contextId":"c","artifact":%b}}',
    b'{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{},"metadata":%b}}',
    b'{"artifactUpdate":{"taskId":"t","contextId":"c","append":%b}}',
    b'{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"metadata":%b}}',
    b'{"kind":"artifact-update","taskId":"t","contextId":"c","artifact":%b}',
    b'{"task":{"id":"t","contextId":"c","artifacts":[%b]}}',
)
ARTIFACTS = (
    b'{"artifactId":"a","parts":[{"text":"one"}]}', b'{"artifactId":"a","parts":[{"text":"two, \\"artifact\\":{"}]}',
    b"{}", b"null", b"1", b'"t"', b"true", b" {} ", b'{"x":"\xc3\xa4"}',
    # What would leave the artifact, or is no value.
    b"", b"{", b"{}}", b"{},", b'{},"taskId":"other"',
    b'{}}},"result":{"artifactUpdate":{"taskId":"other","artifact":{}',
    b'{"x":"\xff"}', b"NaN", b"{}{}", b'1,"contextId":"other","artifact":1', b"[" * 3000 + b"]" * 3000, b'"\\ud800"',
)  # fmt: skip
EVENTS = st.builds(
    lambda envelope, members, artifact: envelope % (members % artifact),
    st.sampled_from(ENVELOPES),
    st.sampled_from(OBJECTS),
    st.sampled_from(ARTIFACTS),
)


def call_over(binding: Binding) -> Call:
    dialect = Dialect(binding, Version.V1_0)
    return Call(Operation.SEND_STREAMING_MESSAGE, dialect, "", b"1", None, None, None, b"")


CUT = st.tuples(EVENTS, st.integers(0, 200), st.integers(0, 3)).map(
    lambda cut: cut[0][: cut[1]] + cut[0][cut[1] + cut[2] :]
)


@pytest.mark.parametrize(
    ("binding", "alone"), [(Binding.JSONRPC, read_progress), (Binding.REST, read_bare)], ids=["jsonrpc", "rest"]
)
@given(events=st.lists(EVENTS | CUT, min_size=2, max_size=12))
def test_an_event_tells_what_it_tells_alone(
    binding: Binding, alone: Callable[[bytes], Progress | None], events: list[bytes]
) -> None:
    read = event_reader(call_over(binding))
    assert [read(event) for event in events] == [alone(event) for event in events]


def test_a_repeated_event_is_not_read_again() -> None:
    read = event_reader(call_over(Binding.JSONRPC))
    event = ENVELOPES[0] % OBJECTS[1]
    first = read(event % ARTIFACTS[0])
    assert first is not None
    assert (first.task_id, first.context_id, first.event) == ("t", "c", "artifact")
    assert read(event % ARTIFACTS[1]) is first


def test_a_long_event_is_not_kept_for_its_artifact() -> None:
    read = event_reader(call_over(Binding.JSONRPC))
    event = b'{"jsonrpc":"2.0",%b"id":"call-1","result":{"artifactUpdate":{"taskId":"t","artifact":{}}}}' % (
        b" " * 10_000
    )
    assert read(event) == read(event)
    assert read(event) is not read(event)
