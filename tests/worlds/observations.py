"""Observations as tests write them: seconds instead of nanoseconds, and a port as `device/port`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import (
    ABSENT_COUNTER,
    Episode,
    Event,
    EventKind,
    Finding,
    RowKind,
    Samples,
    Source,
    Symptom,
    Table,
)
from streams.wire.stage import Output
from streams.wire.symptoms import (
    CnpThrottledBegan,
    CongestionEnded,
    CounterGrowth,
    IncastBegan,
    PauseBegan,
    Payload,
    PortChange,
    PortTransition,
    Restart,
    ThrottledBegan,
)
from tests.worlds.small_fabric import topology

T0 = 1_000_000
"""The second at which the tests' time begins, so far from 0 that no window begins before 0."""

HOST, LEAF = "p1-h1/e0", "p1-l0/d1"
LINK = "link:p1-h1/e0--p1-l0/d1"
GNMI, SNMP, NIC = Source.SOURCE_GNMI, Source.SOURCE_SNMP, Source.SOURCE_NIC


def at(seconds: float) -> int:
    """Return the event time in ns, so many seconds after T0."""
    return ns(T0 + seconds)


def after(at_ns: int | None) -> float | None:
    """Return the seconds after T0 of an event time."""
    return None if at_ns is None else at_ns / 1e9 - T0


def _symptom(port: str, payload: Payload, t: float, since: float | None, source: Source) -> Symptom:
    device, _, name = port.partition("/")
    since_ns = at(since) if since is not None else 0
    by_event = since is None
    return Symptom(device, name, payload, at(t), since_ns, source, by_event)


def growth(symptom: Symptom) -> int:
    """Return by how much a counter grew, 0 for symptoms of other kinds."""
    return symptom.payload.growth if isinstance(symptom.payload, CounterGrowth) else 0


def span(symptom: Symptom) -> tuple[float | None, float | None]:
    """Return when a state of a port began or was last active, and when that was observed."""
    payload = symptom.payload
    if isinstance(payload, CongestionEnded):
        return after(payload.last_active_ns), after(symptom.at_ns)
    assert isinstance(payload, PauseBegan | IncastBegan | ThrottledBegan | CnpThrottledBegan)
    return after(payload.began_ns), after(symptom.at_ns)


def down(port: str, t: float, since: float | None = None, source: Source = GNMI) -> Symptom:
    """Return a transition to down: reported by an event, or (with `since`) between two readings."""
    return _symptom(port, PortTransition(PortChange.WENT_DOWN), t, since, source)


def up(port: str, t: float, since: float | None = None, source: Source = GNMI) -> Symptom:
    """Return a transition to up."""
    return _symptom(port, PortTransition(PortChange.CAME_UP), t, since, source)


def off(port: str, t: float, since: float | None = None) -> Symptom:
    """Return that a port was shut by configuration."""
    return _symptom(port, PortTransition(PortChange.ADMIN_DISABLED), t, since, GNMI)


def on(port: str, t: float, since: float | None = None) -> Symptom:
    """Return that a port was enabled by configuration."""
    return _symptom(port, PortTransition(PortChange.ADMIN_ENABLED), t, since, GNMI)


def counted(port: str, t: float, since: float, count: int, source: Source = GNMI) -> Symptom:
    """Return a growth of the counter of downs."""
    return _symptom(port, CounterGrowth(Metric.LINK_DOWN_EVENTS, count), t, since, source)


def changed(port: str, t: float, since: float, count: int, source: Source = GNMI) -> Symptom:
    """Return a growth of the counter of transitions."""
    return _symptom(port, CounterGrowth(Metric.LINK_TRANSITIONS, count), t, since, source)


def restarted(device: str, t: float, since: float, boot_id: int = 0, *, by_event: bool = False) -> Symptom:
    """Return a restart of a device between two readings."""
    return Symptom(device, "", Restart(boot_id), at(t), at(since), GNMI, by_event)


def flaps(port: str, *times: float, lasting: float = 2) -> list[Symptom]:
    """Return downs of `lasting` seconds each, reported by events."""
    return [symptom for t in times for symptom in (down(port, t), up(port, t + lasting))]


Cells = dict[tuple[Metric, int], Mapping[str, float | None]]
"""By metric and index, the value of each port; None is absent."""


def samples(
    device: str, t: float, values: dict[Metric, dict[str, float | None]], *, source: Source = GNMI, boot_id: int = 0,
    received: float | None = None, sequence: int = 1, delays: Sequence[int] = (),
    indexed: Mapping[tuple[Metric, int], Mapping[str, float | None]] | None = None,
) -> Samples:  # fmt: skip
    """Return one reading: by metric, the value of each port; None is absent."""
    columns: Cells = {(metric, -1): cells for metric, cells in values.items()} | dict(indexed or {})
    row = tuple(dict.fromkeys(port for cells in columns.values() for port in cells))

    def table(*, counter: bool) -> Table:
        own = {key: cells for key, cells in columns.items() if key[0].counter is counter}
        absent: float = ABSENT_COUNTER if counter else np.nan
        cells = [[absent if (v := column.get(port)) is None else v for port in row] for column in own.values()]
        kind = np.dtype("<u8" if counter else "<f8")
        array = np.array([[kind.type(v) for v in line] for line in cells], kind).reshape(len(own), len(row))
        return Table(tuple(metric for metric, _ in own), tuple(index for _, index in own), array)

    received_ns = at(received if received is not None else t)
    return Samples(
        device, source, "c", 1, sequence, at(t), received_ns, boot_id, RowKind.ROW_KIND_PORT, row, 0,
        table(counter=True), table(counter=False), tuple(delays),
    )  # fmt: skip


def event(port: str, t: float, kind: EventKind, source: Source = GNMI) -> Event:
    """Return an event of a device."""
    device, _, name = port.partition("/")
    return Event(device, name, kind, at(t), at(t), source)


def last(findings: Iterable[Finding]) -> list[Finding]:
    """Return the newest revision of each finding, oldest id first."""
    newest: dict[str, Finding] = {}
    for finding in findings:
        if finding.id not in newest or newest[finding.id].revision < finding.revision:
            newest[finding.id] = finding
    return list(newest.values())


def episodes(outputs: Iterable[Output]) -> Iterator[Finding]:
    """Yield the findings that correlate published as episodes."""
    return (o.message.finding for o in outputs if isinstance(o.message, Episode))


def correlated(
    symptoms: Sequence[Symptom], until: float, params: DetectParams | None = None, top: Topology | None = None
) -> list[Finding]:
    """Return all revisions that `correlate` publishes for symptoms at their times, with the watermark at `until`."""
    stage = Correlate(params or DetectParams())
    stage.start_epoch(1)
    outputs = stage.set_topology(top or topology())
    for symptom in sorted(symptoms, key=lambda s: s.at_ns):
        outputs += stage.advance_watermark(symptom.at_ns - 1)
        outputs += stage.process([symptom])
    return list(episodes([*outputs, *stage.advance_watermark(at(until))]))
