"""measure in batches: messages stored as one array give the symptoms of single messages, and of a plain model.

The model has the last reading of each cell in a dict and compares one cell after the other: slow and simple.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import (
    ABSENT_COUNTER,
    Message,
    RowKind,
    Samples,
    Source,
    Symptom,
    Table,
)
from streams.wire.stage import Output
from streams.wire.symptoms import SymptomKind
from tests.worlds.measure_stage import detected
from tests.worlds.observations import growth
from tests.worlds.small_fabric import begun, topology

TOP = topology()
SECOND = 10**9
BEGIN = 1_000_000 * SECOND
ROWS = {"p1-l0": ("d1", "d2", "u0", "spare"), "p1-l1": ("d1", "d2", "u0", "spare"), "s1": ("p1-l0", "p1-l1")}
COUNTERS = (Metric.LINK_DOWN_EVENTS, Metric.RX_DISCARDS, Metric.LINK_TRANSITIONS)
GAUGES = (Metric.OPER_UP, Metric.RX_POWER_DBM, Metric.ADMIN_UP)
SOURCES = (Source.SOURCE_GNMI, Source.SOURCE_GNMI, Source.SOURCE_SNMP)
PORTS = frozenset(
    {
        SymptomKind.WENT_DOWN, SymptomKind.CAME_UP, SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED,
        SymptomKind.DOWNS_COUNTED, SymptomKind.TRANSITIONS_COUNTED,
    }
)  # fmt: skip


def _table(draw: st.DrawFn, metrics: tuple[Metric, ...], rows: int, cells: st.SearchStrategy[Any], dtype: str) -> Table:
    own = metrics if draw(st.integers(0, 3)) else tuple(draw(st.permutations(metrics))[: draw(st.integers(0, 3))])
    values = draw(st.lists(cells, min_size=len(own) * rows, max_size=len(own) * rows))
    return Table(own, (-1,) * len(own), np.array(values, dtype).reshape(len(own), rows))


@st.composite
def readings(draw: st.DrawFn) -> list[Message]:
    """Readings with absent cells, columns and rows left out or in another order, late ones, repeats and restarts."""
    counters = st.sampled_from([0, 1, 2, 5, 2**63 + 1, ABSENT_COUNTER])
    gauges = st.sampled_from([1.0, 1.0, 0.0, float("nan")])
    messages: list[Message] = []
    for step in range(draw(st.integers(1, 25))):
        if messages and draw(st.integers(0, 7)) == 0:
            messages.append(draw(st.sampled_from(messages)))
            continue
        device = draw(st.sampled_from(sorted(ROWS)))
        rows = ROWS[device]
        if draw(st.integers(0, 3)) == 0:
            rows = tuple(draw(st.permutations(rows))[: draw(st.integers(0, len(rows)))])
        at_ns = BEGIN + (step + draw(st.sampled_from([0, 0, 0, -5, 3]))) * 5 * SECOND
        delays = tuple(draw(st.lists(st.integers(0, 10**6), min_size=len(rows), max_size=len(rows))))
        source = draw(st.sampled_from(SOURCES))
        messages.append(
            Samples(
                device, source, "c", 1, step, at_ns, at_ns, draw(st.sampled_from([0, 1, 1, 1, 2])),
                RowKind.ROW_KIND_PORT, rows, 0,
                _table(draw, COUNTERS, len(rows), counters, "u8"), _table(draw, GAUGES, len(rows), gauges, "f8"),
                delays if draw(st.booleans()) else (),
            )
        )  # fmt: skip
    return messages


def _stage(state: bytes | None = None) -> Measure:
    return begun(Measure(DetectParams()), TOP, state)


def _outputs(messages: Sequence[Message], sizes: Sequence[int], *, restored: bool = False) -> list[Output]:
    """Return the outputs of messages in batches of these sizes, which repeat."""
    own, outputs, first = _stage(), [], 0
    for turn in range(len(messages)):
        size = sizes[turn % len(sizes)]
        outputs += detected(own.process(messages[first : first + size]))
        first += size
        if restored:
            own = _stage(own.snapshot())
    return outputs


@settings(max_examples=60)
@given(readings(), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_batches_decide_nothing(messages: list[Message], sizes: list[int]) -> None:
    """In batches of any size, and restored after each, the outputs and their order are those of single messages."""
    single = _outputs(messages, [1])
    assert _outputs(messages, sizes) == single
    assert _outputs(messages, sizes, restored=True) == single


@settings(max_examples=60)
@given(readings())
def test_a_batch_gives_the_symptoms_of_a_plain_model(messages: list[Message]) -> None:
    """Messages in order have the symptoms of the model, in its order; test_late_readings.py has late messages."""
    messages = list(_none_late(messages))
    outputs = [o.message for o in _outputs(messages, [len(messages)]) if isinstance(o.message, Symptom)]
    assert [_brief(symptom) for symptom in outputs if symptom.kind in PORTS] == list(_modelled(messages))


@settings(max_examples=20)
@given(readings())
def test_messages_stay_as_they_are(messages: list[Message]) -> None:
    """`measure` does not change messages, which the sink or a replay may read later."""
    before = [_values(message) for message in messages]
    _outputs(messages, [1, 3])
    assert [_values(message) for message in messages] == before


def _values(message: Message) -> tuple[bytes, bytes]:
    assert isinstance(message, Samples)
    return message.counters.values.tobytes(), message.gauges.values.tobytes()


def _none_late(messages: Sequence[Message]) -> Iterator[Message]:
    newest: dict[tuple[str, Source], int] = {}
    for message in messages:
        assert isinstance(message, Samples)
        own = (message.device, message.source)
        if message.sampled_at_ns >= newest.get(own, 0):
            newest[own] = message.sampled_at_ns
            yield message


def _brief(symptom: Symptom) -> tuple[Any, ...]:
    return (symptom.device, symptom.port, symptom.kind, symptom.at_ns, symptom.since_ns, growth(symptom))


def _modelled(messages: Sequence[Message]) -> Iterator[tuple[Any, ...]]:
    last: dict[tuple[Any, ...], tuple[int, float]] = {}
    """(device, source, row, metric) -> (time, value)"""
    boots: dict[tuple[str, Source], int] = {}
    newest: dict[tuple[str, Source], int] = {}
    for message in messages:
        assert isinstance(message, Samples)
        own = (message.device, message.source)
        another_life = message.boot_id and boots.get(own, message.boot_id) != message.boot_id
        if another_life and message.sampled_at_ns > newest.get(own, 0):
            last = {cell: read for cell, read in last.items() if cell[:2] != own or cell[3] in GAUGES}
        newest[own] = max(newest.get(own, 0), message.sampled_at_ns)
        if message.boot_id and message.sampled_at_ns == newest[own]:
            boots[own] = message.boot_id
        found = {
            (metric, row): found
            for table in (message.counters, message.gauges)
            for metric, values in zip(table.metric, table.values.tolist(), strict=True)
            for row, value in enumerate(values)
            if (found := _cell(last, message, metric, row, value)) is not None
        }
        for metric in (Metric.OPER_UP, Metric.ADMIN_UP, Metric.LINK_DOWN_EVENTS, Metric.LINK_TRANSITIONS):
            yield from (found for (of, _), found in found.items() if of is metric)


_STATES = {
    Metric.OPER_UP: (SymptomKind.WENT_DOWN, SymptomKind.CAME_UP),
    Metric.ADMIN_UP: (SymptomKind.ADMIN_DISABLED, SymptomKind.ADMIN_ENABLED),
}
_COUNTS = {
    Metric.LINK_DOWN_EVENTS: SymptomKind.DOWNS_COUNTED,
    Metric.LINK_TRANSITIONS: SymptomKind.TRANSITIONS_COUNTED,
}


def _cell(
    last: dict[tuple[Any, ...], tuple[int, float]], message: Samples, metric: Metric, row: int, value: float
) -> tuple[Any, ...] | None:
    """Store one reading; return its symptom, or None."""
    name, at_ns = message.row[row], message.sampled_at_ns
    cell = (message.device, message.source, name, metric)
    since_ns, before = last.get(cell, (0, None))
    if value == ABSENT_COUNTER or np.isnan(value) or at_ns <= since_ns:
        return None
    last[cell] = (at_ns, value)
    row_time = at_ns + (message.row_delay_us[row] * 1000 if message.row_delay_us else 0)
    if metric in _COUNTS and before is not None and 0 < value - before < 1000:
        return message.device, name, _COUNTS[metric], row_time, since_ns, value - before
    if metric in _STATES and (before is None or (before > 0) != (value > 0)):
        kind = _STATES[metric][value > 0]
        if before is not None or (value <= 0 and (name != "spare" or kind is SymptomKind.ADMIN_DISABLED)):
            return message.device, name, kind, row_time, since_ns, 0
    return None
