"""A document is outlined as it is when it is read whole, however it is cut, in bounded memory and time."""

import itertools
import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.a2a import progress
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.outline import Outline
from tests.a2a.sample import VECTORS, vector
from tests.doubles.yardstick import cpu_seconds

RESULT = b'{"jsonrpc":"2.0","id":"a","result":{"x":[1,"]}\\"",{}]}}'


def outlined(*pieces: bytes, envelope: bool = True) -> Outline:
    outline = Outline(envelope=envelope)
    for piece in pieces:
        outline.feed(piece)
    outline.close()
    return outline


def refusal(*pieces: bytes, envelope: bool = True) -> str:
    with pytest.raises(UpstreamProtocol) as refused:
        outlined(*pieces, envelope=envelope)
    return refused.value.detail


# ---- What is read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "identity"),
    [
        (RESULT, b'"a"'),
        (b' \r\n\t{ "id" : 17 , "result" : null } \n', b"17"),
        (b'{"result":"a \\\\\\" } string","id":null}', b"null"),
        (b'{"id":-1.5e3,"result":true}', b"-1.5e3"),
        (b'{"i\\u0064":"\\"\\\\","result":[]}', b'"\\"\\\\"'),
        (b'{"result":{"id":1}}', None),
        (b"{}", None),
    ],
)
def test_the_id_is_read_wherever_it_stands_and_however_the_document_is_cut(
    document: bytes, identity: bytes | None
) -> None:
    for size in (1, 2, 3, len(document)):
        pieces = [document[at : at + size] for at in range(0, len(document), size)]
        assert outlined(*pieces).id == identity


def test_the_id_is_known_as_soon_as_it_has_passed() -> None:
    outline = Outline(envelope=True)
    outline.feed(b'{"id":"ab')
    assert outline.id is None
    outline.feed(b'c"')
    assert outline.id == b'"abc"'
    outline.feed(b',"result":[')
    assert not outline.ended
    outline.feed(b"]}")
    assert outline.ended


@pytest.mark.parametrize(
    ("members", "once", "failed"),
    [
        (b'"result":1', True, False),
        (b'"result":null,"error":null', True, False),
        (b'"error":{}', True, True),
        (b'"error":{},"result":null', True, True),
        (b'"error":{},"result":1', False, True),
        (b'"result":{},"error":{}', False, True),
        (b'"error":null', False, False),
        (b'"x":1', False, False),
    ],
)
def test_results_and_errors_are_told_apart(members: bytes, *, once: bool, failed: bool) -> None:
    outline = outlined(b"{" + members + b"}")
    assert (outline.answers_once(), outline.failed) == (once, failed)


@pytest.mark.parametrize(
    "document",
    [
        b' [ {"id":1}, "]" ] ', b'{"id":{},"x":"' + b"x" * 9999 + b'","error":1}', b"[]", b"{}", b'["\\"]"]',
        b"[[],{}]",
        b' { "error" : "boom" , "jsonrpc" : 1 , "result" : [ ] } ', b'{"message":"' + b"x" * 9999 + b'"}',
    ],
)  # fmt: skip
def test_a_document_that_is_no_envelope_has_neither_an_id_nor_an_error(document: bytes) -> None:
    for size in (1, 3, len(document)):
        pieces = [document[at : at + size] for at in range(0, len(document), size)]
        outline = outlined(*pieces, envelope=False)
        assert (outline.ended, outline.id, outline.failed) == (True, None, False)
    assert refusal(document + b"{}", envelope=False) == "bytes behind its end"
    assert refusal(document.rstrip()[:-1], envelope=False) == "it breaks off"
    assert refusal(b"x" + document, envelope=False) == "it is no JSON"


# ---- What an answer tells ------------------------------------------------------------------------------------------

TASKS = {
    "1.0": {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}, "artifacts": [{}]}},
    "1.0, over HTTP": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}, "artifacts": [[]]},
    "0.3, sorted": {"artifacts": [1], "contextId": "c", "id": "t", "kind": "task", "status": {"state": "working"}},
    "0.3, unsorted": {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "working"}, "history": []},
    "0.1": {"artifacts": [{}], "id": "t", "sessionId": "c", "status": {"message": {"id": 1}, "state": "working"}},
    "its status at its end": {"id": "t", "contextId": "c", "artifacts": ["x"], "status": {"state": "working"}},
    "an update": {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": "working"}}},
    "a bare update": {"contextId": "c", "kind": "status-update", "taskId": "t", "status": {"state": "working"}},
}


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("envelope", [True, False])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_an_id_is_told_with_the_byte_that_ends_it(task: dict[str, Any], *, envelope: bool, spaced: bool) -> None:
    document = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": task} if envelope else task, indent=1 if spaced else None
    ).encode()
    outline = Outline(envelope=envelope)
    told: list[tuple[str | None, str | None, str | None]] = []
    for at in range(len(document)):
        before = outline.sighted
        outline.feed(document[at : at + 1])
        known = (outline.task_id, outline.context_id, outline.state)
        for value, told_value in ((b'"t"', outline.task_id), (b'"c"', outline.context_id)):
            assert (value in document[: at + 1]) == (told_value is not None)
        assert (outline.sighted > before) == (known != (told[-1] if told else (None, None, None)))
        told.append(known)
    assert told[-1] == ("t", "c", "working")


def test_the_task_that_a_message_names_is_told_with_the_byte_that_ends_it() -> None:
    members = {"contextId": "c", "kind": "message", "messageId": "m", "parts": [], "taskId": "t"}
    for order in itertools.permutations(members):
        outline = Outline(envelope=False)
        document = json.dumps({name: members[name] for name in order}).encode()
        for at in range(len(document)):
            outline.feed(document[at : at + 1])
            assert outline.task_id == ("t" if b'"t"' in document[: at + 1] else None)
        assert (outline.context_id, outline.told.event) == ("c", "message")


def test_of_a_message_that_is_wrapped_its_ids_are_told() -> None:
    outline = outlined(b'{"jsonrpc":"2.0","id":1,"result":{"message":{"taskId":"t","contextId":"c","parts":[]}}}')
    assert (outline.task_id, outline.context_id, outline.state) == ("t", "c", None)


def test_what_is_nested_deeper_is_nobodys_id() -> None:
    for document in (
        b'{"result":{"tasks":[{"id":"t","contextId":"c","status":{"state":"working"}}],"nextPageToken":""}}',
        b'{"result":{"metadata":{"task":{"id":"t","status":{}}},"history":[{"taskId":"t"}]}}',
        b'{"result":{"task":{"task":{"id":"t"},"metadata":{"id":"t"},"status":{"message":{"contextId":"c"}}}}}',
        b'{"error":{"code":1,"id":"t","task":{"id":"t"}}}',
    ):
        outline = outlined(document)
        assert (outline.task_id, outline.context_id, outline.state) == (None, None, None)


@pytest.mark.parametrize("member", [b'"id":7', b'"id":{"x":"t"}', b'"contextId":["c"]', b'"task":[]', b'"taskId":{}'])
def test_what_is_no_id_in_its_place_cannot_be_told(member: bytes) -> None:
    outline = Outline(envelope=False)
    outline.feed(b'{"kind":"task","x":{},')
    before = outline.sighted
    outline.feed(member + b",")
    assert not outline.told.legible
    assert outline.sighted > before


def test_a_wrapper_in_capitals_beside_the_right_one_has_to_name_the_same() -> None:
    outline = Outline(envelope=False)
    outline.feed(b'{"task":{"id":"t","contextId":"c"},')
    assert (outline.task_id, outline.told.legible) == ("t", True)
    outline.feed(b'"Task":{"id":"u"')
    outline.feed(b',"contextId":"d"}}')
    assert not outline.told.legible


@pytest.mark.parametrize("member", [b'"Id":"u"', b'"ContextId":"d"', b'"TaskId":"u"'])
def test_an_id_in_capitals_has_to_be_the_one_that_is_spelled_right(member: bytes) -> None:
    outline = outlined(b'{"task":{"id":"t","contextId":"c",%b},"x":1}' % member, envelope=False)
    assert not outline.told.legible


@pytest.mark.parametrize("member", [b'"status":"working"', b'"status":[{}]', b'"sessionId":7', b'"kind":7'])
def test_any_other_member_of_another_type_changes_nothing(member: bytes) -> None:
    outline = outlined(b'{"id":"t","contextId":"c","x":{},' + member + b"}", envelope=False)
    assert (outline.task_id, outline.context_id, outline.told.legible) == ("t", "c", True)


@pytest.mark.parametrize("result", [b'[{"taskId":"t"}]', b'{"configs":[{"taskId":"t"}]}', b"[]"])
@pytest.mark.parametrize("envelope", [True, False])
def test_whose_a_list_is_cannot_be_told(result: bytes, *, envelope: bool) -> None:
    outline = outlined(b'{"id":1,"result":%b}' % result if envelope else result, envelope=envelope)
    assert not outline.told.legible
    assert (outline.task_id, outline.sighted) == (None, 1)


@pytest.mark.parametrize(
    "name", [b"id", b"taskId", b"contextId", b"sessionId", b"kind", b"status", b"task", b"message"]
)
@pytest.mark.parametrize("value", [b'"x"', b"null", b"{}", b"7"])
def test_no_member_that_tells_of_a_task_stands_twice(name: bytes, value: bytes) -> None:
    one = b'"' + name + b'":' + value
    escaped = b'"' + b"".join(b"\\u%04x" % letter for letter in name) + b'":' + value
    for twice in (one + b"," + one, one + b',"x":[{}],' + escaped):
        for document in (b'{"id":1,"result":{%b}}', b'{"id":1,"result":{"task":{%b}}}'):
            if name in (b"task", b"message") and b"task" in document:
                continue
            assert refusal(document % twice) == "a member stands twice"
        assert refusal(b"{%b}" % twice, envelope=False) == "a member stands twice"
    assert refusal(b'{"result":{"status":{"state":"x","x":{},"\\u0073tate":"x"}}}') == "a member stands twice"


@pytest.mark.parametrize(
    "path", sorted(VECTORS.glob("*Task*.json")) + sorted(VECTORS.glob("Send*.json")), ids=lambda path: path.stem
)
def test_the_answers_of_the_vectors_mean_the_same_when_they_are_outlined(path: Any) -> None:
    for dialect, answer in vector(path.stem).get("response", {}).items():
        if "http" not in answer or answer["http"].get("body") is None:
            continue
        body, envelope = json.dumps(answer["http"]["body"]).encode(), "jsonrpc" in dialect
        expected = whole(body, envelope=envelope)
        for size in (1, 7, len(body)):
            outline = outlined(*(body[at : at + size] for at in range(0, len(body), size)), envelope=envelope)
            if outline.told.legible:
                assert (outline.task_id, outline.context_id, outline.state) == expected
            else:
                assert path.stem in ("ListTasks", "ListTaskPushNotificationConfigs")


# ---- What is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        b'"text"', b"1", b"null", b"[]", b"\xef\xbb\xbf{}", '{"id":1}'.encode("utf-16"), b"\x1f\x8b\x08", b"<html>",
        b"{]", b"{,}", b'{"id"}', b'{"id":}', b'{"id":,}', b'{"id":1,}', b'{"id":1 2}', b'{"id":1}{}', b"{}x", b"[]]",
        b'{"a":1,,"b":2}', b'{"id":NaN}', b'{"id":nul}', b'{"id":01}', b'{"id"::1}', b'{"id":{}}', b'{"id":[1]}',
        b'{"jsonrpc":"1.0"}', b'{"jsonrpc":2.0}', b'{"error":"boom"}', b'{"error":[]}', b'{"a":\x0c1}', b"{1:2}",
        b'{"\\x":1}',
    ],
)  # fmt: skip
def test_what_is_no_document_is_refused(document: bytes) -> None:
    assert refusal(document)
    assert refusal(*(document[at : at + 1] for at in range(len(document))))


@pytest.mark.parametrize("document", [b"", b" ", b"{", b'{"id', b'{"id":1', b'{"id":1,', b'{"a":[1', b'{"a":"'])
def test_half_a_document_is_none(document: bytes) -> None:
    assert refusal(document) == "it breaks off"


@pytest.mark.parametrize("name", [b"id", b"result", b"error", b"jsonrpc"])
def test_no_member_of_the_envelope_stands_twice(name: bytes) -> None:
    value = {b"jsonrpc": b'"2.0"', b"error": b"null"}.get(name, b"1")
    one = b'"' + name + b'":' + value
    escaped = b'"\\u%04x' % name[0] + name[1:] + b'":' + value
    for twice in (one + b"," + one, one + b',"x":[{}],' + escaped):
        assert refusal(b"{" + twice + b"}") == "a member stands twice"


def test_a_value_that_is_kept_is_bounded() -> None:
    assert "too long" in refusal(b'{"id":"', *itertools.repeat(b"x" * 100, 100))
    assert refusal(b'{"x":' + b"1" * 2000)
    assert "too long" in refusal(b'{"result":{"id":' + b"1" * 9000 + b"}}")
    most = b",".join(b'"%d":1' % number for number in range(1000))
    assert not outlined(b'{"result":{%b}}' % most).failed
    assert "more than 1000" in refusal(b'{"result":{%b,"x":1}}' % most)
    assert "more than 64" in refusal(b"{" + b",".join(b'"%d":1' % number for number in range(100)) + b"}")


def test_an_id_that_no_ledger_keeps_is_nobodys() -> None:
    outline = Outline(envelope=False)
    outline.feed(b'{"contextId":"c","status":{},"id":"t","taskId":"')
    for _ in range(100):
        outline.feed(b"x" * 10_000)
    assert len(outline._kept) < 10_000
    outline.feed(b'"}')
    assert (outline.ended, outline.task_id, outline.context_id, outline.told.legible) == (True, None, "c", False)


def test_a_name_of_any_length_passes_and_is_not_kept() -> None:
    outline = Outline(envelope=True)
    outline.feed(b'{"')
    for _ in range(100):
        outline.feed(b"x" * 10_000)
    assert len(outline._kept) < 1000
    outline.feed(b'":1,"id":2}')
    assert outline.id == b"2"


# ---- Against a whole reading ---------------------------------------------------------------------------------------

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 10**6)
    | st.text(max_size=8)
    | st.sampled_from(['"', "\\", '\\"', "]}"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["id", "result", "x", "jsonrpc!", "\\", '"', "é"])
cuts = st.lists(st.integers(1, 9), max_size=40)


def cut(document: bytes, sizes: list[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(document[at : at + size])
        at += size
    return [*pieces, document[at:]]


@given(st.dictionaries(names, values, max_size=5), cuts, st.booleans())
@example({"x": "\\" * 9 + '"'}, [1] * 40, True)
def test_every_object_is_outlined_as_it_is(tree: dict[str, object], sizes: list[int], spaced: bool) -> None:  # noqa: FBT001 - drawn
    document = json.dumps(tree, ensure_ascii=False, indent=1 if spaced else None).encode()
    if isinstance(tree.get("id"), dict | list):
        assert refusal(*cut(document, sizes))
        return
    outline = outlined(*cut(document, sizes))
    found = None if outline.id is None else json.loads(outline.id)
    assert found == tree.get("id")
    assert ("result" in tree) == outline.answers_once()


names_told = ("id", "taskId", "contextId", "sessionId", "kind")
words = st.sampled_from(
    ["", "t", "c", "é", 'a"\\b', "task", "message", "status-update", "artifact-update", "completed"]
)
states = st.dictionaries(st.sampled_from(["state", "message", "x"]), words | st.none() | values, max_size=3)
statuses = st.none() | st.just("working") | states


def telling(*wrapped: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects in any order of their members, most of which are of the right type."""
    optional: dict[str, st.SearchStrategy[Any]] = dict.fromkeys(names_told, words | words | words | st.none() | values)
    optional |= {"status": statuses, "artifacts": values, "x": values}
    optional |= {name: telling() | telling() | st.none() | values for name in wrapped}
    if wrapped:
        optional["artifact"] = values
    return (
        st.fixed_dictionaries({}, optional=optional).flatmap(lambda tree: st.permutations(list(tree.items()))).map(dict)
    )


def whole(document: bytes, *, envelope: bool) -> tuple[str | None, str | None, str | None]:
    """What a document tells that is read whole."""
    told = progress.read_jsonrpc(document) if envelope else progress.read_bare(document)
    assert told is not None
    return told.task_id, told.context_id, told.state


@given(telling("task", "message", "statusUpdate", "artifactUpdate"), cuts, st.booleans(), st.booleans())
@example({"id": "t", "message": None}, [], True, True)
@example({"message": {"sessionId": ""}}, [], False, False)
@example({"message": {"contextId": "c"}}, [], False, False)
@example({"id": "t", "kind": "task"}, [], False, False)
@example({"taskId": "t", "contextId": None, "sessionId": "c"}, [], False, False)
def test_every_answer_tells_what_it_tells_when_it_is_read_whole(
    tree: dict[str, Any],
    sizes: list[int],
    envelope: bool,  # noqa: FBT001 - drawn
    spaced: bool,  # noqa: FBT001 - drawn
) -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": tree} if envelope else tree
    document = json.dumps(answer, ensure_ascii=False, indent=1 if spaced else None).encode()
    outline = outlined(*cut(document, sizes), envelope=envelope)
    assert (outline.task_id, outline.context_id, outline.state) == whole(document, envelope=envelope)


soup = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"id", b'"id"', b"1", b" ", b"null", b'"a":']),
    max_size=25,
).map(b"".join)


@given(soup, cuts)
def test_no_soup_is_read_in_two_ways(document: bytes, sizes: list[int]) -> None:
    try:
        members = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        members = None
    found: list[object] = []
    for pieces in ([document], cut(document, sizes), [document[at : at + 1] for at in range(len(document))]):
        try:
            found.append(outlined(*pieces).id)
        except UpstreamProtocol:
            found.append(UpstreamProtocol)
    assert len(set(map(repr, found))) == 1
    if members is not None and found[0] is not UpstreamProtocol:
        assert found[0] == (bytes(members["id"]) if "id" in members else None)


# ---- Bounds --------------------------------------------------------------------------------------------------------

FLOODS = {
    "one string": b"x",
    "escapes": b"\\\\",
    "half escapes": b"\\",
    "quotes in a list": b'"",',
    "nesting": b"[",
    "nesting and text": b'["a",{"b":"',
    "brackets": b"[],",
    "objects": b'{"id":"t"},',
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_endless_documents_take_little_memory_and_time(flood: bytes) -> None:
    opening = b'{"id":1,"result":"' if flood in (b"x", b"\\\\", b"\\") else b'{"id":1,"result":['
    piece = flood * (200_000 // len(flood))
    outline = Outline(envelope=True)
    outline.feed(opening)

    def feed() -> None:
        for _ in range(5):
            outline.feed(piece)

    tracemalloc.start()
    try:
        feed()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    # A megabyte; a byte at a time in Python would take a tenth of a second and more.
    assert cpu_seconds(feed) < 0.5
