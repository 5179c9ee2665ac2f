"""Every message of the vectors, from every dialect that says it to every other one, there and back."""

import json

from gateway.a2a.dialect import Binding
from gateway.a2a.framing.grpc import unframe
from gateway.a2a.translation import Translation
from tests.a2a.dialects import (
    DIALECTS,
    Case,
    answer_of,
    asked,
    call_of,
    comparable,
    events_of,
    hub_event,
    hub_params,
    hub_result,
    is_final,
    pairs,
    told,
    vector,
)
from tests.table import for_each


@for_each("pair", pairs())
def test_a_request_says_the_same_in_the_agents_dialect(pair: list[Case]) -> None:
    for case in pair:
        _says_the_same(case)


def _says_the_same(case: Case) -> None:
    content = vector(case.file)
    call = call_of(content["request"][case.ours], DIALECTS[case.ours])
    translation = Translation(call, DIALECTS[case.theirs], message_id="made", new_id="task-made")
    if translation.call.operation is not call.operation:
        return
    expected = hub_params(call_of(content["request"][case.theirs], DIALECTS[case.theirs]))
    loose = case.loose
    found = hub_params(asked(translation.call))
    assert comparable(found, loose=loose) == comparable(expected, loose=loose), case


@for_each("pair", pairs(having="response"))
def test_an_answer_says_the_same_in_the_clients_dialect(pair: list[Case]) -> None:
    for case in pair:
        _answers_the_same(case)


def _answers_the_same(case: Case) -> None:
    content = vector(case.file)
    call = call_of(content["request"][case.ours], DIALECTS[case.ours])
    translation = Translation(call, DIALECTS[case.theirs], message_id="made", new_id="task-made")
    if translation.call.operation is not call.operation:
        return
    answer = translation.answer(answer_of(content, case.theirs) or b"")
    expected = answer_of(content, case.ours)
    if DIALECTS[case.ours].binding is Binding.GRPC:
        [answer] = unframe(answer)
    elif expected is None:
        # A deletion: 204 is normalised to an empty object, which all clients take.
        assert json.loads(answer) == {}
    elif DIALECTS[case.ours].binding is Binding.JSONRPC:
        assert json.loads(answer)["id"] == "req-1"
    if expected is not None:
        loose = case.loose
        found = comparable(hub_result(call, answer), loose=loose)
        assert found == comparable(hub_result(call, expected), loose=loose), case


@for_each("pair", pairs(having="events"))
def test_a_stream_says_the_same_in_the_clients_dialect(pair: list[Case]) -> None:
    for case in pair:
        _streams_the_same(case)


def _streams_the_same(case: Case) -> None:
    content = vector(case.file)
    call = call_of(content["request"][case.ours], DIALECTS[case.ours])
    translation = Translation(call, DIALECTS[case.theirs], message_id="made", new_id="task-made")
    sent = b"".join(translation.event(event) for event in events_of(content, case.theirs))
    found = told(call, sent + translation.held(last=True))
    expected = events_of(content, case.ours)
    assert [is_final(call, event) for event in found] == [is_final(call, event) for event in expected]
    loose = case.loose
    assert [comparable(hub_event(call, event), loose=loose) for event in found] == [
        comparable(hub_event(call, event), loose=loose) for event in expected
    ], case
