"""Arbitrary messages of every kind, within what their fields can carry."""

import dataclasses
import typing
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from streams.fabric.catalogue import COUNTERS, GAUGES, Metric
from streams.wire import codec
from streams.wire.models import RowKind, Samples, Source, Table

_SIGNED32, _UNSIGNED32 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1)
_SIGNED64, _UNSIGNED64 = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: _TEXT,
    FieldDescriptor.TYPE_BYTES: st.binary(max_size=8),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptor.TYPE_INT32: _SIGNED32,
    FieldDescriptor.TYPE_SINT32: _SIGNED32,
    FieldDescriptor.TYPE_UINT32: _UNSIGNED32,
    FieldDescriptor.TYPE_INT64: _SIGNED64,
    FieldDescriptor.TYPE_SINT64: _SIGNED64,
    FieldDescriptor.TYPE_SFIXED64: _SIGNED64,
    FieldDescriptor.TYPE_UINT64: _UNSIGNED64,
    FieldDescriptor.TYPE_FIXED64: _UNSIGNED64,
}
_STAMP = st.integers(-(2**62), 2**63 - 1)


def _one(wire: FieldDescriptor, hint: Any) -> st.SearchStrategy[Any]:
    if wire.type == FieldDescriptor.TYPE_ENUM:
        return st.sampled_from(list(hint))
    if wire.type == FieldDescriptor.TYPE_MESSAGE:
        return messages(hint)
    return _SCALARS[wire.type]


def _field(wire: Any, hint: Any) -> st.SearchStrategy[Any]:
    inner = codec._inner(hint)
    if wire is None:
        own: st.SearchStrategy[Any] = _STAMP
    elif wire.message_type is not None and wire.message_type.GetOptions().map_entry:
        return st.dictionaries(_TEXT, _one(wire.message_type.fields_by_name["value"], float), max_size=3)
    elif wire.is_repeated:
        return st.lists(_one(wire, inner), max_size=3).map(tuple)
    else:
        own = _one(wire, inner)
    return st.none() | own if type(None) in typing.get_args(hint) else own


def messages(model: type) -> st.SearchStrategy[Any]:
    """Any message of a model."""
    hints = typing.get_type_hints(model)
    descriptor = codec._CLASSES[model].DESCRIPTOR
    parts = {
        item.name: _field(descriptor.fields_by_name.get(item.name), hints[item.name])
        for item in dataclasses.fields(model)
    }
    return st.builds(model, **parts)


@st.composite
def _table(draw: st.DrawFn, metrics: tuple[Metric, ...], rows: int, *, counter: bool) -> Table:
    columns = draw(st.lists(st.tuples(st.sampled_from(metrics), st.integers(-1, 15)), max_size=4, unique=True))
    value: st.SearchStrategy[Any] = _UNSIGNED64 if counter else st.floats(allow_nan=False)
    cells = draw(st.lists(value, min_size=len(columns) * rows, max_size=len(columns) * rows))
    values = np.array(cells, "<u8" if counter else "<f8").reshape(len(columns), rows)
    return Table(tuple(metric for metric, _ in columns), tuple(index for _, index in columns), values)


@st.composite
def samples(draw: st.DrawFn) -> Samples:
    """Any columnar reading."""
    row = tuple(draw(st.lists(_TEXT, max_size=4, unique=True)))
    return Samples(
        draw(_TEXT.filter(bool)),
        draw(st.sampled_from(list(Source))),
        draw(_TEXT),
        draw(_UNSIGNED64),
        draw(_UNSIGNED64),
        draw(_SIGNED64),
        draw(_SIGNED64),
        draw(_UNSIGNED64),
        draw(st.sampled_from(list(RowKind))),
        row,
        draw(_UNSIGNED64),
        draw(_table(COUNTERS, len(row), counter=True)),
        draw(_table(GAUGES, len(row), counter=False)),
        draw(st.just(()) | st.lists(_SIGNED32, min_size=len(row), max_size=len(row)).map(tuple)),
    )
