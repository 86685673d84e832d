"""Reads the meaning of each setting: the docstring after its field in the model.

The documentation's reference and the help of the commands print it.
"""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise
from typing import get_args

from pydantic import BaseModel


@cache
def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring after each field of a model and its bases, or the field's description."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base.__module__.startswith(("streams.", "collectors.", "lab.")):
            found |= _attribute_docstrings(base)
    described = {name: info.description for name, info in model.model_fields.items() if info.description}
    return {name: " ".join(text.split()) for name, text in (found | described).items()}


def _attribute_docstrings(base: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
    except (OSError, TypeError):  # a model that create_model made has no source
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    return {
        field.target.id: text.value.value
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def section_of(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """Return the model of a setting that is a section; None for a plain setting."""
    annotation = model.model_fields[name].annotation
    parts = get_args(annotation) or (annotation,)
    return (
        next((part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)), None)
        if getattr(annotation, "__origin__", None) not in (tuple, dict, list)
        else None
    )
