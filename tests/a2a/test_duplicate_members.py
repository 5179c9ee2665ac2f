"""An answer, an event or a notification in which a member stands twice where ids are looked for is none."""

import json
from typing import Any

import msgspec

from gateway.a2a import notification
from gateway.a2a.bindings.jsonrpc import read_progress
from gateway.a2a.nested_ids import has_duplicates
from gateway.a2a.progress import read_bare, read_list
from tests.table import for_each

STATE = {"state": "TASK_STATE_WORKING"}
MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "taskId": "t", "contextId": "c", "parts": [{"text": "hi"}]}
TASK = {"id": "t", "contextId": "c", "status": {**STATE, "message": MESSAGE}, "history": [MESSAGE, MESSAGE]}
NEWS = {"taskId": "t", "contextId": "c", "status": {**STATE, "message": MESSAGE}}
ARTIFACT = {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"text": "hi"}]}}
CONFIG = {"taskId": "t", "id": "p", "url": "https://example.com/"}

TOLD: dict[str, Any] = {
    "a task of 1.0": {"task": TASK},
    "a task of 0.3": {"kind": "task", **TASK},
    "a message of 1.0": {"message": MESSAGE},
    "a message of 0.3": {"kind": "message", **MESSAGE},
    "news of 1.0": {"statusUpdate": NEWS},
    "news as in the schema": {"status_update": {"task_id": "t", "status": STATE}},
    "news of 0.3": {"kind": "status-update", **NEWS},
    "an artifact of 1.0": {"artifactUpdate": ARTIFACT},
    "an artifact of 0.3": {"kind": "artifact-update", **ARTIFACT},
    "a message as in the schema": {"msg": MESSAGE},
    "another case": {"Task": TASK},
    "a configuration of 1.0": CONFIG,
    "a configuration of 0.3": {"taskId": "t", "pushNotificationConfig": {"id": "p", "url": "https://example.com/"}},
    "configurations": {"configs": [CONFIG, CONFIG]},
}
FREE = frozenset({"parts", "artifact", "artifacts", "metadata"})
"""Members in which nobody looks for an id."""


def doubled(tree: Any) -> list[Any]:
    """The tree with each member of it in turn there twice, but in what is free; the twin's name ends in `~`."""
    if isinstance(tree, list):
        return [[*tree[:at], each, *tree[at + 1 :]] for at in range(len(tree)) for each in doubled(tree[at])]
    if not isinstance(tree, dict):
        return []
    found: list[Any] = []
    for name, value in tree.items():
        found += [{f"{name}~": value, **tree}, {**tree, f"{name}~": "other"}, {**tree, f"{name}~": None}]
        if name not in FREE:
            found += [{**tree, name: each} for each in doubled(value)]
    return found


def written(tree: Any, *, spaced: bool = False, escaped: bool = False) -> bytes:
    text = json.dumps(tree, separators=None if spaced else (",", ":"))
    return text.replace('~"', '"').replace('"taskId"', '"t\\u0061skId"' if escaped else '"taskId"').encode()


def rpc(result: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}"


@for_each("spaced", [False, True])
@for_each("escaped", [False, True])
@for_each("told", TOLD)
def test_no_member_stands_twice_where_ids_are_looked_for(told: str, *, spaced: bool, escaped: bool) -> None:
    good = written(TOLD[told], spaced=spaced, escaped=escaped)
    assert read_progress(rpc(good)) is not None
    assert read_bare(good) is not None
    cases = doubled(TOLD[told])
    assert len(cases) > 2
    for case in cases:
        frame = written(case, spaced=spaced, escaped=escaped)
        assert read_progress(rpc(frame)) is None, frame
        assert read_bare(frame) is None, frame
        assert notification.read(frame) is None, frame


def test_a_list_of_configurations_is_looked_through() -> None:
    assert read_list(b"[" + written(CONFIG) + b"]") is not None
    for case in doubled([CONFIG, CONFIG]):
        assert read_list(written(case)) is None
        assert read_progress(rpc(written(case))) is None


@for_each(
    "free",
    [
        {"task": {**TASK, "metadata": {"a": 1, "a~": 2}}},
        {"task": {**TASK, "artifacts": [{"parts": [{"data": {"taskId": "t", "taskId~": "u"}}]}]}},
        {"message": {**MESSAGE, "parts": [{"text": "a", "text~": "b"}]}},
        {"artifactUpdate": {**ARTIFACT, "artifact": {"name": "a", "name~": "b"}}},
        {"task": TASK, "x": {"task": TASK, "task~": TASK}},
    ],
)
def test_what_is_free_is_not_looked_into(free: Any) -> None:
    assert read_progress(rpc(written(free))) is not None
    assert read_bare(written(free)) is not None


@for_each("raw", [b"5", b'"x"', b"null", b"[]", b"[5,[{}],null]", b"{}", b' { "a" : 1 } '])
def test_what_has_no_members_has_no_twins(raw: bytes) -> None:
    assert not has_duplicates(raw)
    assert not has_duplicates(msgspec.Raw(raw.strip()))


@for_each("raw", [b"", b"{", b"[1", b'{"a\xff":1}', b'{"\\ud800":1,"a":1}', b'{"a":' * 5000])
def test_what_cannot_be_read_may_have_some(raw: bytes) -> None:
    assert has_duplicates(raw)


def test_how_deep_something_is_told_costs_no_more_than_its_length() -> None:
    deep = b'{"status":' * 500 + b'{"a":1,"a":2}' + b"}" * 500
    assert not has_duplicates(deep)


# ---- Errors ----------------------------------------------------------------------------------------------------------

ERROR = {"code": -32001, "message": "no", "data": [{"@type": "x", "metadata": {"taskId": "t"}}]}


def test_no_member_of_an_error_stands_twice() -> None:
    for case in doubled({**ERROR, "data": {"free": ERROR["data"]}}):
        raw = written(case)
        if b'"code":"other"' in raw or b'"code":null' in raw:
            continue
        assert read_progress(b'{"jsonrpc":"2.0","id":1,"error":' + raw + b"}") is None, raw
        assert read_bare(b'{"error":' + raw + b"}") is None, raw
    raw = b'{"code":1,"message":"a","data":{"metadata":{"taskId":"t","taskId":"u"}}}'
    assert read_progress(b'{"jsonrpc":"2.0","id":1,"error":' + raw + b"}") is None
    assert read_bare(b'{"error":' + raw + b"}") is None
    for beside in (b'"x":1', b'"contextId":5'):
        result = b"{" + beside + b',"error":' + raw + b"}"
        assert read_progress(b'{"jsonrpc":"2.0","id":1,"result":' + result + b"}") is None
        assert read_bare(result) is None
