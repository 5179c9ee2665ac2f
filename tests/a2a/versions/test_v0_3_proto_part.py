"""Parts in three spellings, and bytes that were encoded once or twice."""

from base64 import b64decode, b64encode, urlsafe_b64encode
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.versions.v0_3_proto import FORM
from gateway.a2a.versions.version import Memo, Misfit
from tests.table import for_each

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def lifted(part: Tree) -> Tree:
    message = {"messageId": "m", "role": "ROLE_USER", "content": [deepcopy(part)]}
    found: Tree = FORM.lift_params(Operation.SEND_MESSAGE, {"message": message}, Memo())["message"]["parts"][0]
    return found


def text(raw: bytes) -> str:
    return b64encode(raw).decode()


@for_each(
    ("said", "meant"),
    [
        ({"text": ""}, {"text": ""}),
        ({"kind": "text", "text": "a"}, {"text": "a"}),
        ({"text": "a", "file": None, "metadata": {"k": 1}}, {"text": "a", "metadata": {"k": 1}}),
        ({"text": "a", "metadata": {"media_type_compat": "b"}}, {"text": "a", "mediaType": "b"}),
        ({"file": {"fileWithUri": "u", "mimeType": "m", "name": "n"}}, {"url": "u", "mediaType": "m", "filename": "n"}),
        ({"file": {"file_with_uri": "u", "mime_type": "m", "name": ""}}, {"url": "u", "mediaType": "m"}),
        ({"kind": "file", "file": {"uri": "u", "mimeType": "m"}}, {"url": "u", "mediaType": "m"}),
        ({"kind": "file", "file": {"bytes": "AP8="}}, {"raw": "AP8="}),
        ({"file": {"fileWithBytes": "AP8="}}, {"raw": "AP8="}),
        ({"file": {"file_with_bytes": "QVA4PQ=="}}, {"raw": "AP8="}),
        ({"file": {"fileWithBytes": "", "file_with_uri": None}}, {"raw": ""}),
        ({"data": {"data": {"a": None}}}, {"data": {"a": None}}),
        ({"data": {"data": {"data": {}}}}, {"data": {"data": {}}}),
        ({"data": {"data": None}}, {"data": {}}),
        ({"data": {}}, {"data": {}}),
        ({"data": {"a": 1}}, {"data": {"a": 1}}),
        ({"kind": "data", "data": {"a": 1}}, {"data": {"a": 1}}),
        ({"kind": "data", "data": {"data": {"a": 1}}}, {"data": {"data": {"a": 1}}}),
        ({"kind": "data", "data": {"data": 1, "a": 1}}, {"data": {"data": 1, "a": 1}}),
        ({"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": True}}, {"data": [1]}),
        (
            {"kind": "data", "data": {"value": None}, "metadata": {"data_part_compat": True, "k": 1}},
            {"data": None, "metadata": {"k": 1}},
        ),
        (
            {"data": {"data": {"value": 1, "more": 2}}, "metadata": {"data_part_compat": True}},
            {"data": {"value": 1, "more": 2}, "metadata": {"data_part_compat": True}},
        ),
        ({"raw": "AP8", "mediaType": "m"}, {"raw": "AP8=", "mediaType": "m"}),
    ],
)
def test_a_part_is_lifted_in_any_spelling(said: Tree, meant: Tree) -> None:
    assert lifted(said) == meant


@for_each(
    ("said", "field"),
    [
        ({}, ""),
        ({"metadata": {}}, ""),
        ({"text": "a", "data": {"data": {}}}, ""),
        ({"text": "a", "url": "u"}, ""),
        ({"text": "a", "file": {"uri": "u"}}, ""),
        ({"file": {"uri": "u"}, "raw": ""}, ""),
        ({"text": 1}, "text"),
        ({"kind": 1, "text": "a"}, "kind"),
        ({"kind": "data", "text": "a"}, "kind"),
        ({"kind": "text", "file": {"uri": "u"}}, "kind"),
        ({"file": "u"}, "file"),
        ({"file": {}}, "file"),
        ({"file": {"uri": "u", "fileWithBytes": ""}}, "file"),
        ({"file": {"fileWithUri": "u", "file_with_uri": "v"}}, "file.file_with_uri"),
        ({"file": {"fileWithBytes": "AP8=", "bytes": "AP8A"}}, "file.bytes"),
        ({"file": {"fileWithBytes": "no base64"}}, "file.fileWithBytes"),
        ({"file": {"bytes": "A"}}, "file.bytes"),
        ({"file": {"bytes": "=AP8"}}, "file.bytes"),
        ({"file": {"bytes": "AP8=AP8="}}, "file.bytes"),
        ({"file": {"bytes": "\u00e4\u00e4\u00e4\u00e4"}}, "file.bytes"),
        ({"file": {"bytes": 7}}, "file.bytes"),
        ({"data": [1]}, "data"),
        ({"data": {"data": 1}}, "data.data"),
        ({"data": {"data": {}, "more": 1}}, "data"),
        ({"text": "a", "metadata": []}, "metadata"),
    ],
)
def test_a_part_that_is_none_is_a_misfit_that_names_the_place(said: Tree, field: str) -> None:
    with pytest.raises(Misfit) as caught:
        lifted(said)
    assert caught.value.field == f"message.content[0].{field}".removesuffix(".")


@for_each("spelling", ["fileWithBytes", "file_with_bytes", "bytes"])
@for_each("written", [text(PNG), text(PNG).rstrip("="), urlsafe_b64encode(PNG).decode()])
def test_bytes_end_in_the_standard_alphabet_and_padded(spelling: str, written: str) -> None:
    assert lifted({"file": {spelling: written}}) == {"raw": text(PNG)}


@for_each("written", ["AP9=", "AP9", "AP-", "AP+"])
def test_stray_bits_behind_the_last_byte_are_cleared(written: str) -> None:
    raw = lifted({"file": {"bytes": written}})["raw"]
    assert raw == text(b64decode(raw))
    assert b64decode(raw) == b64decode(written.replace("-", "+").rstrip("=") + "=")


@given(st.binary())
def test_bytes_that_were_encoded_twice_are_lifted_as_they_were(raw: bytes) -> None:
    assert lifted({"file": {"fileWithBytes": text(text(raw).encode())}}) == {"raw": text(raw)}


@given(st.binary().filter(lambda raw: len(raw) % 4 or not raw.isascii()))
def test_bytes_that_were_encoded_once_are_lifted_as_they_were(raw: bytes) -> None:
    assert lifted({"file": {"fileWithBytes": text(raw)}}) == {"raw": text(raw)}


def test_base64_with_stray_bits_is_no_second_encoding() -> None:
    # No encoder writes it, so it is what the file holds.
    assert lifted({"file": {"fileWithBytes": text(b"AP9=")}}) == {"raw": text(b"AP9=")}


def test_a_file_of_base64_text_is_taken_for_one_encoded_twice() -> None:
    # The known price: nothing tells these apart (protocol §10.3).
    assert lifted({"file": {"fileWithBytes": text(b"word")}}) == {"raw": "word"}


def test_bytes_of_json_rpc_are_never_decoded_twice() -> None:
    assert lifted({"kind": "file", "file": {"bytes": text(b"word")}}) == {"raw": text(b"word")}


@given(st.recursive(st.none() | st.text(max_size=4) | st.integers(), lambda inner: st.dictionaries(st.sampled_from(
    ["kind", "text", "file", "data", "metadata", "bytes", "fileWithBytes", "uri", "value", "data_part_compat", "raw"],
), inner, max_size=4), max_leaves=8))  # fmt: skip
def test_whatever_comes_is_one_content_or_a_misfit(tree: Any) -> None:
    try:
        part = lifted(tree if isinstance(tree, dict) else {"text": tree})
    except Misfit:
        return
    assert len(part.keys() & {"text", "raw", "url", "data"}) == 1
    assert not part.keys() & {"kind", "file"}
