"""Converts plain models to protobuf bytes and back; the only module that uses the generated classes.

The conversion is derived from the dataclasses and the descriptors once, at import, so that only the .proto file and the
model name a field. Samples are converted separately: their tables become numpy arrays without a copy of each value.
"""

import dataclasses
import math
import operator
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Proto
from google.protobuf.timestamp_pb2 import Timestamp

from streams.wire import models, symptoms
from streams.wire.bounds import (
    ID_CHARACTERS,
    MAX_ITEMS,
    MAX_ROWS,
    MAX_TIME_NS,
    TEXT_CHARACTERS,
    Bound,
    BoundedField,
    ModelBounds,
    bound_of,
    cleaned,
)
from streams.wire.consistency import CHECKS
from streams.wire.errors import Reject
from streams.wire.interning import ColumnLayoutCache, RowNameCache
from streams.wire.samples_template_decoder import TemplateDecoder
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
    """The conversion of one field; `None` leaves the value unchanged."""

    attribute: str
    name: str
    """The name of the field in the .proto."""
    to_wire: Callable[[Any], Any] | None
    from_wire: Callable[[Any], Any] | None
    optional: bool = False
    """True if an absent field is None."""


class _ConversionPlan:
    """The conversion of a model: all fields at once, then the fields with another form on the wire."""

    __slots__ = ("bounds", "from_wire", "names", "of_message", "of_model", "oneofs", "to_wire")

    def __init__(self, fields: tuple[_Field, ...], oneofs: tuple["_Oneof", ...], bounds: ModelBounds) -> None:
        self.oneofs = oneofs
        self.bounds = bounds
        self.names = tuple(item.name for item in fields)
        self.of_model = _getter([item.attribute for item in fields])
        self.of_message = _getter(self.names)
        self.to_wire = tuple((item.name, item.to_wire) for item in fields if item.to_wire is not None)
        self.from_wire = tuple(
            (i, item.name if item.optional else None, item.from_wire)
            for i, item in enumerate(fields)
            if item.optional or item.from_wire is not None
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Oneof:
    """A oneof of messages: one attribute of the model, whose type determines the field."""

    place: int
    """The index among the fields of the model."""
    name: str
    standin: str
    """The field that represents the oneof in `_ConversionPlan.names`."""
    field_of: Mapping[type, str]
    model_of: Mapping[str, type]


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of these attributes in one call; a call for each field costs three times as much."""
    get = operator.attrgetter(*names)
    return get if len(names) > 1 else lambda of: (get(of),)


class _EnumMembers(dict[int, IntEnum]):
    """The members of an enum by number; a look-up costs a tenth of the enum's own call."""

    def __init__(self, enum: type[IntEnum]) -> None:
        super().__init__({int(member): member for member in enum})
        self._enum = enum

    def __missing__(self, number: int) -> IntEnum:
        """Raise the enum's own ValueError."""
        return self._enum(number)


def _inner(hint: Any) -> Any:
    """Return `X` for `X | None` and `tuple[X, ...]`; else the hint itself."""
    if isinstance(hint, types.UnionType):
        return next(arg for arg in typing.get_args(hint) if arg is not type(None))
    if typing.get_origin(hint) is tuple:
        return typing.get_args(hint)[0]
    return hint


def _timestamp_field(attribute: str, name: str, bound: Bound) -> _Field:
    least, most = int(bound.least), int(bound.most)

    def write(value: int) -> Proto:
        seconds, nanos = divmod(value, _NS)
        return Timestamp(seconds=seconds, nanos=nanos)

    def read(stamp: Timestamp) -> int:
        at_ns = stamp.seconds * _NS + stamp.nanos
        if least <= at_ns <= most:
            return at_ns
        if bound.clamps:
            return min(max(at_ns, least), most)
        raise Reject(f"{attribute}: {at_ns} ns is beyond its bounds")

    return _Field(attribute, name, write, read, optional=True)


def _message_field(name: str, inner: type, repeated: bool) -> _Field:
    def read(value: Any) -> Any:
        return _from_proto(inner, value)

    def read_all(value: Any) -> Any:
        if len(value) > MAX_ITEMS:
            raise Reject(f"{name}: a list of {len(value)} is beyond its bounds")
        return tuple(_from_proto(inner, item) for item in value)

    def write_all(value: Any) -> Any:
        return [_to_proto(item) for item in value]

    return _Field(name, name, write_all, read_all) if repeated else _Field(name, name, _to_proto, read, optional=True)


def _plain_field(name: str, inner: Any, shape: str) -> _Field:
    read: Callable[[Any], Any] | None = tuple if shape == "repeated" else None
    if isinstance(inner, type) and issubclass(inner, IntEnum):
        member = _EnumMembers(inner).__getitem__
        read = member if read is None else lambda numbers: tuple(map(member, numbers))
    return _Field(name, name, None, read, optional=shape == "presence")


def _read_map(model: str, name: str, entry: Any) -> Callable[[Any], Any]:
    """Return the conversion of a map with names or paths as keys, and numbers or texts as values."""
    kind = _kind(entry.fields_by_name["value"])
    if kind == "str":
        return lambda texts: _texts_by_name(f"{model}.{name}", texts)
    bound = bound_of(model, name, kind)
    least, most = (bound.least, bound.most) if bound is not None else (-math.inf, math.inf)

    def read(items: Any) -> Any:
        if len(items) > MAX_ITEMS or not all(least <= number <= most for number in items.values()):
            raise Reject(f"{model}.{name}: one of {len(items)} values is beyond its bounds")
        return {cleaned(f"{model}.{name}", key): number for key, number in items.items()}

    return read


def _texts_by_name(what: str, texts: Mapping[str, str]) -> dict[str, str]:
    if len(texts) > MAX_ITEMS:
        raise Reject(f"{what}: {len(texts)} values are beyond its bounds")
    return {cleaned(what, key, ID_CHARACTERS): cleaned(what, text, TEXT_CHARACTERS) for key, text in texts.items()}


_KINDS = {
    FieldDescriptor.TYPE_STRING: "str",
    FieldDescriptor.TYPE_DOUBLE: "float",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_SINT32: "int32",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_SINT64: "int64",
    FieldDescriptor.TYPE_SFIXED64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_FIXED64: "uint64",
}


def _kind(wire: Any) -> str:
    return _KINDS.get(wire.type, "")


def _bounded(model: str, place: int, wire: Any) -> BoundedField | None:
    """Return the field with its bound; None if every value of its type is valid."""
    kind = _kind(wire)
    bound = bound_of(model, wire.name, kind)
    if bound is None or (bound == bound_of("", "", kind) and kind not in ("str", "float", "uint32")):
        return None
    return BoundedField(place, wire.name, bound, wire.is_repeated, kind == "float")


def _plan(model: type) -> _ConversionPlan:
    descriptor = _generated_class(model.__name__).DESCRIPTOR
    hints = typing.get_type_hints(model)
    fields: list[_Field] = []
    oneofs: list[_Oneof] = []
    bounded: list[BoundedField] = []
    for item in dataclasses.fields(model):
        name, inner = item.name, _inner(hints[item.name])
        wire = descriptor.fields_by_name.get(name)
        if name in descriptor.oneofs_by_name:
            oneofs.append(_oneof(len(fields), name, descriptor.oneofs_by_name[name].fields))
            fields.append(_Field(name, oneofs[-1].standin, None, None))
            continue
        if wire is None:
            stem = descriptor.fields_by_name[name.removesuffix("_ns")]
            assert stem.message_type is not None and stem.message_type.full_name == _TIMESTAMP, name
            bound = bound_of(model.__name__, name, "time")
            assert bound is not None
            fields.append(_timestamp_field(name, stem.name, bound))
        elif wire.message_type is not None and not wire.message_type.GetOptions().map_entry:
            fields.append(_message_field(name, inner, wire.is_repeated))
        else:
            if wire.message_type is not None:
                fields.append(_Field(name, name, None, _read_map(model.__name__, name, wire.message_type)))
                continue
            shape = "repeated" if wire.is_repeated else "presence" if wire.has_presence else ""
            if (limited := _bounded(model.__name__, len(fields), wire)) is not None:
                bounded.append(limited)
            fields.append(_plain_field(name, inner, shape))
    return _ConversionPlan(tuple(fields), tuple(oneofs), ModelBounds(model.__name__, bounded))


def _oneof(place: int, name: str, fields: Sequence[Any]) -> _Oneof:
    model_of = {field.name: getattr(symptoms, field.message_type.name) for field in fields if field.message_type}
    return _Oneof(place, name, fields[0].name, {model: field for field, model in model_of.items()}, model_of)


def _models() -> tuple[type, ...]:
    own = (getattr(module, name) for module in (models, symptoms) for name in dir(module))
    return tuple(
        model
        for model in own
        if dataclasses.is_dataclass(model) and isinstance(model, type) and model not in (models.Samples, models.Table)
    )


def _to_proto(model: object) -> Proto:
    """Return the generated message; omits fields whose value is None."""
    kind = type(model)
    plan = _PLANS[kind]
    values = dict(zip(plan.names, plan.of_model(model), strict=True))
    for name, convert in plan.to_wire:
        if (value := values[name]) is not None:
            values[name] = convert(value)
    for oneof in plan.oneofs:
        payload = values.pop(oneof.standin)
        values[oneof.field_of[type(payload)]] = _to_proto(payload)
    return _CLASSES[kind](**values)


def _from_proto(model: type[Model], message: Proto) -> Model:
    plan = _PLANS[model]
    values = list(plan.of_message(message))
    plan.bounds.apply(values)
    for place, optional, convert in plan.from_wire:
        if optional is not None and not message.HasField(optional):
            values[place] = None
        elif convert is not None:
            values[place] = convert(values[place])
    for oneof in plan.oneofs:
        field = message.WhichOneof(oneof.name)
        if field is None:
            raise ValueError(f"no {oneof.name} that this version knows")
        values[oneof.place] = _from_proto(oneof.model_of[field], getattr(message, field))
    made = model(*values)
    if (check := CHECKS.get(model)) is not None:
        check(made)
    return made


_PLANS: Mapping[type, _ConversionPlan] = {model: _plan(model) for model in _models()}
_CLASSES: Mapping[type, type[Proto]] = {model: _generated_class(model.__name__) for model in (*_PLANS, models.Samples)}


def to_bytes(model: models.Message) -> bytes:
    """Encode a message as protobuf bytes; maps are in key order, so that equal messages have equal bytes."""
    if isinstance(model, models.Samples):
        return _samples_to_bytes(model)
    return _to_proto(model).SerializeToString(deterministic=True)


def from_bytes(model: type[Model], data: bytes) -> Model:
    """Decode a message; raises Reject on invalid bytes."""
    if model is models.Samples and (known := _TEMPLATES.decode(data)) is not None:
        return typing.cast("Model", known)
    message = _CLASSES[model]()
    try:
        message.ParseFromString(data)
        if model is models.Samples:
            samples = _samples(typing.cast("telemetry_pb2.Samples", message))
            _TEMPLATES.add(data, samples)
            return typing.cast("Model", samples)
        return _from_proto(model, message)
    except (DecodeError, ValueError) as error:
        raise Reject(f"not a {model.__name__}: {error}") from error


def to_json(model: models.Message) -> bytes:
    """Encode a message as canonical JSON (lowerCamelCase, RFC 3339, 64-bit integers as strings), on one line."""
    return json_format.MessageToJson(_to_proto(model), indent=None, ensure_ascii=False).encode()


def from_json(model: type[Model], data: bytes | str) -> Model:
    """Decode canonical JSON, ignoring unknown fields; raises Reject on invalid input."""
    message = _CLASSES[model]()
    if data.lstrip()[:1] not in ("{", b"{"):  # the parser accepts a list or a string as an object without known fields
        raise Reject(f"not a {model.__name__}: expected a JSON object")
    try:
        json_format.Parse(data, message, ignore_unknown_fields=True)
        return _from_proto(model, message)
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
    message.metric.extend(typing.cast("typing.Iterable[Any]", table.metric))  # the stub requires its own enum
    message.index.extend(table.index)
    message.values = np.ascontiguousarray(table.values, dtype=dtype).tobytes()


_SAMPLES_SCALARS = (
    "device", "source", "collector", "collector_run", "sequence", "sampled_at_ns", "received_at_ns", "boot_id",
    "row_kind", "rows_digest",
)  # fmt: skip
_SOURCES = {int(source): source for source in models.Source}
_ROW_KINDS = {int(kind): kind for kind in models.RowKind}
_LAYOUTS = ColumnLayoutCache()
_ROW_NAMES = RowNameCache()
_TEMPLATES = TemplateDecoder()


def _samples(message: telemetry_pb2.Samples) -> models.Samples:
    """Convert a message of samples; equal columns and equal row names are the same tuples in every message."""
    device, names, delays = message.device, message.row, tuple(message.row_delay_us)
    rows = len(names)
    if not (0 <= message.sampled_at_ns <= MAX_TIME_NS and 0 <= message.received_at_ns <= MAX_TIME_NS):
        raise Reject(f"Samples of {cleaned('device', device)}: a time is beyond its bounds")
    if rows > MAX_ROWS:
        raise Reject(f"Samples of {cleaned('device', device)}: {rows} rows, more than {MAX_ROWS}")
    if delays and len(delays) != rows:
        raise Reject(f"Samples of {device}: {len(delays)} row delays for {rows} rows")
    if delays and not (
        message.sampled_at_ns + 1000 * min(delays) >= 0 and message.sampled_at_ns + 1000 * max(delays) <= MAX_TIME_NS
    ):
        raise Reject(f"Samples of {cleaned('device', device)}: the time of a row is beyond its bounds")
    if not device:
        raise Reject("Samples without a device")
    device, source, row_kind, digest = (
        sys.intern(cleaned("device", device)),
        message.source,
        message.row_kind,
        message.rows_digest,
    )
    return models.Samples(
        device,
        _SOURCES[source] if source in _SOURCES else models.Source(source),
        cleaned("collector", message.collector),
        message.collector_run,
        message.sequence,
        message.sampled_at_ns,
        message.received_at_ns,
        message.boot_id,
        _ROW_KINDS[row_kind] if row_kind in _ROW_KINDS else models.RowKind(row_kind),
        _ROW_NAMES.get(device, source, row_kind, digest, names),
        digest,
        _table(device, message.counters, rows, counter=True),
        _table(device, message.gauges, rows, counter=False),
        delays,
    )


def _table(device: str, table: telemetry_pb2.Table, rows: int, *, counter: bool) -> models.Table:
    """Convert one table to arrays over the bytes of the message, without a loop over values or columns.

    Omits metrics that this version does not know; raises Reject on a metric of the other table's kind.
    """
    numbers, index, data = tuple(table.metric[:]), tuple(table.index[:]), table.values
    columns = len(numbers)
    if len(index) != columns or len(data) != columns * rows * 8:
        name = "counters" if counter else "gauges"
        raise Reject(
            f"Samples of {device}: {name} have {len(data)} bytes and {len(index)} indices"
            f" for {columns} columns of {rows} rows"
        )
    layout = _LAYOUTS.get(numbers, index)
    if not (layout.counters if counter else layout.gauges):
        raise Reject(f"Samples of {device}: {'counters' if counter else 'gauges'} contain a metric of the other kind")
    values: npt.NDArray[Any] = np.ndarray((columns, rows), _COUNTER if counter else _GAUGE, data)
    return models.Table(
        layout.metric, layout.index, values if layout.known_columns is None else values[list(layout.known_columns)]
    )
