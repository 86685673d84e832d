"""The peers' JSON into points: gnmic's `event` format, and Telegraf's, one metric or a batch. Pure.

gnmic (pkg/formatters/event.go): an event has `name` (the subscription), `timestamp` in ns, `tags` (the keys of the
path as `<element>_<key>`, and `source`), `values` by path without keys, `deletes`. A record is a list of events, or
one. Telegraf (plugins/serializers/json): `name`, `tags`, `fields`, `timestamp` in the unit that it was told, seconds
unless said otherwise; a batch has them under `metrics`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from collectors.bridge import values
from collectors.bridge.points import Point, fields_of
from streams.wire.errors import Reject

_SHOWN = 60


def parse_document(value: bytes) -> Any:
    """The JSON of a record; raises Reject. Go writes no NaN, so what orjson refuses is none of theirs."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Reject(f"no JSON: {error}") from None


def is_telegraf(read: Any) -> bool:
    """Whether it is Telegraf's: what gnmic writes has `values`, not `fields`."""
    first = read[0] if isinstance(read, list) and read else read
    return isinstance(first, dict) and ("metrics" in first or "fields" in first)


def points(read: Any, refused: list[Reject], *, is_gnmic: bool) -> Iterator[Point]:
    """The points of gnmic's events or of Telegraf's metrics; what is none is put among the refused."""
    batch = read.get("metrics", read) if isinstance(read, dict) and not is_gnmic else read
    held: Point | None = None
    for item in batch if isinstance(batch, list) else [batch]:
        try:
            found = _members(item, "values" if is_gnmic else "fields")
            if found is None:
                continue
            if held is not None and is_gnmic and item.get("tags") == held.tags and item.get("timestamp") == held.at_ns:
                held.fields.extend(fields_of(found))  # gnmic makes an event of each leaf of a notification
                continue
            if held is not None:
                yield held
            held = None
            held = _point(item, found, is_gnmic=is_gnmic)
        except Reject as error:
            refused.append(error)
    if held is not None:
        yield held


def _members(item: Any, where: str) -> dict[str, Any] | None:
    """The values of an event or metric, None where it rightly has none; raises Reject."""
    if isinstance(item, dict):
        found = item.get(where)
        if isinstance(found, dict):
            return found
        # gnmic leaves empty values out: of an empty update, and beside deletes. What is gone is absent from then on.
        if where == "values" and found is None and ("timestamp" in item or isinstance(item.get("deletes"), list)):
            return None
    raise Reject(f"no {'event' if where == 'values' else 'metric'}: {str(item)[:_SHOWN]}")


def _point(item: dict[str, Any], members: dict[str, Any], *, is_gnmic: bool) -> Point:
    name, tags, stamp = item.get("name", ""), item.get("tags") or {}, item.get("timestamp")
    if not isinstance(name, str) or not isinstance(tags, dict):
        raise Reject(f"no name or no tags: {str(item)[:_SHOWN]}")
    at_ns = values.unix_ns(stamp) if stamp else 0
    key = (is_gnmic, name, *tags.items())
    try:
        hash(key)
    except TypeError:  # a tag that is no scalar
        tags = {key: str(value)[:_SHOWN] for key, value in tags.items()}
        key = (is_gnmic, name, *tags.items())
    return Point(key, name, _texts(tags), fields_of(members), at_ns)


def _texts(tags: Mapping[str, Any]) -> Mapping[str, str]:
    for value in tags.values():
        if type(value) is not str:
            return {key: str(value) for key, value in tags.items()}
    return tags
