"""Files that settings name: passwords, lists of targets. What cannot be read is Misconfigured, by the file's name."""

from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from streams.wire.errors import Misconfigured

Read = TypeVar("Read")


def read_file(kind: str, path: Path) -> bytes:
    """What a file that `[collect.<kind>]` names holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise Misconfigured(f"collect.{kind}: {path}: {error.strerror}") from error


def read_json(kind: str, path: Path, adapter: TypeAdapter[Read]) -> Read:
    """The same, as what it is to be; says the first thing that is not, and never what stands there."""
    try:
        return adapter.validate_json(read_file(kind, path))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise Misconfigured(f"collect.{kind}: {path}: {'.'.join(map(str, first['loc']))} {first['msg']}") from error
