"""Reads points of OTLP from protobuf and JSON. Pure.

Encoders write the fields of a point in the order of their numbers: two fixed times, a fixed value, then the attributes.
So a point is two slices: eight bytes each for times and value, and the rest, which is the same bytes in each request
and the key of its series. A point in another order is parsed and brought into this one.
"""

import binascii
import struct
from typing import Any, NamedTuple

import orjson
from google.protobuf.message import DecodeError

from streams.wire.errors import Reject
from streams.wire.v1 import otlp_pb2 as otlp

START, AT, DOUBLE, INTEGER, _ATTRIBUTE = 0x11, 0x19, 0x21, 0x31, 0x3A
"""The tags of the start time, the time, the two kinds of value, and an attribute."""
INTEGER_AT = struct.Struct("<xQxQ").unpack_from
DOUBLE_AT = struct.Struct("<xQxd").unpack_from
INTEGER_FROM = struct.Struct("<xQxQxQ").unpack_from
DOUBLE_FROM = struct.Struct("<xQxQxd").unpack_from
REST_AT, REST_FROM = 18, 27
"""The length of times and value, without and with a start time."""
_NO_VALUE = 1
"""Bit of the flags: the series has no value at this time."""
_LONGEST_TEXT = 1024
_U64 = 2**64
_NO_POINT = b"\0"
"""Bytes that `split` refuses: an unreadable point of JSON is refused alone, as one of protobuf is."""
_UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError, binascii.Error)
_NUMBERS = ("histogram", "exponentialHistogram", "summary")
_TEMPORALITIES = (0, 1, 2)


class Point(NamedTuple):
    """One point: its times in ns, its value, and the bytes of its attributes; `value` is None if it has none."""

    start_ns: int
    at_ns: int
    value: float | None
    rest: bytes


class Attributes(NamedTuple):
    """The attributes of a series by name; `has_value` is False if its points mean that there is no value."""

    texts: dict[str, str]
    has_value: bool


def split(data: bytes) -> Point:
    """Return a point; raises Reject for bytes that are none."""
    try:
        head, second = data[0], data[9]
        if head == AT and second in (INTEGER, DOUBLE):
            at_ns, value = (INTEGER_AT if second == INTEGER else DOUBLE_AT)(data)
            return Point(0, at_ns, _signed(value), data[REST_AT:])
        if head == START and second == AT and data[18] in (INTEGER, DOUBLE):
            start_ns, at_ns, value = (INTEGER_FROM if data[18] == INTEGER else DOUBLE_FROM)(data)
            return Point(start_ns, at_ns, _signed(value), data[REST_FROM:])
    except (IndexError, struct.error):
        pass
    try:
        point = otlp.NumberDataPoint.FromString(data)
    except DecodeError as error:
        raise Reject("a point is no NumberDataPoint") from error
    which = point.WhichOneof("value")
    rest = otlp.NumberDataPoint(attributes=point.attributes, flags=point.flags)
    return Point(
        point.start_time_unix_nano, point.time_unix_nano, None if which is None else getattr(point, which),
        rest.SerializeToString(),
    )  # fmt: skip


def _signed(value: float) -> float:
    return value - _U64 if type(value) is int and value >= _U64 >> 1 else value


def attributes(rest: bytes) -> tuple[Attributes, bytes]:
    """Return the attributes in the rest of a point, and the rest without fields that are not read.

    Raises Reject if it has a second time or value.
    """
    try:
        point = otlp.NumberDataPoint.FromString(rest)
    except DecodeError as error:
        raise Reject("the attributes of a point are no attributes") from error
    if point.start_time_unix_nano or point.time_unix_nano or point.WhichOneof("value") is not None:
        raise Reject("a point has two times or values")
    known = otlp.NumberDataPoint(attributes=point.attributes, flags=point.flags)
    known.DiscardUnknownFields()  # exemplars, which differ from point to point
    return Attributes(_texts(point.attributes), not point.flags & _NO_VALUE), known.SerializeToString()


def in_order(rest: bytes) -> bytes:
    """Return the rest of a point with its attributes in the order of their bytes: gnmic shuffles them.

    Unchanged if it has other fields before them, or is damaged.
    """
    parts, at = [], 0
    try:
        while at < len(rest) and rest[at] == _ATTRIBUTE:
            length, end = rest[at + 1], at + 2
            if length & 0x80:
                length, end = length & 0x7F | rest[end] << 7, end + 1
            parts.append(rest[at : end + length])
            at = end + length
    except IndexError:
        return rest
    return rest if at > len(rest) else b"".join(sorted(parts)) + rest[at:]


def resource(data: bytes) -> dict[str, str]:
    """Return the attributes of a resource; raises Reject."""
    try:
        return _texts(otlp.Resource.FromString(data).attributes)
    except DecodeError as error:
        raise Reject("a resource is no Resource") from error


def _texts(pairs: Any) -> dict[str, str]:
    """Return the scalars as text; lists and maps are left out."""
    found: dict[str, str] = {}
    for pair in pairs:
        which = pair.value.WhichOneof("value")
        if which is not None:
            found[pair.key] = str(getattr(pair.value, which))[:_LONGEST_TEXT]
    return found


def from_protobuf(body: bytes) -> otlp.ExportMetricsServiceRequest:
    """Return a request in protobuf; raises Reject."""
    try:
        return otlp.ExportMetricsServiceRequest.FromString(body)
    except DecodeError as error:
        raise Reject("the request is no ExportMetricsServiceRequest in protobuf") from error


def from_json(body: bytes) -> otlp.ExportMetricsServiceRequest:
    """Return a request in JSON, as protobuf; raises Reject. Unknown fields are ignored."""
    request = otlp.ExportMetricsServiceRequest()
    try:
        for one in _items(orjson.loads(body), "resourceMetrics"):
            pairs = [_pair(pair) for pair in _items(_object(one, "resource"), "attributes")]
            of_resource = request.resource_metrics.add(resource=otlp.Resource(attributes=pairs).SerializeToString())
            for scope in _items(one, "scopeMetrics"):
                of_resource.scope_metrics.add(metrics=[_metric(metric) for metric in _items(scope, "metrics")])
    except _UNREADABLE as error:
        raise Reject(f"the request is no ExportMetricsServiceRequest in JSON: {str(error)[:200]}") from error
    return request


def _metric(given: Any) -> otlp.Metric:
    metric = otlp.Metric(name=str(given.get("name") or "").encode())
    for kind in ("gauge", "sum"):
        if given.get(kind) is not None:
            data = _object(given, kind)
            temporality = data.get("aggregationTemporality") or 0
            if temporality not in _TEMPORALITIES:
                raise ValueError(f"aggregationTemporality {temporality!r}")
            points = otlp.Points(
                data_points=[_point(point) for point in _items(data, "dataPoints")],
                aggregation_temporality=temporality,
            )
            getattr(metric, kind).CopyFrom(points)
    for kind in _NUMBERS:
        if given.get(kind) is not None:  # only their number is read
            metric.histogram.CopyFrom(otlp.Points(data_points=[b""] * len(_items(given[kind], "dataPoints"))))
    return metric


def _point(given: Any) -> bytes:
    try:
        return _readable_point(given)
    except _UNREADABLE:
        return _NO_POINT


def _readable_point(given: Any) -> bytes:
    point = otlp.NumberDataPoint(
        start_time_unix_nano=_integer(given.get("startTimeUnixNano")),
        time_unix_nano=_integer(given.get("timeUnixNano")),
        attributes=[_pair(pair) for pair in _items(given, "attributes")],
        flags=_integer(given.get("flags")),
    )
    if given.get("asInt") is not None:
        point.as_int = _integer(given["asInt"])
    elif given.get("asDouble") is not None:
        point.as_double = _double(given["asDouble"])
    return point.SerializeToString()


def _pair(given: Any) -> otlp.KeyValue:
    value = _object(given, "value")
    found = otlp.AnyValue()
    if isinstance(value.get("stringValue"), str):
        found.string_value = value["stringValue"]
    elif isinstance(value.get("boolValue"), bool):
        found.bool_value = value["boolValue"]
    elif value.get("intValue") is not None:
        found.int_value = _integer(value["intValue"])
    elif value.get("doubleValue") is not None:
        found.double_value = _double(value["doubleValue"])
    return otlp.KeyValue(key=str(given.get("key") or ""), value=found)


def _items(given: Any, name: str) -> list[Any]:
    found = given.get(name)
    if not isinstance(found, list | None):
        raise TypeError(f"{name} is no list")
    return found or []


def _object(given: Any, name: str) -> dict[str, Any]:
    found = given.get(name)
    if not isinstance(found, dict | None):
        raise TypeError(f"{name} is no object")
    return found or {}


def _integer(value: Any) -> int:
    """Return an integer of JSON, which is a number or a decimal string; 0 if it is absent."""
    if value is None:
        return 0
    if type(value) is str and len(value) <= len(str(_U64)):
        return int(value)
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not int:
        raise TypeError(f"{str(value)[:40]!r} is no integer")
    return value


def _double(value: Any) -> float:
    """Return a number of JSON, or of text, which the JSON form of protobuf admits: `1.5`, `NaN`, `-Infinity`."""
    if type(value) is str:
        return float(value)
    if type(value) not in (int, float):
        raise TypeError(f"{str(value)[:40]!r} is no number")
    return float(value)
