"""Parts of A2A 0.3 over HTTP+JSON, lifted from any spelling; see `v0_3_proto_spelling`."""

from binascii import Error, a2b_base64, b2a_base64

from gateway.a2a.tree import Tree
from gateway.a2a.versions.shape import ID, OBJECT, TEXT, Field, Shape, choose, shape, within
from gateway.a2a.versions.v0_3_object import DATA_PART_COMPAT, KEPT_OF_PARTS
from gateway.a2a.versions.version import Memo, Misfit

# ---- Bytes -----------------------------------------------------------------------------------------------------------

_URL_SAFE = str.maketrans("-_", "+/")


def _bytes(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every `Read`
    """Base64 of either alphabet, padded or not, as the hub writes it: the standard alphabet, padded."""
    return _decoded(value)[0]


def _doubled(value: str, memo: Memo) -> str:  # noqa: ARG001 - as every `Read`
    """The same, or what it encodes where that is base64 again.

    All SDKs but one put the base64 text of a file into `file_with_bytes`, so that ProtoJSON encodes it twice (protocol
    §10.3). A file that is base64 text itself, as many a tiny one is by chance, is taken for such a one.
    """
    text, inner = _decoded(value)
    if len(inner) % 4 == 0:
        try:
            a2b_base64(inner, strict_mode=True)
        except Error:
            return text
        written = inner.decode("ascii")
        if _canonical(written) == written:
            return written
    return text


def _decoded(text: str) -> tuple[str, bytes]:
    if "-" in text or "_" in text:
        text = text.translate(_URL_SAFE)
    text += "=" * (-len(text) % 4)
    try:
        inner = a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise Misfit("", "must be base64") from error
    return _canonical(text), inner


def _canonical(text: str) -> str:
    """Base64 without stray bits: only the last character before a padding has room for some."""
    if not text.endswith("="):
        return text
    return text[:-4] + b2a_base64(a2b_base64(text[-4:]), newline=False).decode("ascii")


_BYTES = Field(str, "must be a string of base64", _bytes)
_DOUBLED = Field(str, "must be a string of base64", _doubled, name="raw")

# ---- Parts -----------------------------------------------------------------------------------------------------------

_KINDS = {"text": "text", "file": "file", "raw": "file", "url": "file", "data": "data"}


def _finish_part(part: Tree, memo: Memo) -> None:  # noqa: ARG001 - as every finish
    kind = part.pop("kind", None)
    if len(part) == 1 and "text" in part and kind in (None, "text"):
        # Nearly all that is ever sent.
        return
    choose(part, *_KINDS)
    content = next(name for name in _KINDS if name in part)
    if kind not in (None, _KINDS[content]):
        raise Misfit("kind", f"must be {_KINDS[content]}, which is what the part holds")
    if content == "file":
        # The object dissolves in the part, and nothing else of it could have a place there.
        file = part.pop("file")
        part.update({name: file[name] for name in ("raw", "url", "mediaType", "filename") if name in file})
    elif content == "data" and kind is None:
        _unwrap(part)
    metadata = part.get("metadata")
    if metadata and content in ("text", "data"):
        _restore(part, metadata)


def _unwrap(part: Tree) -> None:
    """Take the data out of the `DataPart` that the proto has around it, which JSON-RPC has not."""
    data = part["data"]
    inner = data.get("data")
    if "data" not in data:
        return
    if len(data) > 1:
        raise Misfit("data", "must have the one member data, or the part must say its kind")
    if type(inner) is not dict and inner is not None:
        raise Misfit("data.data", "must be an object")
    part["data"] = inner or {}


def _restore(part: Tree, metadata: Tree) -> None:
    """Put in place what lowering keeps in the metadata."""
    data = part.get("data")
    if metadata.get(DATA_PART_COMPAT) is True and type(data) is dict and len(data) == 1 and "value" in data:
        del metadata[DATA_PART_COMPAT]
        part["data"] = data["value"]
    for kept, name in KEPT_OF_PARTS:
        if type(metadata.get(kept)) is str:
            part[name] = metadata.pop(kept)
    if not metadata:
        del part["metadata"]


_FILE = shape(
    {"raw": _BYTES, "url": TEXT, "mediaType": ID, "filename": ID},
    lambda file, _: choose(file, "raw", "url"),
    bytes="raw",
    uri="url",
    fileWithUri="url",
    mimeType="mediaType",
    name="filename",
)
_FILE = Shape({**_FILE.fields, "fileWithBytes": _DOUBLED, "file_with_bytes": _DOUBLED}, _FILE.finish)
PART = shape(
    {
        "kind": TEXT,
        "text": TEXT,
        "file": within(_FILE),
        "data": OBJECT,
        "raw": _BYTES,
        "url": TEXT,
        "mediaType": ID,
        "filename": ID,
        "metadata": OBJECT,
    },
    _finish_part,
)
"""A part, which ends as the hub has it."""
