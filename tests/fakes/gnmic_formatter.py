"""Formats a device's responses as gnmic does: a fake of its `event` formatter, by its documented behaviour.

An event for each update: the path without keys names the value, `<element>_<key>` the tags; JSON is flattened; bytes
are base64, as Go's encoder writes them; 64-bit integers of JSON_IETF stay texts.
"""

import base64
from collections.abc import Iterator
from typing import Any

import orjson

from collectors.gnmi.v1 import gnmi_pb2


def events(response: gnmi_pb2.SubscribeResponse, source: str) -> list[dict[str, Any]]:
    notification = response.update
    before, tags = _path(notification.prefix)
    found = []
    for update in notification.update:
        name, own = _path(update.path)
        name = f"{before.rstrip('/')}/{name.lstrip('/')}"
        values = dict(_flat(name, _value(update.val)))
        formatted: dict[str, Any] = {"name": "default", "timestamp": notification.timestamp}
        formatted["tags"] = tags | own | {"source": source, "subscription-name": "default"}
        found.append(formatted | ({"values": values} if values else {}))
    if notification.delete:
        gone = [_path(path)[0] for path in notification.delete]
        found.append({"name": "default", "timestamp": notification.timestamp, "tags": tags, "deletes": gone})
    return found


def _path(path: gnmi_pb2.Path) -> tuple[str, dict[str, str]]:
    tags = {}
    text = f"{path.origin}:" if path.origin else ""
    for elem in path.elem:
        text += f"/{elem.name}" if elem.name else ""
        for key, value in elem.key.items():
            tags[f"{elem.name.rpartition(':')[2]}_{key}" if elem.name else key] = value
    return text, tags


def _value(value: gnmi_pb2.TypedValue) -> Any:
    which = value.WhichOneof("value")
    if which in {"json_val", "json_ietf_val"}:
        return orjson.loads(getattr(value, which))
    if which == "decimal_val":
        return value.decimal_val.digits / 10**value.decimal_val.precision
    if which == "bytes_val":
        return base64.b64encode(value.bytes_val).decode()
    if which == "leaflist_val":
        return [_value(item) for item in value.leaflist_val.element]
    return None if which is None else getattr(value, which)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}/{key}", inner)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _flat(f"{name}.{number}", inner)
    elif value is not None:
        yield name, value
