"""Samples as rows, column by column: no Python runs for a row or a value, only for a message and a column.

Messages of the same columns stand together in a block, so that their tables are stacked as they came (stacked.py). What
is absent is NULL. Lanes and queues are in lanes.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.store.build import Rows, Taken, Vocabulary, origin
from streams.store.lanes import narrow
from streams.store.layout import Layouts
from streams.store.names import row_kind_name, source_name
from streams.store.native import Column, Numbers
from streams.store.reading import Reading
from streams.store.seen import Sequences
from streams.store.stacked import stacked
from streams.wire.models import Samples

_T9 = "DateTime64(9, 'UTC')"


class SampleBuilder:
    """Collects messages; a message whose identity was stored before makes no rows."""

    def __init__(self, seen: Sequences) -> None:
        self._seen = seen
        self._layouts = Layouts()
        self._readings: list[Reading] = []

    def add(self, taken: Taken) -> int:
        message = taken.message
        assert isinstance(message, Samples)
        run = (message.device, source_name(message.source), message.collector, message.collector_run)
        if not self._seen.fresh(run, message.sequence, taken.arrived_ms):
            return 0
        self._readings.append(Reading(taken, message, self._layouts.of(message)))
        return len(message.row)

    def finish(self) -> list[Rows]:
        readings, self._readings, self._layouts = self._readings, [], Layouts()
        if not readings:
            return []
        # The order of the tables is that of their insertion: sample_messages says that all before it is there.
        return [*_wide(readings), *narrow(readings), _messages(readings)]


def _wide(readings: Sequence[Reading]) -> list[Rows]:
    """Rows of `samples`, for the messages that have any scalar."""
    alike: dict[int, list[Reading]] = {}
    for reading in sorted(readings, key=_as_stored):
        if reading.layout.has_scalars and reading.message.row:
            alike.setdefault(id(reading.layout), []).append(reading)
    if not alike:
        return []
    # Met in the order of the table: hosts before switches, where their names have it so.
    groups = list(alike.values())
    ordered = [reading for group in groups for reading in group]
    heights = np.array([len(reading.message.row) for reading in ordered])
    columns = [
        *_identity_columns([reading.message for reading in ordered], heights),
        *origin(
            ordered[0].taken.partition,
            [reading.taken.offset for reading in ordered],
            [reading.taken.arrived_ms for reading in ordered],
            heights,
        ),
        *stacked(groups),
    ]
    return [Rows("samples", columns)]


def _as_stored(reading: Reading) -> tuple[str, int, int]:
    """The order of the table, by message: what comes sorted the server need not sort by row (0.75 of 1.18 s/M)."""
    message = reading.message
    return message.device, message.source, message.sampled_at_ns


def _identity_columns(messages: Sequence[Samples], heights: npt.NDArray[Any]) -> list[Column]:
    """What identifies a row of `samples`: device, row, times and the message's own identity."""
    numbers = (
        ("received_at", _T9, np.int64, [message.received_at_ns for message in messages]),
        ("boot_id", "UInt64", np.uint64, [message.boot_id for message in messages]),
        ("collector_run", "UInt64", np.uint64, [message.collector_run for message in messages]),
        ("sequence", "UInt64", np.uint64, [message.sequence for message in messages]),
    )
    names = Vocabulary()
    return [
        Vocabulary().repeated("device", [message.device for message in messages], heights),
        Vocabulary().repeated("source", [source_name(message.source) for message in messages], heights),
        Vocabulary().repeated("row_kind", [row_kind_name(message.row_kind) for message in messages], heights),
        Vocabulary().repeated("collector", [message.collector for message in messages], heights),
        *(Numbers(name, type_, np.repeat(np.array(values, dtype), heights)) for name, type_, dtype, values in numbers),
        names.column("row", np.concatenate(names.codes_of([message.row for message in messages]))),
        Numbers("sampled_at", _T9, _row_times(messages, heights)),
    ]


def _row_times(messages: Sequence[Samples], heights: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    times = np.repeat(np.array([message.sampled_at_ns for message in messages], np.int64), heights)
    if any(message.row_delay_us for message in messages):
        delays = [message.row_delay_us or (0,) * len(message.row) for message in messages]
        times = times + np.concatenate([np.array(delay, np.int64) for delay in delays]) * 1000
    return times


def _messages(readings: Sequence[Reading]) -> Rows:
    messages = [reading.message for reading in readings]
    columns: list[Column] = [
        Vocabulary().single("device", [message.device for message in messages]),
        Vocabulary().single("source", [source_name(message.source) for message in messages]),
        Vocabulary().single("row_kind", [row_kind_name(message.row_kind) for message in messages]),
        Vocabulary().single("collector", [message.collector for message in messages]),
        _numbers("collector_run", "UInt64", np.uint64, [message.collector_run for message in messages]),
        _numbers("sequence", "UInt64", np.uint64, [message.sequence for message in messages]),
        _numbers("rows", "UInt32", np.uint32, [len(message.row) for message in messages]),
        _numbers("boot_id", "UInt64", np.uint64, [message.boot_id for message in messages]),
        _numbers("sampled_at", _T9, np.int64, [message.sampled_at_ns for message in messages]),
        _numbers("received_at", _T9, np.int64, [message.received_at_ns for message in messages]),
    ]
    at = [reading.taken for reading in readings]
    offsets, arrived = [taken.offset for taken in at], [taken.arrived_ms for taken in at]
    return Rows("sample_messages", columns + origin(at[0].partition, offsets, arrived))


def _numbers(name: str, type_: str, kind: type[np.generic], values: Sequence[int]) -> Numbers:
    return Numbers(name, type_, np.fromiter(values, kind, len(values)))
