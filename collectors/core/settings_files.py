"""Reads the files that settings name: passwords, lists of targets; raises Misconfigured with the file's name."""

from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from streams.instrument.validation_text import refusal
from streams.wire.errors import Misconfigured

Content = TypeVar("Content")


def read_file(kind: str, path: Path) -> bytes:
    """Return the content of a file that `[collect.<kind>]` names."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"collect.{kind}: {path}: {error.strerror}") from error


def read_json(kind: str, path: Path, adapter: TypeAdapter[Content]) -> Content:
    """Return the parsed content; the error names the first wrong field, and never its value, which may be secret."""
    try:
        return adapter.validate_json(read_file(kind, path))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise Misconfigured(f"collect.{kind}: {path}: {'.'.join(map(str, first['loc']))} {refusal(first)}") from error
