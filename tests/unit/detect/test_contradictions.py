"""Two collectors that contradict each other about a port are found, and honest ones that differ in time are not."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.fabric.catalogue import Metric
from streams.wire.models import EventKind, Message, Samples, Source, Symptom, Table
from streams.wire.symptoms import Fault, PortFault
from tests.worlds.measure_stage import stage
from tests.worlds.observations import GNMI, SNMP, at, event, samples

Times = Iterable[float]


def reading(t: float, run: int, *, up: float | None = 1, errors: float = 0, source: Source = GNMI) -> Samples:
    """Return a reading of two ports, of which d2 is always healthy."""
    values: dict[Metric, dict[str, float | None]] = {
        Metric.OPER_UP: {"d1": up, "d2": 1},
        Metric.RX_FCS_ERRORS: {"d1": errors, "d2": 0},
        Metric.RX_BYTES: {"d1": 1e6 * t, "d2": 1e6 * t},
    }
    one = samples("p1-l0", t, values, source=source, sequence=round(10 * t))
    return replace(one, collector=f"c{run}", collector_run=run)


def reports(messages: Iterable[Message], size: int = 1) -> list[str]:
    """Return the reports of contradictions, and at which port; the messages are read in batches of a size."""
    ordered = sorted(messages, key=lambda one: getattr(one, "received_at_ns", 0))
    own = stage()
    batches = (ordered[first : first + size] for first in range(0, len(ordered), size))
    found = [o.message for batch in batches for o in own.process(batch) if isinstance(o.message, Symptom)]
    return [
        f"{one.device}/{one.port}: {one.payload.report}"
        for one in dict.fromkeys(found)
        if isinstance(one.payload, PortFault) and one.payload.fault is Fault.CONTRADICTED
    ]


def test_a_reading_beside_each_honest_one_is_a_contradiction_of_both_collectors() -> None:
    """By state, whether the forged one hides a down or invents one."""
    for honest in (0, 1):
        both = [
            reading(t + late, run, up=up)
            for t in range(0, 120, 10)
            for run, up, late in ((1, honest, 0), (2, 1 - honest, 0.001))
        ]
        names = ["gnmi of c1 (run 1)", "gnmi of c2 (run 2)"]
        up, down = names[::-1] if not honest else names
        assert set(reports(both)) == {f"p1-l0/d1: {up} reads it up, and {down} reads it down"}


@pytest.mark.parametrize("size", [50, 100, 1000])
def test_collectors_with_different_cadences_contradict_each_other_in_batches_of_any_size(size: int) -> None:
    """A backlog has minutes of a device in one batch, so that a reading of one may be far ahead of those of another."""
    polled = [reading(t + 3, 2, up=0, source=SNMP) for t in range(0, 1800, 60)]
    messages = [*(reading(t, 1) for t in range(0, 1800, 10)), *polled]
    found = reports(messages)
    assert len(found) > 20
    assert reports(messages, size) == found


@pytest.mark.parametrize("source", [GNMI, SNMP])
def test_errors_that_only_one_collector_counts_are_a_contradiction(source: Source) -> None:
    """The other one counts traffic meanwhile; without traffic it may only repeat old counters."""
    forged = [reading(t + 3, 2, errors=50 * t, source=source) for t in range(0, 150, 10)]
    found = reports([*(reading(t, 1) for t in range(0, 150, 10)), *forged])
    name = "gnmi" if source is GNMI else "snmp"
    text = f"gnmi of c1 (run 1) counts no rx_fcs_errors, and {name} of c2 (run 2) counts rx_fcs_errors"
    assert found and set(found) == {f"p1-l0/d1: {text}"}
    cached = [replace(reading(0, 1), sampled_at_ns=at(t), received_at_ns=at(t)) for t in range(0, 150, 10)]
    assert reports([*cached, *forged]) == []


def unread(one: Samples, *metrics: Metric) -> Samples:
    """Return a reading of a collector that does not read some counters."""
    places = [n for n, metric in enumerate(one.counters.metric) if metric not in metrics]
    own = one.counters
    names, indices = tuple(own.metric[n] for n in places), tuple(own.index[n] for n in places)
    return replace(one, counters=Table(names, indices, own.values[places]))


def test_errors_of_a_counter_that_one_collector_reads_need_its_traffic() -> None:
    """A collector that counts the same traffic reads the port; one that counts other or none may invent errors."""
    own = [unread(reading(t, 1), Metric.RX_FCS_ERRORS) for t in range(0, 150, 10)]
    errors = [reading(t + 3, 2, errors=50 * t, source=SNMP) for t in range(0, 150, 10)]
    assert reports([*own, *errors]) == []
    text = "gnmi of c1 (run 1) reads another counter, and snmp of c2 (run 2) counts rx_fcs_errors"
    without = [unread(one, Metric.RX_BYTES) for one in errors]
    for guess in (5e9, 0.0):
        guessed = [
            replace(
                one, counters=replace(one.counters, values=one.counters.values + np.array([[0], [guess]], np.uint64))
            )
            for one in errors
        ]
        assert set(reports([*own, *(guessed if guess else without)])) == {f"p1-l0/d1: {text}"}


def test_a_down_of_a_run_without_readings_is_a_contradiction_if_it_is_repeated() -> None:
    """A new collector whose first message is an event sends its first reading soon after."""
    honest = [reading(t, 1) for t in range(0, 100, 10)]
    downs = [replace(event("p1-l0/d1", t, EventKind.LINK_DOWN), collector="x", collector_run=9) for t in (42, 72)]
    text = "gnmi of x (run 9) reports it down without readings, and those of run 1 show it up"
    assert reports([*honest, *downs]) == [f"p1-l0/d1: {text}"]
    assert reports([*honest, downs[0]]) == []
    assert reports([*honest, *downs, reading(43, 9)]) == []
    assert reports([*honest, *(replace(one, collector_run=1) for one in downs)]) == []
    assert reports([*honest, *(replace(one, collector_run=0) for one in downs)]) == []
    of_lines = [replace(one, source=Source.SOURCE_SYSLOG) for one in downs]
    assert reports([*honest, *of_lines]) == []
    polled = [reading(t, 1, source=SNMP) for t in range(0, 400, 60)]
    traps = [
        replace(event("p1-l0/d1", t, EventKind.LINK_DOWN), source=SNMP, collector="x", collector_run=9)
        for t in (130, 200, 330)
    ]
    assert reports([*polled, *traps[:2]]) == []
    assert reports([*polled, *traps]) == [f"p1-l0/d1: {text.replace('gnmi', 'snmp')}"]


def test_a_collector_that_reads_no_port_contradicts_none() -> None:
    """Its samples have the column of states and no rows."""
    empty = [
        replace(samples("p1-l0", t, {Metric.OPER_UP: {}}), collector="c2", collector_run=2) for t in range(1, 121, 10)
    ]
    assert all(one.gauges.values.shape == (1, 0) for one in empty)
    assert reports([*(reading(t, 1) for t in range(0, 120, 10)), *empty]) == []


def test_a_collector_that_takes_over_contradicts_no_other() -> None:
    """The port goes down while its device passes from one collector to the next one and back."""
    runs = [1] * 10 + [2] * 10 + [1] * 10
    assert reports(reading(10 * n, run, up=float(n < 9 or n > 21)) for n, run in enumerate(runs)) == []


def honest(times: Times, run: int, source: Source, skew: float, downs: list[tuple[float, float]]) -> Iterator[Samples]:
    """Yield what an honest collector reads of a port that was down, and counts errors after the first down."""
    began = min((begin for begin, _ in downs), default=0)
    for t in times:
        up = not any(begin <= t < begin + length for begin, length in downs)
        one = reading(t, run, up=up, errors=max(0, t - began), source=source)
        yield replace(one, sampled_at_ns=at(t + skew))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_honest_collectors_never_contradict_each_other(data: st.DataObject) -> None:
    """For any cadences, phases and clocks within a second, with changes sent at once or not, and up to two downs."""
    seconds = st.integers(0, 4000).map(lambda tenths: tenths / 10)
    downs = data.draw(st.lists(st.tuples(seconds, st.sampled_from([0.5, 2, 15, 70, 300])), max_size=2))
    messages: list[Message] = []
    for run, source in ((1, GNMI), (2, data.draw(st.sampled_from([GNMI, SNMP])))):
        cadence = data.draw(st.sampled_from([1, 7, 10, 30, 60]))
        phase, skew = data.draw(st.floats(0, cadence)), data.draw(st.sampled_from([-1, -0.5, 0, 0.5, 1]))
        times = {phase + cadence * n for n in range(int(500 / cadence))}
        if data.draw(st.booleans()):
            times |= {moment for begin, length in downs for moment in (begin + 0.1, begin + length + 0.1)}
        messages += honest(sorted(times), run, source, skew, downs)
    assert reports(messages) == []
