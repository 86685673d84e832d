"""What the peers' formats have in common once they are read: points, each of one series at one time. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Scalar = int | float | str | bool | None
Fields = list[tuple[str, Scalar]]

_DEEPEST = 16
_MOST_FIELDS = 200_000
"""Of one record: what nests deeper or is wider is cut off there."""


class Point(NamedTuple):
    """Values of one series (a measurement and its tags) at one moment; `at_ns` is 0 where the peer does not say it.

    `key` is equal for equal series and costs little to make; `name` and `tags` are asked for where it is new. What is
    put into `skip` is left out of later points of the series, and only counted in `skipped`.
    """

    key: object
    name: str
    tags: Mapping[str, str]
    fields: Fields
    at_ns: int
    skip: set[str] | None = None
    skipped: int = 0


def flat(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Scalar]]:
    """The scalars in a value that may nest: members by `name/member`, items of a list by `name.0`."""
    if isinstance(value, dict) and depth < _DEEPEST:
        for member, inner in value.items():
            yield from flat(f"{name}/{member}", inner, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for number, inner in enumerate(value):
            yield from flat(f"{name}.{number}", inner, depth + 1)
    elif value is None or isinstance(value, int | float | str | bool):
        yield name, value


def fields_of(members: Mapping[str, Any]) -> Fields:
    """The fields of an object, nested ones flattened."""
    fields: Fields = []
    for name, value in members.items():
        if isinstance(value, dict | list):
            fields.extend(flat(name, value))
        else:
            fields.append((name, value))
        if len(fields) > _MOST_FIELDS:
            break
    return fields
