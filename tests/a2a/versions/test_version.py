"""The forms: what they have in common."""

from gateway.a2a.json import Tree
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.versions import v0_1, v0_3, v0_3_proto, v1_0
from gateway.a2a.versions.forms import FORMS
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL, Form, Memo, Misfit
from tests.table import for_each

SECTIONS: dict[str, Form] = {
    "1.0": v1_0.FORM,
    "0.2 and 0.3 over JSON-RPC": v0_3.FORM,
    "0.3 over HTTP+JSON": v0_3_proto.FORM,
    "0.1": v0_1.FORM,
}


def test_every_generation_answers_sends_and_gets() -> None:
    for dialect, form in FORMS.items():
        assert form.version is dialect.version
        assert {Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.GET_TASK} <= form.answers
    assert set(CALLABLE) <= v1_0.FORM.answers
    assert Operation.LIST_TASKS not in v0_3.FORM.answers | v0_3_proto.FORM.answers | v0_1.FORM.answers


@for_each("name", SECTIONS)
def test_an_update_with_a_member_of_the_other_kind_can_be_said(name: str) -> None:
    status: Tree = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    artifact: Tree = {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": []}}
    for event in ({"statusUpdate": {**status, "artifact": [{}]}}, {"artifactUpdate": {**artifact, "status": ""}}):
        assert SECTIONS[name].lower_event(event, Memo(), last=False)


def test_a_state_does_not_wait_and_end_at_once() -> None:
    assert not TERMINAL & INTERRUPTED


def test_a_misfit_says_where_it_is() -> None:
    assert str(Misfit("message.parts[0]", "must be an object")) == "message.parts[0]: must be an object"
    assert str(Misfit("", "must be an object")) == "must be an object"
