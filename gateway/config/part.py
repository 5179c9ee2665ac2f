"""A mapping of the file."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A mapping of the file: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, use_attribute_docstrings=True)
