"""Paths: one reading decides and is forwarded, and nobody behind us reads it otherwise."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.paths import NAME, PathCall, decode_id, encode_id, read_rest, rest_path, segments
from tests.a2a.sample import TASK, TENANT, Sample, samples
from tests.table import for_each


@for_each("name", ["acme", "a.b-c_d", "A", "0", "...", "x" * 64, "v2", "Tasks", "--"])
def test_names_that_a_tenant_may_have(name: str) -> None:
    assert NAME.fullmatch(name)


@for_each(
    "name",
    [
        "", ".", "..", "-", "v1", "tasks", "card", "skills", "extendedAgentCard", ".well-known", "message:send",
        "x" * 65, "a/b", "a b", "ä", "a%20b", "a\n", "acme\n", "..\n", "a\0", "\uff41", "a\\u200db",
    ],
)  # fmt: skip
def test_names_that_no_tenant_has(name: str) -> None:
    assert NAME.fullmatch(name) is None


# ---- What stands behind an endpoint --------------------------------------------------------------------------------


@for_each("sample", samples("rest"))
def test_the_paths_of_every_dialect_are_read(sample: Sample) -> None:
    scoped = sample.version is Version.V1_0
    # 1.0 writes the tenant behind the endpoint's path; for 0.3 it is part of the endpoint.
    rest = segments(sample.path) if scoped else segments(sample.path)[2:]
    call = read_rest(sample.method, rest, tenanted=True)
    assert call is not None
    assert call.operation == sample.operation
    assert call.tenant == (TENANT if scoped else None)
    assert call.prefixed is not scoped
    assert call.task_id == (TASK if "tasks/" in sample.path.decode() else None)
    assert call.config_id == ("cfg-1" if sample.path.endswith(b"cfg-1") else None)
    assert call.allowed == ()
    # A canonical path is forwarded unchanged.
    behind = sample.path.removeprefix(b"/acme") if scoped else sample.path.removeprefix(b"/acme/rest")
    assert rest_path(call, sample.version).encode() == behind


def read(method: str, path: str, *, tenanted: bool = False) -> PathCall | None:
    return read_rest(method, segments(path.encode()), tenanted=tenanted)


@for_each(
    ("method", "path", "call"),
    [
        ("POST", "/", PathCall()),
        ("GET", "/", PathCall(allowed=("POST",))),
        ("POST", "/acme", PathCall(tenant="acme")),
        ("POST", "/acme/v1/message:send", PathCall(Operation.SEND_MESSAGE, "acme", prefixed=True)),
        ("GET", "/tasks/a:b:c", PathCall(Operation.GET_TASK, task_id="a:b:c")),
        ("POST", "/tasks/a:b:cancel", PathCall(Operation.CANCEL_TASK, task_id="a:b")),
        ("POST", "/tasks/a%3Acancel:cancel", PathCall(Operation.CANCEL_TASK, task_id="a:cancel")),
        ("GET", "/tasks/a:subscribe", PathCall(Operation.SUBSCRIBE_TO_TASK, task_id="a")),
        ("POST", "/tasks/a/subscribe", PathCall(Operation.SUBSCRIBE_TO_TASK, task_id="a")),
        ("GET", "/tasks/%C3%A4%3F", PathCall(Operation.GET_TASK, task_id="ä?")),
        ("GET", "/tasks/tasks", PathCall(Operation.GET_TASK, task_id="tasks")),
        ("DELETE", "/tasks/a", PathCall(Operation.GET_TASK, task_id="a", allowed=("GET",))),
        ("GET", "/message:send", PathCall(Operation.SEND_MESSAGE, allowed=("POST",))),
        ("PUT", "/tasks/a/pushNotificationConfigs/b",
         PathCall(Operation.GET_PUSH_CONFIG, task_id="a", config_id="b", allowed=("GET", "DELETE"))),
        ("GET", "/tasks/a/pushNotificationConfigs/", PathCall(Operation.LIST_PUSH_CONFIGS, task_id="a")),
        ("POST", "/v1/task/a%2bb/pushNotificationConfigs",
         PathCall(Operation.CREATE_PUSH_CONFIG, prefixed=True, task_id="a+b")),
        ("GET", "/acme/v1/task/a/pushNotificationConfigs/",
         PathCall(Operation.LIST_PUSH_CONFIGS, "acme", prefixed=True, task_id="a")),
        ("GET", "/v1/card", PathCall(Operation.GET_EXTENDED_CARD, prefixed=True)),
        ("GET", "/agent/authenticatedExtendedCard", PathCall(Operation.GET_EXTENDED_CARD, legacy_card=True)),
        ("GET", "/acme/agent/authenticatedExtendedCard",
         PathCall(Operation.GET_EXTENDED_CARD, "acme", legacy_card=True)),
        ("HEAD", "/.well-known/agent-card.json", PathCall(Operation.GET_CARD, card="agent-card.json")),
        ("GET", "/acme/.well-known/agent.json", PathCall(Operation.GET_CARD, "acme", card="agent.json")),
        ("POST", "/.well-known/agent.json", PathCall(Operation.GET_CARD, card="agent.json", allowed=("GET", "HEAD"))),
    ],
)  # fmt: skip
def test_paths_mean_what_every_client_means_by_them(method: str, path: str, call: PathCall) -> None:
    assert read(method, path, tenanted=True) == call


@for_each(
    ("path", "tenanted"),
    [
        ("/acme", False),
        ("/acme/message:send", False),
        ("/acme/beta/message:send", True),
        ("/v1", True),
        ("/v1/v1/message:send", True),
        ("/v1/acme/message:send", True),
        ("/card", False),
        ("/.well-known", True),
        ("/.well-known/jwks.json", True),
        ("/.well-known/agent.json/x", True),
        ("/Tasks/a", False),
        ("/tasks/a/b", True),
        ("/tasks/a/pushNotificationConfigs/b/c", True),
    ],
)
def test_other_paths_mean_nothing(path: str, *, tenanted: bool) -> None:
    assert read("GET", path, tenanted=tenanted) is None


@for_each("escaped", ["%ff", "%c0%af", "%ed%a0%80", "%c2%85", "%e2%80%8d", "%20a", "a%20", "a" * 513])
def test_ids_are_printable_utf8_of_bounded_length(escaped: str) -> None:
    for path in (f"/tasks/{escaped}", f"/tasks/{escaped}:cancel", f"/tasks/x/pushNotificationConfigs/{escaped}"):
        with pytest.raises(BadRequest):
            read("POST", path)


ids = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(
    lambda text: text.isprintable() and text == text.strip(" ")
)


@given(ids)
def test_an_id_survives_its_spelling(value: str) -> None:
    assert decode_id(encode_id(value)) == value
    assert encode_id(decode_id(encode_id(value))) == encode_id(value)
    assert re.fullmatch(r"[A-Za-z0-9._~!$&'()*+,=:@%-]+", encode_id(value))
