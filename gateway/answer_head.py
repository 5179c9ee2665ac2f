"""What an agent says in the head of its answer, and what of that goes to the client."""

import msgspec

from gateway.a2a.headers import TO_CLIENT, Pairs, is_event_stream, is_json, media_type, pass_on
from gateway.upstream.page import only_type
from gateway.upstream.response import Response

_TO_CLIENT = TO_CLIENT - {b"content-type", b"x-accel-buffering"}
OWN = (b"cache-control", b"no-store")
"""An answer belongs to its caller: what the agent says of caching it knows nothing of who else asks here."""


class AnswerHead(msgspec.Struct, frozen=True, eq=False):
    """What an agent says in the head of its answer.

    Attributes:
        streams: Whether the body is a stream of events.
        json: The media type of the body where it is some JSON: what it was read as, so that no charset and no second
            type make the client read something else.
        passed: The headers that go to the client as they are.
        json_headers: The headers of an answer whose body is JSON, but for the request's id.
    """

    content_type: bytes | None
    streams: bool
    json: bytes | None
    passed: Pairs
    json_headers: Pairs


def answer_head(response: Response) -> AnswerHead:
    """What its head says; worked out once as long as the agent says the same.

    Raises:
        UpstreamProtocol: it is of two types.
    """
    known = response.known
    said = None if known is None else known.get(AnswerHead)
    if isinstance(said, AnswerHead):
        return said
    content_type = only_type(response)
    media = media_type(content_type)
    json = media if is_json(media) else None
    passed = pass_on(response.headers, _TO_CLIENT)
    said = AnswerHead(
        content_type,
        is_event_stream(content_type),
        json,
        passed,
        [*passed, (b"content-type", json or b"application/json"), OWN],
    )
    if known is not None:
        known[AnswerHead] = said
    return said
