"""Accumulates the readings of ports with a recent fault, and publishes the result once in `readings_s`.

`decide` restores a link only on such evidence, and requests it of the ports of its targets, which need not have had a
fault: those of a cordoned host. A port is watched for five days after a transition, an administrative
down, errors, a high BER, a loss of light, or a PFC storm. A repair takes at most four days (CorrOpt) and takes the link
down, which restarts the five days. Readings count only while the port is up; a transition or a gap begins a new run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from streams.detect.detectors.link_degrading.rules import LEVELS, LOSSES, OF_FAR_RECEIVER, DegradingParams
from streams.detect.evidence.link_history import LINK_KINDS
from streams.detect.evidence.params import WindowParams
from streams.detect.measure.port_states import PortStateTracker, SourceKey
from streams.detect.measure.storage.column_store import Column, ColumnMapping, MappingCache, TableDelta
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX, PortQuality, PortReadings, Source, Symptom, Window
from streams.wire.stage import Output
from streams.wire.symptoms import SymptomKind
from streams.wire.topics import PORT_STATES

WATCH_NS = ns(5 * 86_400)
"""Four days until a repair at the latest (CorrOpt, SIGCOMM'17), and one day to report and verify it."""

REQUEST_NS = ns(7200)
"""A request is repeated every hour while its target is out of service; one may be lost."""

MAX_PORTS = 1024
"""The most watched ports in a partition; the port with the oldest last trigger is dropped, a requested one last. 8,192
ports with 8 partitions send 137 records a second; a fabric of 131,072 GPUs has some 40 faulty links a day."""

_STORMS = (SymptomKind.PAUSE_SENT_BEGAN, SymptomKind.PFC_WATCHDOG_STORM)
"""The policy also drains a NIC's link for these."""

_DAMAGED = (*LOSSES, Metric.LLR_RX_BAD, Metric.PLR_RX_UNCORRECTABLE, *OF_FAR_RECEIVER)
"""Counters of frames that the link lost, or has to send again."""
_ERRORS = frozenset({*_DAMAGED, Metric.RX_SYMBOL_ERRORS, Metric.RX_ERRORS})
_COUNTERS = _ERRORS | {Metric.LLR_RX_POISONED, Metric.RX_BITS, Metric.FEC_CORRECTED_BITS, Metric.RX_BYTES}
_SNR = (Metric.MEDIA_SNR_DB, Metric.HOST_SNR_DB)
_FAMILY = {metric: metric if metric not in _SNR else Metric.MEDIA_SNR_DB for metric in LEVELS}
"""Metric -> the level under which it is sent."""

_OPER: Column = (Metric.OPER_UP, NO_INDEX)
_ADMIN: Column = (Metric.ADMIN_UP, NO_INDEX)
_SPEED: Column = (Metric.SPEED_BPS, NO_INDEX)


@dataclass(slots=True)
class WatchedPort:
    """Accumulated readings of a port since `begin_ns`, which is 0 before the first reading of a run."""

    until_ns: int
    begin_ns: int = 0
    end_ns: int = 0
    ber: float | None = None
    growth: dict[Metric, float] = field(default_factory=dict)
    """The growth of the counters that are read."""
    nearest: dict[Metric, tuple[float, float]] = field(default_factory=dict)
    """Level -> the reading that is nearest to its limit, and the limit."""
    best: dict[Column, float] = field(default_factory=dict)
    """The best reading of each level since the port is watched."""
    requested_ns: int = 0
    """The end of the newest request of `decide`."""

    def begin(self, at_ns: int) -> None:
        self.begin_ns = self.end_ns = at_ns
        self.ber, self.growth, self.nearest = None, {}, {}


@dataclass(frozen=True, slots=True)
class _Positions:
    """The positions of the accumulated columns of a table."""

    counters: Sequence[tuple[int, Metric]]
    levels: Sequence[tuple[int, Column]]
    ber: int | None


def _positions(mapping: ColumnMapping) -> _Positions:
    items = mapping.position_of.items()
    return _Positions(
        [(position, metric) for (metric, index), position in items if metric in _COUNTERS and index == NO_INDEX],
        [(position, column) for column, position in items if column[0] in LEVELS],
        mapping.position_of.get((Metric.PRE_FEC_BER, NO_INDEX)),
    )


class QualityWatch:
    """The watched ports of one partition of `measure`."""

    def __init__(self, params: DegradingParams, window: WindowParams) -> None:
        self._params, self._step_db, self._interval_ns = params, window.optics_step_db, ns(window.readings_s)
        self.ports: dict[SourceKey, dict[str, WatchedPort]] = {}
        self._by_age: dict[tuple[SourceKey, str], None] = {}
        """All watched ports, in the order of their last triggers, oldest first."""
        self._positions = MappingCache(_positions)
        self.found: list[Output] = []
        """Outputs that were not returned yet."""

    def is_trigger(self, message: Symptom | Window) -> bool:
        """Return whether the port of a symptom or window is to be watched."""
        if isinstance(message, Symptom):
            return message.kind in LINK_KINDS or message.kind in _STORMS
        for metric, value, before in zip(message.metric, message.value, message.before, strict=True):
            if metric in _ERRORS:
                if value > 0:
                    return True
            elif metric is Metric.PRE_FEC_BER:
                if value >= self._params.ber_clear:
                    return True
            elif metric in LEVELS and before - value >= 0.9 * self._step_db:
                return True
        return False

    def watch(self, key: SourceKey, port: str, trigger: Symptom | Window) -> None:
        at_ns = trigger.at_ns
        watched = self._extend(key, port, at_ns + WATCH_NS)
        if isinstance(trigger, Window):
            for metric, index, *levels in zip(
                trigger.metric, trigger.index, trigger.value, trigger.before, strict=True
            ):
                if metric in LEVELS:
                    watched.best[metric, index] = max(watched.best.get((metric, index), levels[0]), *levels)
        elif watched.begin_ns <= at_ns and trigger.kind in LINK_KINDS:
            watched.begin_ns = 0
        self._limit(at_ns)

    def request(self, key: SourceKey, port: str, at_ns: int) -> None:
        watched = self._extend(key, port, at_ns + REQUEST_NS)
        watched.requested_ns = max(watched.requested_ns, at_ns + REQUEST_NS)
        self._limit(at_ns)

    def _extend(self, key: SourceKey, port: str, until_ns: int) -> WatchedPort:
        own = self.ports.setdefault(key, {})
        watched = own.pop(port, None) or WatchedPort(until_ns)
        watched.until_ns = max(watched.until_ns, until_ns)
        own[port] = watched  # moves it behind the others, as below
        self._by_age.pop((key, port), None)
        self._by_age[key, port] = None
        return watched

    def _limit(self, at_ns: int) -> None:
        """Drop the oldest port beyond the limit; one that `decide` requested only if all are requested."""
        if len(self._by_age) > MAX_PORTS:
            others = (own for own in self._by_age if self.ports[own[0]][own[1]].requested_ns <= at_ns)
            self._drop(*next(others, next(iter(self._by_age))))

    def _drop(self, key: SourceKey, port: str) -> None:
        del self._by_age[key, port]
        del self.ports[key][port]
        if not self.ports[key]:
            del self.ports[key]

    def process(self, batch: MessageBatch, states: PortStateTracker) -> None:
        """Accumulate the readings of watched ports; a silence of its source begins a new run."""
        for number, message in enumerate(batch.messages):
            key = message.slot.device, message.slot.source
            own = self.ports.get(key)
            if own is None:
                continue
            readings: list[PortReadings] = []
            rows = message.samples.row
            for port in list(own):
                if message.at_ns > own[port].until_ns:
                    self._drop(key, port)
                elif port in rows:
                    limit_ns = states.liveness.sources[key].limit_ns
                    readings += self._read(
                        batch, number, rows.index(port), own[port], states.since_ns(key, port), limit_ns
                    )
            if readings:
                self.found.append(Output(PORT_STATES, PortQuality(*key, tuple(readings))))

    def outputs(self) -> list[Output]:
        found, self.found = self.found, []
        return found

    def _read(
        self, batch: MessageBatch, number: int, row: int, port: WatchedPort, since_ns: int, limit_ns: int
    ) -> Iterator[PortReadings]:
        at_ns = batch.messages[number].at_ns
        if at_ns < port.end_ns:
            return
        if not _is_up(batch.gauges, number, row) or at_ns < since_ns:
            port.begin_ns = 0
            return
        if not port.begin_ns or port.begin_ns < since_ns or at_ns - port.end_ns > limit_ns:
            port.begin(at_ns)
        self._accumulate(batch, number, row, port)
        port.end_ns = at_ns
        if at_ns // self._interval_ns > port.begin_ns // self._interval_ns:
            yield self._readings(batch, number, row, port)
            port.begin(at_ns)

    def _accumulate(self, batch: MessageBatch, number: int, row: int, port: WatchedPort) -> None:
        counters, gauges = batch.counters, batch.gauges
        own = self._positions[counters.mapping].counters
        growth = {}
        for position, metric in own:
            if (grown := _growth(counters, (number, row), position, port.begin_ns)) is not None:
                growth[metric] = grown
                port.growth[metric] = port.growth.get(metric, 0.0) + grown
        bits = growth.get(Metric.RX_BITS)
        if bits and Metric.FEC_CORRECTED_BITS in growth:
            port.ber = max(port.ber or 0.0, growth[Metric.FEC_CORRECTED_BITS] / bits)
        places = self._positions[gauges.mapping]
        values = gauges.values[number, :, row]
        if places.ber is not None and (ber := float(values[places.ber])) == ber:
            port.ber = max(port.ber or 0.0, ber)
        for position, column in places.levels:
            level = float(values[position])
            if level != level:
                continue
            best = port.best[column] = max(port.best.get(column, level), level)
            limit, family = best - self._params.drop_clear_db, _FAMILY[column[0]]
            nearest = port.nearest.get(family)
            if nearest is None or level - limit < nearest[0] - nearest[1]:
                port.nearest[family] = level, limit

    def _readings(self, batch: MessageBatch, number: int, row: int, port: WatchedPort) -> PortReadings:
        growth = port.growth
        speed = _stored(batch.gauges, number, row, _SPEED)
        bits = growth.get(Metric.RX_BITS) or (speed if speed > 0 else 0.0) * (port.end_ns - port.begin_ns) / 1e9
        levels = [level for family in (Metric.RX_POWER_DBM, Metric.TX_POWER_DBM, Metric.MEDIA_SNR_DB)
                  for level in port.nearest.get(family, (None, None))]  # fmt: skip
        found = [port.ber, growth.get(Metric.FEC_CORRECTED_BITS), _errors(port), *levels, growth.get(Metric.RX_BYTES)]
        return PortReadings(
            batch.messages[number].samples.row[row], port.begin_ns, port.end_ns, bits, self._params.ber_clear, *found
        )

    def dump(self) -> list[Any]:
        return [
            [
                *key, port, own.until_ns, own.begin_ns, own.end_ns, own.ber, list(own.growth.items()),
                [[family, *level] for family, level in own.nearest.items()],
                [[*column, level] for column, level in own.best.items()], own.requested_ns,
            ]
            for key, port in self._by_age
            for own in (self.ports[key][port],)
        ]  # fmt: skip

    def load(self, data: Sequence[Any]) -> None:
        for device, number, port, until_ns, begin_ns, end_ns, ber, growth, nearest, best, *requested in data:
            key = device, Source(number)
            self._by_age[key, port] = None
            self.ports.setdefault(key, {})[port] = WatchedPort(
                until_ns, begin_ns, end_ns, ber, {Metric(metric): value for metric, value in growth},
                {Metric(family): (level, limit) for family, level, limit in nearest},
                {(Metric(metric), index): level for metric, index, level in best}, *requested,
            )  # fmt: skip


def _errors(port: WatchedPort) -> float | None:
    """Return symbol errors and lost or replayed frames; None if no such counter is read.

    Frames that an earlier link damaged are none.
    """
    growth = dict(port.growth)
    for metric in (Metric.RX_FCS_ERRORS, Metric.RX_ERRORS):
        if metric in growth:
            growth[metric] = max(0.0, growth[metric] - growth.get(Metric.LLR_RX_POISONED, 0.0))
    lost = [growth[metric] for metric in _DAMAGED if metric in growth]
    if not any(metric in growth for metric in LOSSES) and Metric.RX_ERRORS in growth:
        lost.append(growth[Metric.RX_ERRORS])
    # PAM4 links always have raw symbol errors, which are evidence only if no BER is read.
    if port.ber is None and Metric.RX_SYMBOL_ERRORS in growth:
        lost.append(growth[Metric.RX_SYMBOL_ERRORS])
    return max(lost, default=None)


def _is_up(gauges: TableDelta, number: int, row: int) -> bool:
    return _stored(gauges, number, row, _OPER) > 0 and not _stored(gauges, number, row, _ADMIN) <= 0


def _stored(gauges: TableDelta, number: int, row: int, column: Column) -> float:
    """Return a gauge from the message, else its last reading; NaN if neither is known."""
    position = gauges.mapping.position_of.get(column)
    if position is not None and (value := float(gauges.values[number, position, row])) == value:
        return value
    place = gauges.store.index_of.get(column)
    return (
        float("nan") if place is None else float(gauges.store.values[gauges.devices[number], place, _own(gauges, row)])
    )


def _own(delta: TableDelta, row: int) -> int:
    """Return the index of a message's row in its device."""
    return row if delta.rows is None else int(delta.rows[row])


def _growth(counters: TableDelta, cell: tuple[int, int], position: int, since_ns: int) -> float | None:
    """Return the growth of a counter since its last reading; None if that is before `since_ns` or it was reset."""
    number, row = cell
    now = int(counters.values[number, position, row])
    if now == ABSENT_COUNTER or counters.since_ns(position, number, row) < since_ns:
        return None
    place = counters.mapping.columns[position]
    before = int(counters.store.values[counters.devices[number], place, _own(counters, row)])
    return float(now - before) if before <= now and before != ABSENT_COUNTER else None
