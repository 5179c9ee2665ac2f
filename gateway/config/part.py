"""A mapping of the file."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of the file: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, use_attribute_docstrings=True)


def every_part() -> tuple[type[Part], ...]:
    """The mappings that are known so far, those that extend others among them."""
    found: list[type[Part]] = [Part]
    for part in found:
        found += part.__subclasses__()
    return tuple(found[1:])
