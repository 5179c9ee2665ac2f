"""How an agent on stdio shows that it is there, and who it is: it gives its card.

There is no well-known path on a pipe, and no method for the public card. So the extended card is asked for, in 1.0 and
then in 0.3; or a method that the file names; or the agent prints its card before anything else. Any answer shows that
somebody reads; an error that is no "method not found" also shows the generation.
"""

from dataclasses import dataclass

import msgspec

from gateway.a2a.bindings.stdio import hear
from gateway.a2a.dialect import Version
from gateway.a2a.progress import read_jsonrpc
from gateway.upstream.stdio_link import Link

EXTENDED = "extended"
PRINTED = "printed"
NONE = "none"
_METHODS = {Version.V1_0: "GetExtendedAgentCard", Version.V0_3: "agent/getAuthenticatedExtendedCard"}
_UNKNOWN = frozenset({-32601, -32600, -32700})
_NULL = msgspec.Raw(b"null")


@dataclass(frozen=True, slots=True)
class Introduction:
    """What an agent told of itself.

    Attributes:
        card: Its bytes, or None where it gave none.
        versions: The generations that it answered to, beside what the card says.
    """

    card: bytes | None = None
    versions: tuple[Version, ...] = ()


@dataclass(frozen=True, slots=True)
class Manner:
    """How an agent is asked for its card; processes go on where it changes.

    Attributes:
        version: The generation that the file writes, or None.
        lines: Header fields that go with each question but the version, from `header_lines`.
    """

    version: Version | None = None
    lines: bytes = b""


MANNER = Manner()


async def introduce(link: Link, card: str, manner: Manner, seconds: float) -> Introduction:
    """Have an agent introduce itself.

    Args:
        card: `extended`, `none`, or a method.
        seconds: For each question.

    Raises:
        UpstreamTimeout: it does not answer.
        UpstreamReset, NoHealthyBackend, Overloaded: it ended.
    """
    if card == NONE:
        return Introduction()
    if card != EXTENDED:
        version = manner.version or Version.V1_0
        answer = await link.request(card, _lines(manner, version), version, seconds)
        return Introduction(_card(answer))
    asked = (Version.V1_0, Version.V0_3) if manner.version is None else (manner.version,)
    versions: list[Version] = []
    for version in asked:
        # 0.1 has no such method; whatever it answers shows that it is there.
        method = _METHODS.get(version, _METHODS[Version.V0_3])
        answer = await link.request(method, _lines(manner, version), version, seconds)
        told = read_jsonrpc(answer)
        if told is not None and (told.error is None or told.error not in _UNKNOWN):
            versions.append(version)
        told_card = _card(answer)
        if told_card is not None:
            return Introduction(told_card, tuple(versions))
    return Introduction(None, tuple(versions))


def _lines(manner: Manner, version: Version) -> bytes:
    return manner.lines + b"a2a-version: %b\r\n" % version.encode("ascii")


def _card(answer: bytes) -> bytes | None:
    heard = hear(answer)
    result = _NULL if heard is None else heard.members.get("result", _NULL)
    return None if result == _NULL else bytes(result)
