"""The cache of a reply: what is worked out from its headers, kept for the next reply with the same ones."""

import msgspec

from gateway.a2a.headers import Pairs


class ReplyHead(msgspec.Struct, frozen=True, eq=False):
    """The headers of a reply as clients get them.

    Attributes:
        content_type: As the agent wrote it.
        is_stream: As `Reply.is_stream`.
        passed: The headers that every answer made of this reply has, but for the request id.
        json_headers: The headers of an answer whose body is this reply's JSON, but for the request id.
    """

    content_type: bytes | None
    is_stream: bool
    passed: Pairs
    json_headers: Pairs


class ReplyCache(msgspec.Struct, eq=False):
    """The cache that replies of one agent with the same headers share.

    Attributes:
        head: None until a reply is delivered.
    """

    head: ReplyHead | None = None
