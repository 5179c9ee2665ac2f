"""The texts of agents' cards as pages show and search them, made once per version of a card.

Cards are another party's: a text here has no half of a surrogate pair, which has no bytes, and no character that turns
the direction of the text behind it, and so could make a name look like another.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gateway.a2a.sanitized_card import SanitizedCard


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill of a card."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CardText:
    """The texts of one card.

    Attributes:
        words: All that is searched, without case.
    """

    title: str = ""
    description: str = ""
    skills: tuple[Skill, ...] = ()
    skill_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    words: str = ""

    @classmethod
    def of(cls, sanitized: SanitizedCard) -> "CardText":
        """Return the texts of a card."""
        title, description, skills = _text(sanitized.name), _text(sanitized.description), tuple(_skills(sanitized))
        words = [title, description]
        for skill in skills:
            words += (skill.id, skill.name, skill.description, *skill.tags)
        return cls(
            title,
            description,
            skills,
            tuple(dict.fromkeys(skill.id for skill in skills)),
            tuple(dict.fromkeys(tag for skill in skills for tag in skill.tags)),
            "\n".join(words).casefold(),
        )


NO_TEXT = CardText()


class VersionedCard(Protocol):
    """A card and its version, as `cards.fetch.CardSource` has them."""

    @property
    def sanitized(self) -> SanitizedCard | None:
        """The sanitized card, or None."""

    @property
    def version(self) -> int:
        """Grows with each change."""


class CardTexts:
    """The texts of the cards of one snapshot, by backend."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, CardText]] = {}

    def of(self, backend: str, card: VersionedCard) -> CardText:
        """Return the texts of a backend's card; empty ones where there is none."""
        known = self._known.get(backend)
        if known is not None and known[0] == card.version:
            return known[1]
        version, sanitized = card.version, card.sanitized
        text = NO_TEXT if sanitized is None else CardText.of(sanitized)
        self._known[backend] = version, text
        return text


def _skills(sanitized: SanitizedCard) -> Iterator[Skill]:
    """Yield the skills of a card; members of a wrong type count as missing."""
    for skill in sanitized.skills:
        name = _text(skill.get("id"))
        yield Skill(
            name,
            _text(skill.get("name")) or name,
            _text(skill.get("description")),
            tuple(_texts(skill.get("tags"))),
            tuple(_texts(skill.get("examples"))),
        )


def _text(value: object) -> str:
    if not isinstance(value, str):
        return ""
    return value if value.isascii() else value.translate(_TURNS).encode("utf-8", "replace").decode("utf-8")


def _texts(value: object) -> list[str]:
    return [_text(each) for each in value if isinstance(each, str)] if isinstance(value, list | tuple) else []


_TURNS = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)))
