"""Messages and parts of A2A 0.1, and what the hub says that they have no word for.

Some of what 0.1 has no word for is kept in an object's `metadata` and read back from there:

- of a message `message_id_compat` (towards agents, which give the message back as history), `extensions_compat` and
  `reference_task_ids_compat`;
- of an artifact `extensions_compat`;
- of a text or data part `media_type_compat` and `filename_compat`, as towards 0.3;
- of a data part `data_part_compat`: its `data` is `{"value": ...}` round what is no object, as SDKs write it to 0.3.

Ids of tasks and contexts are never read from there. Messages of an agent that have no id get one from what they say, so
that a message has the same one in an event, in a later task, and however much of the history is told.

A name that means nothing here and something in 1.0 is left out, never passed on unread, and the other way round.
"""

from hashlib import blake2b

import msgspec

from gateway.a2a.json import Tree
from gateway.a2a.versions.foreign import drop, foreign
from gateway.a2a.versions.reading import (
    Members,
    Walk,
    check,
    each,
    expect_object,
    expect_text,
    inside,
    require_list,
    require_object,
    require_text,
)
from gateway.a2a.versions.version import Misfit

DATA_PART_COMPAT = "data_part_compat"
KEPT_ID = "message_id_compat"
KEPT_OF_ARTIFACTS = (("extensions_compat", "extensions"),)
KEPT_OF_MESSAGES = (*KEPT_OF_ARTIFACTS, ("reference_task_ids_compat", "referenceTaskIds"))
KEPT_OF_PARTS = (("media_type_compat", "mediaType"), ("filename_compat", "filename"))

_ROLES_UP = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}
_ROLES_DOWN = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
_FOREIGN_TO_MESSAGES = foreign("kind", "messageId", "taskId", "contextId", "extensions", "referenceTaskIds", "content")
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def lift_sent_message(message: Tree) -> Tree:
    """A client's message; without a `messageId` unless it brings one.

    Raises:
        Misfit: it is not what 0.1 says.
    """
    return _lift_message(message, lift_sent_part)


def lift_heard_message(message: Tree, task_id: str, context_id: str) -> Tree:
    """A message of an agent's answer.

    Raises:
        Misfit: it is not what 0.1 says.
    """
    _lift_message(message, lift_heard_part)
    if "messageId" not in message:
        said = _ENCODER.encode((task_id, message["role"], message["parts"]))
        message["messageId"] = blake2b(said, digest_size=16).hexdigest()
    message["taskId"] = task_id
    message["contextId"] = context_id
    return message


def _lift_message(message: Tree, walk: Walk) -> Tree:
    role = _ROLES_UP.get(require_text(message, "role"))
    if role is None:
        raise Misfit("role", "must be user or agent")
    message["role"] = role
    require_list(message, "parts")
    each(message, "parts", walk)
    expect_object(message, "metadata")
    own = message.get("messageId")
    drop(message, _FOREIGN_TO_MESSAGES)
    metadata = message.get("metadata")
    if metadata:
        if KEPT_ID in metadata:
            own = metadata.pop(KEPT_ID)
        take_back(message, KEPT_OF_MESSAGES)
    if type(own) is str and own:
        message["messageId"] = own
    return message


def lower_message(message: Tree, default: str, *, names: bool = False) -> Tree:
    """A Message, as 0.1 has it: role, parts and metadata.

    Args:
        default: Its role where it has none.
        names: Whether the message is to come back under its `messageId`.
    """
    if names and message.get("messageId"):
        _put(message, KEPT_ID, message["messageId"])
    keep(message, KEPT_OF_MESSAGES)
    drop(message, _FOREIGN_TO_MESSAGES)
    message["role"] = _ROLES_DOWN.get(message.get("role") or "", default)
    message["parts"] = parts = message.get("parts") or []
    for part in parts:
        lower_part(part)
    return message


def keep(tree: Tree, names: tuple[tuple[str, str], ...]) -> None:
    """Put members that 0.1 does not have into the metadata.

    Args:
        names: What each is called there, and here.
    """
    for kept, name in names:
        value = tree.get(name)
        if value:
            _put(tree, kept, value)


def _put(tree: Tree, name: str, value: object) -> None:
    metadata = tree.get("metadata")
    if metadata is None:
        tree["metadata"] = {name: value}
    else:
        metadata[name] = value


def take_back(tree: Tree, names: tuple[tuple[str, str], ...]) -> None:
    """Put lists of strings that `keep` has put into the metadata back where they were."""
    metadata = tree.get("metadata")
    if metadata is None:
        return
    for kept, name in names:
        values = metadata.get(kept)
        # Whoever held it may have changed it.
        if type(values) is list and all(type(value) is str for value in values):
            tree[name] = metadata.pop(kept)
    if not metadata:
        del tree["metadata"]


# ---- Parts ---------------------------------------------------------------------------------------------------------

_CONTENTS = ("text", "file", "data")


def lift_sent_part(part: Tree) -> Tree:
    """A part of a client's message, which must say what it is.

    Raises:
        Misfit: it is not what 0.1 says.
    """
    return _lift_part(part, _kind(part))


def lift_heard_part(part: Tree) -> Tree:
    """A part of an agent's, which some send without saying what it is.

    Raises:
        Misfit: it is not what 0.1 says.
    """
    kind = _kind(part)
    if kind is None:
        kind = next((content for content in _CONTENTS if part.get(content) is not None), None)
    return _lift_part(part, kind)


def _kind(part: Tree) -> str | None:
    # `kind` is 0.2's word for it, met in both.
    kind = expect_text(part, "type") or expect_text(part, "kind")
    drop(part, _TAGS)
    return kind


def _lift_part(part: Tree, kind: str | None) -> Tree:
    if kind == "text":
        # Nearly all that is ever sent.
        if len(part) != 1 or type(part.get("text")) is not str:
            require_text(part, "text")
            drop(part, _FOREIGN_TO_TEXT)
            _take_back_texts(part)
    elif kind == "file":
        drop(part, _FOREIGN_TO_FILE)
        expect_object(part, "metadata")
        require_object(part, "file")
        inside(part, "file", _check_file)
        _lift_file(part, part.pop("file"))
    elif kind == "data":
        drop(part, _FOREIGN_TO_DATA)
        data = require_object(part, "data")
        metadata = expect_object(part, "metadata")
        if metadata and metadata.get(DATA_PART_COMPAT) is True and data.keys() == _WRAPPED:
            part["data"] = data["value"]
            del metadata[DATA_PART_COMPAT]
        _take_back_texts(part)
    else:
        raise Misfit("type", "is required: text, file or data" if kind is None else "must be text, file or data")
    return part


def _take_back_texts(part: Tree) -> None:
    metadata = expect_object(part, "metadata")
    if metadata is None:
        return
    for kept, name in KEPT_OF_PARTS:
        if type(metadata.get(kept)) is str:
            part[name] = metadata.pop(kept)
    if not metadata:
        del part["metadata"]


_WRAPPED = {"value"}
_TAGS = frozenset({"type", "kind"})
_OTHERS = _TAGS | foreign("raw", "url", "filename", "mediaType")
_FOREIGN_TO_TEXT = _OTHERS | {"data", "file"}
_FOREIGN_TO_FILE = _OTHERS | {"text", "data"}
_FOREIGN_TO_DATA = _OTHERS | {"text", "file"}
_FILE: Members = {"name": str, "mimeType": str, "bytes": str, "uri": str}


def _check_file(file: Tree) -> Tree:
    check(file, _FILE)
    content, uri = file.get("bytes"), file.get("uri")
    if content and uri:
        raise Misfit("", "must have bytes or a uri, not both")
    if content is None and uri is None:
        raise Misfit("", "must have bytes or a uri")
    return file


def _lift_file(part: Tree, file: Tree) -> None:
    # Samples of the time write out what is empty beside what is not.
    if file.get("uri"):
        part["url"] = file["uri"]
    elif "bytes" in file:
        part["raw"] = file["bytes"]
    else:
        part["url"] = ""
    if file.get("name"):
        part["filename"] = file["name"]
    if file.get("mimeType"):
        part["mediaType"] = file["mimeType"]


def lower_part(part: Tree) -> Tree:
    """A Part, as 0.1 has it: tagged by `type`."""
    if len(part) == 1 and type(part.get("text")) is str:
        part["type"] = "text"
    elif part.get("text") is not None:
        keep(part, KEPT_OF_PARTS)
        drop(part, _FOREIGN_TO_TEXT)
        part["type"] = "text"
    elif part.get("raw") is not None:
        _lower_file(part, "bytes", part["raw"])
    elif part.get("url") is not None:
        _lower_file(part, "uri", part["url"])
    elif "data" in part:
        keep(part, KEPT_OF_PARTS)
        drop(part, _FOREIGN_TO_DATA)
        part["type"] = "data"
        if type(part["data"]) is not dict:
            part["data"] = {"value": part["data"]}
            _put(part, DATA_PART_COMPAT, value=True)
    else:
        keep(part, KEPT_OF_PARTS)
        drop(part, _FOREIGN_TO_TEXT)
        part["type"] = "text"
        part["text"] = ""
    return part


def _lower_file(part: Tree, name: str, content: str) -> None:
    file: Tree = {}
    if part.get("filename"):
        file["name"] = part["filename"]
    if part.get("mediaType"):
        file["mimeType"] = part["mediaType"]
    file[name] = content
    drop(part, _FOREIGN_TO_FILE)
    part["type"] = "file"
    part["file"] = file


def require_id(tree: Tree, name: str) -> str:
    """An id, which must be there and say something.

    Raises:
        Misfit: it is missing, empty, or no string.
    """
    value = require_text(tree, name)
    if not value:
        raise Misfit(name, "must not be empty")
    return value
