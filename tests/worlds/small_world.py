"""The messages that the devices of the small fabric send, round after round, and the four stages that process them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.core.poll import StatusSchedule
from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.replay.driver import Stages, drive
from streams.wire.models import CollectorStatus, Finding, Message, Remediation, Samples, Source, Symptom
from tests.worlds.measure_stage import detected
from tests.worlds.observations import GNMI, Cells, at, samples
from tests.worlds.small_fabric import topology

ROUND_S = 10
BYTES_S = 25e9
"""200 Gb/s."""
Seconds = tuple[float, float]


def stages(params: DetectParams | None = None, decide: DecideParams | None = None) -> Stages:
    """Return new stages."""
    params = params or DetectParams()
    return Stages(Measure(params), Correlate(params), Attribute(params), Decide(decide or DecideParams()))


@dataclass
class SmallWorld:
    """Faults of the small fabric, in seconds, by `device/port` or by device.

    Counters that only one kind of fault changes are read only if there are faults of that kind.
    """

    topology: Topology = field(default_factory=topology)
    down: dict[str, list[Seconds]] = field(default_factory=dict)
    disabled: dict[str, list[Seconds]] = field(default_factory=dict)
    offline: dict[str, list[Seconds]] = field(default_factory=dict)
    """Devices that do not answer, and whose links are down at both ends."""
    not_polled: dict[str, list[Seconds]] = field(default_factory=dict)
    """Healthy devices that are not polled."""
    boots: dict[str, float] = field(default_factory=dict)
    """By device, when it boots."""
    an_hour_ahead: dict[str, list[Seconds]] = field(default_factory=dict)
    """By device, when its clock is an hour ahead."""
    lossy: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that lose one of a thousand frames a second to bad checksums."""
    slow: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that carry 70 % of the 200 Gb/s of all others."""
    incast: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts that receive 97 % of 400 Gb/s, 40 % of it marked; all others are half full."""
    full: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts that receive 97 % of 400 Gb/s, none of it marked; all others are half full."""
    throttled: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts that are paused 60 % of the time and send a fifth of the 200 Gb/s of all others."""
    overloaded: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that send 60 % more than the 200 Gb/s of all others."""
    sessions_down: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that are up while their BFD session is down."""
    pausing: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that pause the far side all the time, so that it sends nothing."""
    pcie_stalled: frozenset[str] = frozenset()
    """Ports of `pausing` whose NIC waits for its host."""

    def rounds(self, until: float, source: Source = GNMI, phase: float = 0) -> Iterator[Samples]:
        """Yield the readings of each device, every ROUND_S."""
        t = phase
        while t <= until:
            for device in self.topology.links_of:
                if not self.is_silent(device, t):
                    yield self._reading(device, t, source)
            t += ROUND_S

    def _reading(self, device: str, t: float, source: Source) -> Samples:
        ends = {near.port: far for near, far in self._ends(device)}
        values: dict[Metric, dict[str, float | None]] = {
            Metric.OPER_UP: {
                name: float(self.is_up(f"{device}/{name}", f"{far.device}/{far.port}", t)) for name, far in ends.items()
            },
            Metric.ADMIN_UP: {name: float(not _in(self.disabled.get(f"{device}/{name}"), t)) for name in ends},
        }
        if self.sessions_down:
            values[Metric.BFD_SESSION_UP] = {
                name: float(not _in(self.sessions_down.get(f"{device}/{name}"), t)) for name in ends
            }
        if self.lossy:
            values[Metric.RX_FCS_ERRORS] = dict(self._faulty_s(self.lossy, device, ends, t))
            values[Metric.RX_PACKETS] = dict.fromkeys(ends, 1e6 + 1000 * t)
        if self.slow:
            slow_s = self._faulty_s(self.slow, device, ends, t)
            octets: dict[str, float | None] = {name: BYTES_S * (1e6 + t - 0.3 * s) for name, s in slow_s.items()}
            values |= {Metric.RX_BYTES: dict(octets), Metric.TX_BYTES: dict(octets)}
        if self.overloaded:
            more_s = self._faulty_s(self.overloaded, device, ends, t)
            values[Metric.TX_BYTES] = {name: BYTES_S * (1e6 + t + 0.6 * s) for name, s in more_s.items()}
        boot = 2 if t >= self.boots.get(device, float("inf")) else 1
        indexed = self._congestion(device, ends, t)
        own_t = t + 3600 * _in(self.an_hour_ahead.get(device), t)
        return samples(
            device, own_t, values, source=source, boot_id=boot, received=t, sequence=round(t), indexed=indexed
        )

    def _congestion(self, device: str, ends: Mapping[str, Port], t: float) -> Cells | None:
        if self.throttled:
            return self._read_throttled(device, ends, t)
        if self.incast or self.full:
            return self._read_incast(device, ends, t)
        return self._read_pausing(device, ends, t) if self.pausing else None

    def _read_pausing(self, device: str, ends: Mapping[str, Port], t: float) -> Cells:
        """Return the pause counters at priority 3 and the bytes that the pauses stop, at 400 Gb/s."""
        own_s = self._faulty_s(self.pausing, device, ends, t)
        far_s = {name: self._faulty_s(self.pausing, far.device, [far.port], t)[far.port] for name, far in ends.items()}
        return {
            (Metric.PFC_TX_FRAMES, 3): {name: 12_000 * s for name, s in own_s.items()},
            (Metric.PFC_RX_FRAMES, 3): {name: 12_000 * s for name, s in far_s.items()},
            (Metric.RX_BYTES, -1): {name: BYTES_S * (1e6 + t - s) for name, s in own_s.items()},
            (Metric.TX_BYTES, -1): {name: BYTES_S * (1e6 + t - s) for name, s in far_s.items()},
            (Metric.PCIE_STALLED_WRITE_SECONDS, -1): {
                name: float(int(s)) * (f"{device}/{name}" in self.pcie_stalled) for name, s in own_s.items()
            },
            (Metric.SPEED_BPS, -1): dict.fromkeys(ends, 400e9),
        }

    def _read_incast(self, device: str, ends: Mapping[str, Port], t: float) -> Cells:
        """Return the received bytes and packets, and the marked ones."""
        marked_s, full_s = (self._faulty_s(faults, device, ends, t) for faults in (self.incast, self.full))
        octets: dict[str, float | None] = {
            name: BYTES_S * (1e6 + t + 0.94 * (s + full_s[name])) for name, s in marked_s.items()
        }
        speeds: Cells = {(Metric.SPEED_BPS, -1): dict.fromkeys(ends, 400e9)} if self.full else {}
        return speeds | {
            (Metric.RX_BYTES, -1): octets,
            (Metric.RX_PACKETS, -1): {name: (count or 0) / 4096 for name, count in octets.items()},
            (Metric.ROCE_ECN_MARKED_PACKETS, -1): {n: 0.4 * 1.94 * BYTES_S / 4096 * s for n, s in marked_s.items()},
        }

    def _read_throttled(self, device: str, ends: Mapping[str, Port], t: float) -> Cells:
        """Return the time that ports are paused, and the bytes that they send."""
        paused_s = self._faulty_s(self.throttled, device, ends, t)
        return {
            (Metric.PFC_RX_PAUSE_USECONDS, 3): {name: 6e5 * s for name, s in paused_s.items()},
            (Metric.TX_BYTES, -1): {name: BYTES_S * (1e6 + t - 0.8 * s) for name, s in paused_s.items()},
            (Metric.SPEED_BPS, -1): dict.fromkeys(paused_s, 400e9),
        }

    def _ends(self, device: str) -> Iterator[tuple[Port, Port]]:
        """Yield the near and far end of each link of a device."""
        for link in self.topology.links_of[device]:
            near = link.lower if link.lower.device == device else link.upper
            yield near, link.far_end(near)

    @staticmethod
    def _faulty_s(
        faults: Mapping[str, Sequence[Seconds]], device: str, ports: Iterable[str], t: float
    ) -> dict[str, float]:
        """Return for how long each port of a device has been faulty until `t`."""
        return {
            name: float(sum(max(0, min(t, end) - begin) for begin, end in faults.get(f"{device}/{name}", ())))
            for name in ports
        }

    def other_messages(self, until: float) -> Iterator[Message]:
        """Yield the messages that are no readings of ports; subclasses have some."""
        return iter(())

    def is_silent(self, device: str, t: float) -> bool:
        """Return whether a device is offline or not polled."""
        return _in(self.offline.get(device), t) or _in(self.not_polled.get(device), t)

    def is_up(self, own: str, far: str, t: float) -> bool:
        """Return whether the link between two ports has a signal."""
        is_down = any(_in(self.down.get(p), t) or _in(self.disabled.get(p), t) for p in (own, far))
        return not is_down and not any(_in(self.offline.get(p.split("/")[0]), t) for p in (own, far))


def _in(intervals: Sequence[Seconds] | None, t: float) -> bool:
    return any(begin <= t < end for begin, end in intervals or ())


def status(
    device: str, t: float, *, reachable: bool = True, error: str = "", cadence: float = 10, collector: str = "g0"
) -> CollectorStatus:
    """Return the status of a target that a collector reports."""
    return CollectorStatus(collector, 1, GNMI, device, at(t), reachable, error, cadence_ns=ns(cadence))


def _never(device: str) -> float:
    return float("inf")


Statuses = Callable[..., Iterator[CollectorStatus]]


def statuses(world: SmallWorld, until: float, *, ends_at: Callable[[str], float] = _never) -> Iterator[CollectorStatus]:
    """Yield the statuses of collectors, each until it ends; a target counts as reachable until its collector doubts."""
    schedules = {device: StatusSchedule(device, ROUND_S) for device in world.topology.links_of}
    for step in range(int(until // ROUND_S) + 1):
        t = step * ROUND_S
        for device, schedule in schedules.items():
            if not world.is_silent(device, t):
                schedule.sampled(t)
            if t < ends_at(device) and schedule.is_due(t, reachable=True):
                yield status(device, t)


def statuses_each_round(
    world: SmallWorld, until: float, *, ends_at: Callable[[str], float] = _never
) -> Iterator[CollectorStatus]:
    """Yield one status for each device and round, as recordings have them, until its collector ends."""
    for step in range(int(until // ROUND_S) + 1):
        t = step * ROUND_S
        yield from (status(device, t) for device in world.topology.links_of if t < ends_at(device))


def recorded(world: SmallWorld, until: float) -> Iterator[Message]:
    """Yield all messages of a world: readings, other messages and statuses."""
    yield from world.rounds(until)
    yield from world.other_messages(until)
    yield from statuses(world, until)


def play(
    messages: Iterable[Message],
    top: Topology | None = None,
    params: DetectParams | None = None,
    decide: DecideParams | None = None,
) -> list[Finding | Remediation]:
    """Return every revision that a backtest of these messages publishes."""
    return list(drive(stages(params, decide), top or topology(), messages, ns(30)))


def measured(top: Topology, rows: Iterable[Samples], restart_at: float | None = None) -> list[Symptom]:
    """Return the symptoms that measure emits; it is restored from its own snapshot before `restart_at`."""
    stage, symptoms = Measure(DetectParams()), []
    stage.start_epoch(1)
    stage.set_topology(top)
    for row in rows:
        if restart_at is not None and row.sampled_at_ns == at(restart_at):
            data = stage.snapshot()
            stage = Measure(DetectParams())
            stage.start_epoch(2)
            stage.set_topology(top)
            stage.restore(data)
        symptoms += [o.message for o in detected(stage.process([row])) if isinstance(o.message, Symptom)]
    return symptoms


def findings(published: Iterable[Finding | Remediation]) -> list[Finding]:
    """Return the last revision of each finding, in the order of their starts."""
    newest = {one.id: one for one in published if isinstance(one, Finding)}
    return sorted(newest.values(), key=lambda f: (f.started_at_ns, f.subject.id))
