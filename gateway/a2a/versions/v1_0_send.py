"""Whether a send of 1.0 is right as it stands, so that its bytes may move to another envelope without being read.

One pass of a typed decoder over what has to be of a type. A message that is not certain to be right is no wrong one:
it may be spelled otherwise, as ProtoJSON allows, and who asked reads it member by member then (`v1_0`).
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from gateway.a2a.json import Members


class _Part(msgspec.Struct):
    text: str | UnsetType = UNSET
    raw: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    data: Raw | UnsetType = UNSET
    metadata: dict[str, Raw] | UnsetType = UNSET
    mediaType: str | UnsetType = UNSET  # noqa: N815 - the member's name
    filename: str | UnsetType = UNSET


class _Configuration(msgspec.Struct):
    acceptedOutputModes: list[str] | UnsetType = UNSET  # noqa: N815 - as above
    historyLength: Annotated[int, Meta(ge=0, lt=2**31)] | UnsetType = UNSET  # noqa: N815 - as above
    returnImmediately: bool | UnsetType = UNSET  # noqa: N815 - as above


_parts = msgspec.json.Decoder(Annotated[list[_Part], Meta(min_length=1)])
_configuration = msgspec.json.Decoder(_Configuration)
_texts = msgspec.json.Decoder(list[str])
_text = msgspec.json.Decoder(str)
_object = msgspec.json.Decoder(dict[str, Raw])
_ROLES = (Raw(b'"ROLE_USER"'), Raw(b'"ROLE_AGENT"'))
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "messageId": _text, "contextId": _text, "taskId": _text, "metadata": _object, "extensions": _texts,
    "referenceTaskIds": _texts,
}  # fmt: skip
# The same under the names of their definition, which ProtoJSON allows as well.
_TWINS = frozenset({
    "message_id", "context_id", "task_id", "reference_task_ids", "media_type", "accepted_output_modes",
    "history_length", "return_immediately", "task_push_notification_config", "taskPushNotificationConfig",
})  # fmt: skip


def is_right(members: Members, message: Members) -> bool:
    """Whether the parameters of a send are certain to be right.

    Args:
        members: Those of the parameters.
        message: Those of the message.
    """
    try:
        if message.get("role") not in _ROLES or message["messageId"] == _EMPTY or not _TWINS.isdisjoint(message):
            return False
        for part in _parts.decode(message["parts"]):
            contents = (part.text is not UNSET) + (part.raw is not UNSET) + (part.url is not UNSET)
            if contents + (part.data is not UNSET) != 1:
                return False
        for name, decoder in _DECODERS.items():
            if name in message:
                decoder.decode(message[name])
        if "metadata" in members:
            _object.decode(members["metadata"])
        if "configuration" in members:
            _configuration.decode(members["configuration"])
            return _TWINS.isdisjoint(_object.decode(members["configuration"]))
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return "message" in members


_EMPTY = Raw(b'""')
