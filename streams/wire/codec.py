"""Between plain models and protobuf bytes; the only module that touches the generated classes.

The conversion is derived from the dataclasses and the descriptors once, at import, so that a field is named in two
places only: the .proto file and the model. Samples have a path of their own: their tables go to numpy as they are.
"""

import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto

from streams.wire import models
from streams.wire.errors import Reject
from streams.wire.repeating import Layouts, RowNames
from streams.wire.v1 import findings_pb2, internal_pb2, telemetry_pb2

Model = TypeVar("Model")

_GENERATED = (telemetry_pb2, findings_pb2, internal_pb2)
_NS = 1_000_000_000
_TIMESTAMP = "google.protobuf.Timestamp"
_COUNTER, _GAUGE = np.dtype("<u8"), np.dtype("<f8")


def _generated_class(name: str) -> type[Proto]:
    for module in _GENERATED:
        if hasattr(module, name):
            return typing.cast("type[Proto]", getattr(module, name))
    raise LookupError(f"no message {name} in the generated code")


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    """How one field goes over: `to_wire` writes it into a message, `from_wire` reads it."""

    attribute: str
    to_wire: Callable[[Proto, Any], None]
    from_wire: Callable[[Proto], Any]


def _inner(hint: Any) -> Any:
    """`X` of `X | None` and of `tuple[X, ...]`; else the hint itself."""
    if isinstance(hint, types.UnionType):
        return next(arg for arg in typing.get_args(hint) if arg is not type(None))
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0]
    return hint


def _timestamp_field(attribute: str, name: str) -> _Field:
    def write(message: Proto, value: int) -> None:
        stamp = getattr(message, name)
        stamp.seconds, stamp.nanos = divmod(value, _NS)
        stamp.SetInParent()

    def read(message: Proto) -> int | None:
        if not message.HasField(name):
            return None
        stamp = getattr(message, name)
        return int(stamp.seconds) * _NS + int(stamp.nanos)

    return _Field(attribute, write, read)


def _message_field(attribute: str, inner: type, repeated: bool) -> _Field:
    def write(message: Proto, value: Any) -> None:
        if repeated:
            for item in value:
                _fill(getattr(message, attribute).add(), item)
        else:
            getattr(message, attribute).SetInParent()
            _fill(getattr(message, attribute), value)

    def read(message: Proto) -> Any:
        if repeated:
            return tuple(_read(inner, item) for item in getattr(message, attribute))
        return _read(inner, getattr(message, attribute)) if message.HasField(attribute) else None

    return _Field(attribute, write, read)


def _plain_field(attribute: str, inner: Any, shape: str) -> _Field:
    convert = inner if isinstance(inner, type) and issubclass(inner, IntEnum) else None

    def write(message: Proto, value: Any) -> None:
        if shape == "map":
            getattr(message, attribute).update(value)
        elif shape == "repeated":
            getattr(message, attribute).extend(value)
        else:
            setattr(message, attribute, value)

    def read(message: Proto) -> Any:
        if shape == "presence" and not message.HasField(attribute):
            return None
        value = getattr(message, attribute)
        if shape == "map":
            return dict(value)
        if shape == "repeated":
            return tuple(value)
        return convert(value) if convert else value

    return _Field(attribute, write, read)


def _plan(model: type) -> tuple[_Field, ...]:
    descriptor = _generated_class(model.__name__).DESCRIPTOR
    hints = typing.get_type_hints(model)
    fields = []
    for item in dataclasses.fields(model):
        name, inner = item.name, _inner(hints[item.name])
        wire = descriptor.fields_by_name.get(name)
        if wire is None:
            stem = descriptor.fields_by_name[name.removesuffix("_ns")]
            assert stem.message_type is not None and stem.message_type.full_name == _TIMESTAMP, name
            fields.append(_timestamp_field(name, stem.name))
        elif wire.message_type is not None and not wire.message_type.GetOptions().map_entry:
            fields.append(_message_field(name, inner, wire.is_repeated))
        else:
            is_map = wire.message_type is not None
            shape = "map" if is_map else "repeated" if wire.is_repeated else "presence" if wire.has_presence else ""
            fields.append(_plain_field(name, inner, shape))
    return tuple(fields)


def _models() -> tuple[type, ...]:
    own = (getattr(models, name) for name in dir(models))
    return tuple(
        model
        for model in own
        if dataclasses.is_dataclass(model) and isinstance(model, type) and model not in (models.Samples, models.Table)
    )


def _fill(message: Proto, model: object) -> None:
    for item in _PLANS[type(model)]:
        value = getattr(model, item.attribute)
        if value is not None:
            item.to_wire(message, value)


def _read(model: type[Model], message: Proto) -> Model:
    return model(**{item.attribute: item.from_wire(message) for item in _PLANS[model]})


_PLANS: Mapping[type, tuple[_Field, ...]] = {model: _plan(model) for model in _models()}
_CLASSES: Mapping[type, type[Proto]] = {model: _generated_class(model.__name__) for model in (*_PLANS, models.Samples)}


def to_bytes(model: models.Message) -> bytes:
    """The protobuf bytes of a message; maps are in key order, so that equal messages have equal bytes."""
    if isinstance(model, models.Samples):
        return _samples_to_bytes(model)
    message = _CLASSES[type(model)]()
    _fill(message, model)
    return message.SerializeToString(deterministic=True)


def from_bytes(model: type[Model], data: bytes) -> Model:
    """Read a message; raises Reject on bytes that are not one."""
    message = _CLASSES[model]()
    try:
        message.ParseFromString(data)
        if model is models.Samples:
            return typing.cast("Model", _samples(typing.cast("telemetry_pb2.Samples", message)))
        return _read(model, message)
    except (DecodeError, ValueError) as error:
        raise Reject(f"not a {model.__name__}: {error}") from error


def to_json(model: models.Message) -> bytes:
    """The canonical JSON of the message (lowerCamelCase, RFC 3339, 64-bit integers as strings), on one line."""
    message = _CLASSES[type(model)]()
    _fill(message, model)
    return json_format.MessageToJson(message, indent=None, ensure_ascii=False).encode()


def from_json(model: type[Model], data: bytes | str) -> Model:
    """Read canonical JSON; fields that this version does not know are passed over; raises Reject on what is not one."""
    message = _CLASSES[model]()
    if data.lstrip()[:1] not in ("{", b"{"):  # the parser takes a list or a text for an object without known fields
        raise Reject(f"not a {model.__name__}: it is no JSON object")
    try:
        json_format.Parse(data, message, ignore_unknown_fields=True)
        return _read(model, message)
    except (json_format.ParseError, ValueError) as error:
        raise Reject(f"not a {model.__name__}: {error}") from error


def _samples_to_bytes(samples: models.Samples) -> bytes:
    message = telemetry_pb2.Samples()
    for name in _SAMPLES_SCALARS:
        setattr(message, name, getattr(samples, name))
    message.row.extend(samples.row)
    message.row_delay_us.extend(samples.row_delay_us)
    _fill_table(message.counters, samples.counters, "<u8")
    _fill_table(message.gauges, samples.gauges, "<f8")
    return message.SerializeToString()


def _fill_table(message: telemetry_pb2.Table, table: models.Table, dtype: str) -> None:
    if not table.metric:
        return
    message.metric.extend(typing.cast("typing.Iterable[Any]", table.metric))  # the stub wants its own enum
    message.index.extend(table.index)
    message.values = np.ascontiguousarray(table.values, dtype=dtype).tobytes()


_SAMPLES_SCALARS = (
    "device", "source", "collector", "collector_run", "sequence", "sampled_at_ns", "received_at_ns", "boot_id",
    "row_kind", "rows_digest",
)  # fmt: skip
_SOURCES = {int(source): source for source in models.Source}
_ROW_KINDS = {int(kind): kind for kind in models.RowKind}
_LAYOUTS = Layouts()
_ROW_NAMES = RowNames()


def _samples(message: telemetry_pb2.Samples) -> models.Samples:
    """A message of samples; equal columns, and equal row names, are the same tuples in every message read."""
    device, names, delays = message.device, message.row, tuple(message.row_delay_us)
    rows = len(names)
    if delays and len(delays) != rows:
        raise Reject(f"Samples of {device}: {len(delays)} row delays for {rows} rows")
    if not device:
        raise Reject("Samples without a device")
    device, source, row_kind, digest = sys.intern(device), message.source, message.row_kind, message.rows_digest
    return models.Samples(
        device,
        _SOURCES[source] if source in _SOURCES else models.Source(source),
        message.collector,
        message.collector_run,
        message.sequence,
        message.sampled_at_ns,
        message.received_at_ns,
        message.boot_id,
        _ROW_KINDS[row_kind] if row_kind in _ROW_KINDS else models.RowKind(row_kind),
        _ROW_NAMES.of(device, source, row_kind, digest, names),
        digest,
        _table(device, message.counters, rows, counter=True),
        _table(device, message.gauges, rows, counter=False),
        delays,
    )


def _table(device: str, table: telemetry_pb2.Table, rows: int, *, counter: bool) -> models.Table:
    """One table as arrays over the message's own bytes, without a loop over values or columns.

    A metric that this version does not know is left out; one of the other table's kind makes the message unreadable.
    """
    numbers, index, data = tuple(table.metric[:]), tuple(table.index[:]), table.values
    columns = len(numbers)
    if len(index) != columns or len(data) != columns * rows * 8:
        name = "counters" if counter else "gauges"
        raise Reject(
            f"Samples of {device}: {name} have {len(data)} bytes and {len(index)} indices"
            f" for {columns} columns of {rows} rows"
        )
    layout = _LAYOUTS.of(numbers, index)
    if not (layout.counters if counter else layout.gauges):
        raise Reject(f"Samples of {device}: {'counters' if counter else 'gauges'} hold a metric of the other kind")
    values: npt.NDArray[Any] = np.ndarray((columns, rows), _COUNTER if counter else _GAUGE, data)
    return models.Table(layout.metric, layout.index, values if layout.kept is None else values[list(layout.kept)])
