"""Converts Cisco's Model-Driven Telemetry (self-describing GPB) to gNMI notifications. Pure.

A row has its list's keys apart from its content, without the path steps that they belong to; the profiles define these
steps. Rows become JSON below a path, which the gNMI parser reads like a device's own JSON.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import orjson
from google.protobuf.message import DecodeError

from collectors.dialout.v1 import mdt_pb2
from collectors.gnmi.paths import Elem, Elems, bare, from_text
from collectors.gnmi.v1 import gnmi_lite_pb2, gnmi_pb2
from streams.wire.errors import Reject

KeysOf = Callable[[str], Iterable[str]]
"""Returns the keys that identify the entries of a list, by its name."""

_NS_PER_MS = 1_000_000
_MOST_FIELDS = 20_000
"""Limit of fields of one row, which is converted at once: an interface has some hundreds."""
_MAX_MS = 2**63 // _NS_PER_MS - 1
_LATEST = ("infra-statistics", "interfaces", "interface", "latest")
"""IOS-XR's usual sensor path ends with a step that the current model lacks; values match the path without it."""


class Assembly:
    """Joins the parts of messages that NX-OS splits; one per stream, bounded by `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._request = 0
        self._parts = bytearray()

    def add(self, message: bytes) -> mdt_pb2.Telemetry | None:
        """Return the complete message; None if parts are missing. Raises Reject for an unreadable message."""
        try:
            args = mdt_pb2.DialoutArgs.FromString(message)
            if args.errors:
                raise Reject(f"the device reports: {args.errors[:300]}")
            data = args.data if not args.total_size else self._joined(args)
            return None if data is None else mdt_pb2.Telemetry.FromString(data)
        except DecodeError as error:
            raise Reject("not a Telemetry message of self-describing GPB") from error

    def _joined(self, args: mdt_pb2.DialoutArgs) -> bytes | None:
        if args.request_id != self._request:
            self._request, self._parts = args.request_id, bytearray()
        size = len(self._parts) + len(args.data)
        if not size <= args.total_size <= self._limit:
            self._parts = bytearray()
            raise Reject(f"parts of {size} bytes of a message of {args.total_size}, at most {self._limit}")
        self._parts += args.data
        if size < args.total_size:
            return None
        whole, self._parts = bytes(self._parts), bytearray()
        return whole


def sensor_path(telemetry: mdt_pb2.Telemetry) -> Elems:
    """Return the path of a message's rows; raises Reject if it is not a path of a model, or has no readable rows."""
    if telemetry.data_gpb:
        raise Reject("compact GPB is not read; configure `encoding self-describing-gpb` on the device")
    path = from_text(telemetry.encoding_path)
    if tuple(step.name for step in path[: len(_LATEST)]) == _LATEST:
        path = path[: len(_LATEST) - 1] + path[len(_LATEST) :]
    if not path or path[0].name == "sys" or " " in path[0].name:  # NX-OS's own tree, and its commands
        raise Reject(f"{telemetry.encoding_path[:200]!r} is no path of a YANG model; configure one as sensor path")
    return path


def notifications(telemetry: mdt_pb2.Telemetry, keys_of: KeysOf) -> Iterator[gnmi_lite_pb2.Notification]:
    """Yield one notification per row; raises Reject for an unreadable message."""
    path = sensor_path(telemetry)
    for row in telemetry.data_gpbkv:
        parts = {field.name: field.fields for field in row.fields}
        if "content" not in parts:
            continue  # a deleted row has only keys
        content = _value(parts["content"], iter(range(_MOST_FIELDS)))
        update = gnmi_lite_pb2.Update(
            path=_encoded(_keyed(path, _scalars(parts.get("keys", ())), keys_of)),
            val=gnmi_lite_pb2.TypedValue(json_val=orjson.dumps(content)),
        )
        at_ms = row.timestamp or telemetry.msg_timestamp
        yield gnmi_lite_pb2.Notification(timestamp=min(at_ms, _MAX_MS) * _NS_PER_MS, update=[update])


def _keyed(path: Elems, keys: Iterable[tuple[str, str]], keys_of: KeysOf) -> Elems:
    """Return the path with each key at the last step whose list has such a key, else at the last step."""
    owned: list[dict[str, str]] = [dict(step.keys) for step in path]
    for key, value in keys:
        owners = (at for at in reversed(range(len(path))) if key in keys_of(path[at].name) and key not in owned[at])
        owned[next(owners, -1)][key] = value
    return tuple(Elem(step.name, tuple(sorted(own.items()))) for step, own in zip(path, owned, strict=True))


def _encoded(path: Elems) -> bytes:
    steps = [gnmi_pb2.PathElem(name=step.name, key=dict(step.keys)) for step in path]
    return gnmi_pb2.Path(elem=steps).SerializeToString()


def _scalars(fields: Iterable[mdt_pb2.TelemetryField]) -> Iterator[tuple[str, str]]:
    for field in fields:
        if (value := _scalar(field)) is not None:
            yield bare(field.name), str(value)


def _value(fields: Iterable[mdt_pb2.TelemetryField], left: Iterator[int]) -> Any:
    """Return the JSON of these fields: an object; a list of objects if they have no names.

    Raises Reject if there are more than `left` has items.
    """
    found: dict[str, Any] = {}
    unnamed: list[Any] = []
    for field in fields:
        if next(left, None) is None:
            raise Reject(f"a row has more than {_MOST_FIELDS} fields")
        value = _value(field.fields, left) if field.fields else _scalar(field)
        if not field.name:
            unnamed.append(value)
        elif field.name not in found:
            found[field.name] = value
        elif isinstance(found[field.name], list):
            found[field.name].append(value)
        else:
            found[field.name] = [found[field.name], value]
    if unnamed and not found:
        return unnamed[0] if len(unnamed) == 1 else unnamed
    return found


def _scalar(field: mdt_pb2.TelemetryField) -> Any:
    kind = field.WhichOneof("value")
    return None if kind is None or kind == "bytes_value" else getattr(field, kind)
