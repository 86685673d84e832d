"""Writes settings as TOML, without secrets: only set ones, or all of them with their defaults."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, SecretStr

from streams.config.settings import Settings

DEFAULT = "default"
SECRET = "set, not shown"  # noqa: S105 — the text that replaces a secret


def setting_lines(settings: Settings, *, defaults: bool) -> Iterator[str]:
    """Yield the lines of a configuration file; with `defaults`, also default values, each marked by a comment."""
    yield from _section(settings, "", defaults)


def _section(model: BaseModel, name: str, defaults: bool) -> Iterator[str]:
    fields = {field: getattr(model, field) for field in type(model).model_fields}
    inner = {field: value for field, value in fields.items() if isinstance(value, BaseModel)}
    lines = [
        _line(field, value, is_default=field not in model.model_fields_set)
        for field, value in fields.items()
        if field not in inner and (defaults or field in model.model_fields_set)
    ]
    if lines and name:
        yield f"[{name}]"
    yield from lines
    if lines:
        yield ""
    for field, value in inner.items():
        yield from _section(value, f"{name}.{field}" if name else field, defaults)


def _line(field: str, value: Any, *, is_default: bool) -> str:
    if value is None:
        return f"# {field} is not set"
    if isinstance(value, SecretStr):
        return f"# {field}: {SECRET}"
    return f"{field} = {_toml(value)}" + (f"  # {DEFAULT}" if is_default else "")


def _toml(value: Any) -> str:
    match value:
        case BaseModel():
            given = {name: getattr(value, name) for name in type(value).model_fields}
            return _toml({name: one for name, one in given.items() if one is not None})
        case Mapping():
            return "{" + ", ".join(f"{_toml(str(name))} = {_toml(one)}" for name, one in value.items()) + "}"
        case str() | Path():
            return orjson.dumps(str(value)).decode()
        case bool():
            return str(value).lower()
        case list() | tuple() | set() | frozenset():
            return "[" + ", ".join(_toml(one) for one in value) + "]"
        case _:
            return str(value)
