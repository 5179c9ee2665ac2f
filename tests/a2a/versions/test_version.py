"""The versions: the word for each, and what all forms have in common."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.dialect import Version, parse_version
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.translation import FORMS
from gateway.a2a.versions import v0_1, v0_3, v0_3_proto, v1_0
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL


def test_every_generation_answers_sends_and_gets() -> None:
    for dialect, form in FORMS.items():
        assert form.version is dialect.version
        assert {Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE, Operation.GET_TASK} <= form.answers
    assert set(CALLABLE) <= v1_0.FORM.answers
    assert Operation.LIST_TASKS not in v0_3.FORM.answers | v0_3_proto.FORM.answers | v0_1.FORM.answers


def test_a_state_does_not_wait_and_end_at_once() -> None:
    assert not TERMINAL & INTERRUPTED


@given(st.text())
def test_no_text_does_more_than_be_unknown(text: str) -> None:
    assert parse_version(text) in (None, *Version)
