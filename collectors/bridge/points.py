"""The records of the source topics, and the points in them, each of one series at one time. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from streams.wire.errors import Reject

Scalar = int | float | str | bool | None
Fields = list[tuple[str, Scalar]]

LONGEST_SERIES = 8192
"""Limit in characters of a series' name with its tags, which are remembered."""
_DEEPEST = 16
_MOST_INVALID = 1_000
_MOST_FIELDS = 65_536
"""Limit per item of a record: deeper or wider values are cut off. A field without a rule takes 40 us when it is new."""


class TooManyInvalid(Exception):
    """Raised when a record has more invalid parts than are examined; the rest of it is left out."""


def refuse(refused: list[Reject], error: Reject) -> None:
    """Add an invalid part of a record; raises TooManyInvalid at the limit."""
    refused.append(error)
    if len(refused) >= _MOST_INVALID:
        raise TooManyInvalid


@dataclass(frozen=True, slots=True)
class Source:
    """One record of a source topic: its offset, Kafka's timestamp, and its value."""

    offset: int
    at_ns: int
    value: bytes


class Point(NamedTuple):
    """The values of one series (a measurement and its tags) at one time; `at_ns` is 0 if the source has none.

    `key` is equal for equal series and cheap to make; `name` and `tags` are read only for a new series. Fields in
    `skip` are left out of later points of the series, and only counted in `skipped`. `is_coarse` is True if the source
    writes its times in whole seconds.
    """

    key: object
    name: str
    tags: Mapping[str, str]
    fields: Fields
    at_ns: int
    skip: set[str] | None = None
    skipped: int = 0
    is_coarse: bool = False


def flat(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Scalar]]:
    """Yield the scalars in a nested value: members as `name/member`, items of a list as `name.0`."""
    if isinstance(value, dict) and depth < _DEEPEST:
        for member, inner in value.items():
            yield from flat(f"{name}/{member}", inner, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for number, inner in enumerate(value):
            yield from flat(f"{name}.{number}", inner, depth + 1)
    elif value is None or isinstance(value, int | float | str | bool):
        yield name, value


def fields_of(members: Mapping[str, Any]) -> Fields:
    """Return the fields of an object, nested ones flattened."""
    fields: Fields = []
    for name, value in members.items():
        if isinstance(value, dict | list):
            fields.extend(islice(flat(name, value), _MOST_FIELDS - len(fields)))
        else:
            fields.append((name, value))
        if len(fields) >= _MOST_FIELDS:
            break
    return fields
