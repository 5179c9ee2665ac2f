"""Names on certificates, and the patterns by which the file tells whose they are.

A name is cut into segments: a URI at its slashes, a DNS name at its dots, a common name not at all. A pattern is cut
likewise, and each of its segments is a text, or stands for any one segment (`*`, `{tenant}`). Nothing stands for a part
of a segment or for several, so that what a pattern fits is seen at once, and of two patterns it can be told whether one
is the narrower.
"""

import re
from dataclasses import dataclass
from typing import Self

from gateway.a2a.tenant import RESERVED
from gateway.config.value import NAME
from gateway.principal import ANONYMOUS_TENANT

LONGEST_NAME = 2048
"""Of a name that is looked at: SPIFFE ID §2.3."""

_ANY, _TENANT = "*", "{tenant}"
_CUTS = {"uri": "/", "dns": "."}
# RFC 3986 §3.3 without escapes, which one reader undoes and another does not; SPIFFE ID §2.2 allows less.
_SEGMENT = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._~!$&'()+,;=:@-]+")
# RFC 1123 §2.1, with the underscore that some have. A certificate's own wildcard is nobody's name.
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# RFC 5280 Appendix A.1, ub-common-name. What else is in it has to be visible.
_COMMON = re.compile(r".{1,64}")
_WHOLE = {"uri": _SEGMENT, "dns": _LABEL, "common_name": _COMMON}
_URI = re.compile(r"[a-z][a-z0-9+.-]*:[!-~]+")
_AUTHORITY = 3
"""Segments of a URI before its path: `scheme:`, nothing, and the authority."""


@dataclass(frozen=True, slots=True)
class ClientName:
    """One name on a certificate.

    Attributes:
        kind: One of `client.KINDS`.
    """

    kind: str
    text: str

    @property
    def subject(self) -> str:
        """As which its owner is known: the name itself, or `CN=…`, which no URI and no DNS name can be."""
        return f"CN={self.text}" if self.kind == "common_name" else self.text

    @property
    def segments(self) -> tuple[str, ...]:
        """What it is made of."""
        return _cut(self.kind, self.text)

    @classmethod
    def read(cls, subject: str) -> Self:
        """The name that has this subject."""
        if subject.startswith("CN="):
            return cls("common_name", subject.removeprefix("CN="))
        return cls("uri", subject) if ":" in subject else cls("dns", subject.lower())


@dataclass(frozen=True, slots=True)
class ClientPattern:
    """A pattern of names of one kind.

    Attributes:
        segments: Texts, or `*` and `{tenant}` for any one.
    """

    kind: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, kind: str, text: str) -> Self:
        """The pattern that the file writes.

        Raises:
            ValueError: it is none; with the fact, which goes on behind the pattern, and the remedy.
        """
        if kind == "dns":
            text = text.lower()
        segments = _cut(kind, text)
        for segment in segments:
            if segment not in (_ANY, _TENANT) and not {*"*{}"}.isdisjoint(segment):
                what = {"uri": "a whole segment of the path", "dns": "a whole label"}.get(kind, "the whole name")
                raise ValueError("has a wildcard that is a part of something", f"let * or {{tenant}} stand for {what}")
        if segments.count(_TENANT) > 1:
            raise ValueError("has two tenants", "write {tenant} once, and * for the other")
        _check(kind, text, segments)
        return cls(kind, segments)

    @property
    def fixed(self) -> tuple[int, ...]:
        """The numbers of the segments that are texts."""
        return tuple(number for number, each in enumerate(self.segments) if each not in (_ANY, _TENANT))

    @property
    def is_whole(self) -> bool:
        """Whether it fits one name only."""
        return _ANY not in self.segments and not self.has_tenant

    @property
    def has_tenant(self) -> bool:
        """Whether the tenant is a part of the names."""
        return _TENANT in self.segments

    def tenant_of(self, name: ClientName) -> str | None:
        """The tenant that a name has; empty where it fits and its tenant is not a part of it, None where it does not.

        What stands where the tenant does and can be none does not fit.
        """
        segments = name.segments
        if name.kind != self.kind or len(segments) != len(self.segments) or len(name.text) > LONGEST_NAME:
            return None
        whole, tenant = _WHOLE[self.kind], ""
        for wanted, found in zip(self.segments, segments, strict=True):
            if wanted == _TENANT:
                if NAME.fullmatch(found) is None or found in RESERVED or found == ANONYMOUS_TENANT:
                    return None
                tenant = found
            if wanted in (_ANY, _TENANT):
                if whole.fullmatch(found) is None or not found.isprintable():
                    return None
            elif wanted != found:
                return None
        return tenant

    def meets(self, other: "ClientPattern") -> bool:
        """Whether there may be a name that both fit."""
        return (self.kind, len(self.segments)) == (other.kind, len(other.segments)) and all(
            one == another or one in (_ANY, _TENANT) or another in (_ANY, _TENANT)
            for one, another in zip(self.segments, other.segments, strict=True)
        )

    def is_narrower(self, other: "ClientPattern") -> bool:
        """Whether it fits less than another: every name that it fits that one does too, and not the other way round."""
        if not self.meets(other):
            return False
        pairs = [
            (one in (_ANY, _TENANT), another in (_ANY, _TENANT))
            for one, another in zip(self.segments, other.segments, strict=True)
        ]
        return all(another or not one for one, another in pairs) and any(another and not one for one, another in pairs)


def _cut(kind: str, text: str) -> tuple[str, ...]:
    return tuple(text.split(_CUTS[kind])) if kind in _CUTS else (text,)


def _check(kind: str, text: str, segments: tuple[str, ...]) -> None:
    """See that there are names that it fits.

    Raises:
        ValueError: as `ClientPattern.parse`.
    """
    if len(text) > LONGEST_NAME:
        raise ValueError("is too long for a name", f"write at most {LONGEST_NAME} characters")
    if kind == "uri":
        if _URI.fullmatch(text) is None:
            raise ValueError("is no URI", "write it whole, as in spiffe://mesh.example/ns/{tenant}/sa/*")
        if not {_ANY, _TENANT}.isdisjoint(segments[:_AUTHORITY]):
            raise ValueError("has a wildcard before its path", "write scheme and authority; wildcards are for the path")
    elif kind == "dns":
        if any(segment not in (_ANY, _TENANT) and _LABEL.fullmatch(segment) is None for segment in segments):
            raise ValueError("is no DNS name", "write it whole, as in batch.acme.example or *.acme.example")
        if segments[-1] in (_ANY, _TENANT):
            raise ValueError("leaves its domain open", "write the domain: wildcards are for the labels before it")
    elif _COMMON.fullmatch(text) is None or not text.isprintable():
        raise ValueError("is no common name", "write 1 to 64 visible characters")
