"""Every message of the vectors, from every dialect that says it to every other one, there and back."""

import json

import pytest

from gateway.a2a.dialect import Binding
from gateway.a2a.translation import Translation
from tests.a2a.dialects import (
    DIALECTS,
    Case,
    asked,
    call_of,
    cases,
    comparable,
    decode,
    events_of,
    hub_event,
    hub_params,
    hub_result,
    is_final,
    vector,
)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_request_says_the_same_in_the_agents_dialect(case: Case) -> None:
    content = vector(case.file)
    call = call_of(content["request"][case.ours], DIALECTS[case.ours])
    translation = Translation(call, DIALECTS[case.theirs], message_id="made", new_id="task-made")
    if translation.call.operation is not call.operation:
        return
    expected = hub_params(call_of(content["request"][case.theirs], DIALECTS[case.theirs]))
    loose = case.loose
    found = hub_params(asked(translation.call))
    assert comparable(found, loose=loose) == comparable(expected, loose=loose)


@pytest.mark.parametrize("case", [each for each in cases() if "response" in vector(each.file)], ids=str)
def test_an_answer_says_the_same_in_the_clients_dialect(case: Case) -> None:
    content = vector(case.file)
    answers = content["response"]
    theirs = answers.get(case.theirs) or answers.get(case.theirs.removesuffix("-snake"))
    ours = answers.get(case.ours) or answers.get(case.ours.removesuffix("-snake"))
    call = call_of(content["request"][case.ours], DIALECTS[case.ours])
    translation = Translation(call, DIALECTS[case.theirs], message_id="made", new_id="task-made")
    if translation.call.operation is not call.operation:
        return
    body = theirs and theirs["http"].get("body")
    answer = translation.answer(b"" if body is None else json.dumps(body).encode())
    expected = ours and ours["http"].get("body")
    if expected is None:
        # A deletion: 204 is normalised to an empty object, which all clients take.
        assert json.loads(answer) == {}
        return
    if DIALECTS[case.ours].binding is Binding.JSONRPC:
        assert json.loads(answer)["id"] == "req-1"
    loose = case.loose
    assert comparable(hub_result(call, answer), loose=loose) == comparable(
        hub_result(call, json.dumps(expected).encode()), loose=loose
    )


@pytest.mark.parametrize("case", [each for each in cases() if "events" in vector(each.file)], ids=str)
def test_a_stream_says_the_same_in_the_clients_dialect(case: Case) -> None:
    content = vector(case.file)
    call = call_of(content["request"][case.ours], DIALECTS[case.ours])
    translation = Translation(call, DIALECTS[case.theirs], message_id="made", new_id="task-made")
    sent = b"".join(translation.event(event) for event in events_of(content, case.theirs))
    sent += translation.held(last=True)
    assert sent.endswith(b"\n\n")
    found = [block.removeprefix(b"data: ") for block in sent.split(b"\n\n")[:-1]]
    expected = events_of(content, case.ours)
    wrapped = call.dialect.binding is Binding.JSONRPC
    final = [is_final(decode(event), wrapped=wrapped) for event in found]
    assert final == [is_final(decode(event), wrapped=wrapped) for event in expected]
    loose = case.loose
    assert [comparable(hub_event(call, event), loose=loose) for event in found] == [
        comparable(hub_event(call, event), loose=loose) for event in expected
    ]
