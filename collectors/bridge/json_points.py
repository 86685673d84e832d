"""Parses JSON to points: gnmic's `event` and `json` formats, and Telegraf's, one metric or a batch. Pure.

gnmic (pkg/formatters/event.go): an event has `name` (the subscription), `timestamp` in ns, `tags` (the keys of the path
as `<element>_<key>`, and `source`), `values` by path without keys, `deletes`. A record is a list of events or one
event. The format `json` (pkg/formatters/json.go), gnmic's default, is one notification: `source`, `subscription-name`,
`timestamp`, `prefix`, `updates` with `Path` (and its keys) and `values`; or `sync-response`.
Telegraf (plugins/serializers/json): `name`, `tags`, `fields`, `timestamp` in the configured unit, seconds by default; a
batch has them under `metrics`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from collectors.bridge import values
from collectors.bridge.points import Point, fields_of, refuse
from collectors.gnmi.paths import from_text
from streams.wire.errors import Reject

_SHOWN = 60
_ORIGIN = re.compile(r"^[\w.-]+:(?=/|$)")
_LONGEST_PATH = 4096


def parse_document(value: bytes) -> Any:
    """Parse the JSON of a record; raises Reject. Go writes no NaN, which orjson would refuse."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise Reject(f"not JSON: {error}") from None


def is_telegraf(read: Any) -> bool:
    """Return True for Telegraf's format: gnmic writes `values`, not `fields`."""
    first = read[0] if isinstance(read, list) and read else read
    return isinstance(first, dict) and ("metrics" in first or "fields" in first)


def points(read: Any, refused: list[Reject], *, is_gnmic: bool) -> Iterator[Point]:
    """Yield the points of gnmic's events or of Telegraf's metrics; invalid items are appended to `refused`."""
    batch = read.get("metrics", read) if isinstance(read, dict) and not is_gnmic else read
    pending: Point | None = None
    for item in _events(_items(batch), refused) if is_gnmic else _items(batch):
        try:
            found = _members(item, "values" if is_gnmic else "fields")
            if found is None:
                continue
            if (
                pending is not None
                and is_gnmic
                and item.get("tags") == pending.tags
                and item.get("timestamp") == pending.at_ns
            ):
                pending.fields.extend(fields_of(found))  # gnmic makes an event of each leaf of a notification
                continue
            if pending is not None:
                yield pending
            pending = None
            pending = _point(item, found, is_gnmic=is_gnmic)
        except Reject as error:
            refuse(refused, error)
    if pending is not None:
        yield pending


def _items(batch: Any) -> list[Any]:
    return batch if isinstance(batch, list) else [batch]


def _events(items: list[Any], refused: list[Reject]) -> Iterator[Any]:
    """Yield gnmic's events; a notification in the format `json` is converted to the events that it stands for."""
    for item in items:
        if not isinstance(item, dict) or "values" in item or "updates" not in item:
            if not (isinstance(item, dict) and item.get("sync-response") is True):
                yield item
            continue
        try:
            yield from _updates(item)
        except Reject as error:
            refuse(refused, error)


def _updates(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name, prefix, source = item.get("subscription-name") or "default", item.get("prefix") or "", item.get("source")
    if not isinstance(item["updates"], list) or not isinstance(prefix, str) or not isinstance(name, str):
        raise Reject(f"not a notification: {str(item)[:_SHOWN]}")
    above, tags = _without_keys(prefix)
    for update in item["updates"]:
        path = update.get("Path") if isinstance(update, dict) else None
        members = update.get("values") if isinstance(update, dict) else None
        if not isinstance(path, str) or not isinstance(members, dict):
            raise Reject(f"not an update: {str(update)[:_SHOWN]}")
        below, keys = _without_keys(path)
        field = "/".join(part for part in (above, below) if part)
        yield {
            "name": name,
            "timestamp": item.get("timestamp"),
            "tags": tags | keys | ({"source": source} if source else {}),
            "values": {f"/{field}": value for value in members.values()},
        }


def _without_keys(path: str) -> tuple[str, dict[str, str]]:
    """Return a path without keys, origin and outer slashes, and its keys as the tags that an event has."""
    if len(path) > _LONGEST_PATH:
        raise Reject(f"a path of {len(path)} characters: {path[:_SHOWN]}")
    elems = from_text(_ORIGIN.sub("", path).strip("/"))
    return "/".join(step.name for step in elems), {
        f"{step.name}_{key}": own for step in elems for key, own in step.keys
    }


def _members(item: Any, key_name: str) -> dict[str, Any] | None:
    """Return the values of an event or metric; None if it has none by design. Raises Reject."""
    if isinstance(item, dict):
        found = item.get(key_name)
        if isinstance(found, dict):
            return found
        # gnmic omits empty `values`, in an empty update and beside deletes. Deleted values are absent from then on.
        if key_name == "values" and found is None and ("timestamp" in item or isinstance(item.get("deletes"), list)):
            return None
    raise Reject(f"not {'an event' if key_name == 'values' else 'a metric'}: {str(item)[:_SHOWN]}")


def _point(item: dict[str, Any], members: dict[str, Any], *, is_gnmic: bool) -> Point:
    name, tags, timestamp = item.get("name", ""), item.get("tags") or {}, item.get("timestamp")
    if not isinstance(name, str) or not isinstance(tags, dict):
        raise Reject(f"name or tags missing: {str(item)[:_SHOWN]}")
    at_ns = values.unix_ns(timestamp) if timestamp else 0
    key = (is_gnmic, name, *tags.items())
    try:
        hash(key)
    except TypeError:  # a tag with a nested value
        tags = {key: str(value)[:_SHOWN] for key, value in tags.items()}
        key = (is_gnmic, name, *tags.items())
    is_coarse = not is_gnmic and type(timestamp) is int and timestamp < values.SECONDS
    return Point(key, name, _texts(tags), fields_of(members), at_ns, is_coarse=is_coarse)


def _texts(tags: Mapping[str, Any]) -> Mapping[str, str]:
    for value in tags.values():
        if type(value) is not str:
            return {key: str(value) for key, value in tags.items()}
    return tags
