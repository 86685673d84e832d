"""Builds the rows of `symptoms`: one per symptom; for replaced symptoms, a marker and one per replacement.

The columns `count`, `boot_id`, `collector`, `collector_silent` and `cadence_ns` come from the payload's fields of these
names, if it has them; `detail` has all fields of the payload as JSON.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any

import orjson

from streams.store.enum_labels import enum_label
from streams.store.rows.native_format import LOW_CARDINALITY
from streams.store.rows.row_builder import TableSchema
from streams.store.rows.table_schemas import columns, optional_times, times
from streams.wire import symptoms as s
from streams.wire.models import Symptom, SymptomsReplaced


@dataclass(frozen=True, slots=True)
class SymptomRow:
    """One row; times are Unix nanoseconds, an unknown `since_ns` is 0."""

    device: str
    port: str
    kind: str
    at_ns: int
    since_ns: int
    source: str
    by_event: bool = False
    count: int = 0
    boot_id: int = 0
    collector: str = ""
    collector_silent: bool = False
    detail: str = ""
    cadence_ns: int = 0


SYMPTOMS = TableSchema(
    "symptoms",
    (
        *columns(LOW_CARDINALITY, "device", "port", "kind", "source", "collector"),
        *times("at"),
        *optional_times("since"),
        *columns("Bool", "by_event", "collector_silent"),
        *columns("UInt64", "count", "boot_id"),
        *columns("String", "detail"),
        *columns("Int64", "cadence_ns"),
    ),
)


def symptom_rows(message: Symptom | SymptomsReplaced) -> Iterator[SymptomRow]:
    """Yield the rows of a message; the marker of replaced symptoms is a first row of kind `<state>_replaced`."""
    if isinstance(message, Symptom):
        yield _row(message)
        return
    yield SymptomRow(
        message.device, message.port, f"{enum_label(message.state)}_replaced", message.since_ns, message.since_ns,
        enum_label(message.source), count=len(message.replacements),
    )  # fmt: skip
    yield from map(_row, message.replacements)


def _row(symptom: Symptom) -> SymptomRow:
    payload = symptom.payload
    row = SymptomRow(
        symptom.device, symptom.port, enum_label(symptom.kind), symptom.at_ns,
        symptom.since_ns or getattr(payload, "began_ns", 0), enum_label(symptom.source), symptom.by_event,
        count=_count(payload), detail=_detail(payload),
    )  # fmt: skip
    match payload:
        case s.Restart(ended_boot_id=boot_id):
            return replace(row, boot_id=boot_id)
        case s.SourceSilence():
            return replace(
                row,
                boot_id=payload.boot_id,
                collector=payload.collector,
                collector_silent=payload.collector_silent,
                cadence_ns=payload.cadence_ns,
            )
    return row


def _detail(payload: s.Payload) -> str:
    """Return the fields of a payload as JSON, with enums by their labels."""

    def value(field: Any) -> Any:
        member = getattr(payload, field.name)
        return enum_label(member) if isinstance(member, IntEnum) else member

    return orjson.dumps({field.name: value(field) for field in fields(payload)}).decode()


def _count(payload: s.Payload) -> int:
    """Return the count of a payload, or 0 if it has none."""
    match payload:
        case s.CounterGrowth(growth=count) | s.GpuXid(xid=count):
            return count
        case (
            s.SourceSilence(live_sources=count)
            | s.CnpThrottledBegan(cnp_per_s=count)
            | s.SlowedByCnpBegan(notified_per_s=count)
            | s.SlowedByLossBegan(retransmits_per_s=count)
        ):
            return count
    return 0
