"""Descriptions of keys: the docstrings below their fields.

Read from the source only for a schema or a message. Pydantic can do it when it makes a class, which costs every start
0.2 s of CPU.
"""

import ast
import inspect
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


def description(model: type[BaseModel], key: str) -> str:
    """Return the docstring of a key, of the model or of one that it extends; empty where there is none."""
    models = model.__mro__[: model.__mro__.index(BaseModel)]
    return next((texts[key] for one in models if key in (texts := _docstrings(one))), "")


@cache
def _docstrings(model: type) -> dict[str, str]:
    """Return the docstrings of the fields that a class itself declares."""
    (declaration,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(declaration, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(declaration.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }
