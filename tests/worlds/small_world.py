"""The small fabric as its devices would tell it, round after round, driven through all four stages."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from collectors.core.status_schedule import StatusSchedule
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
from tests.worlds.observations import GNMI, Cells, at, samples
from tests.worlds.small_fabric import topology

ROUND_S = 10
Seconds = tuple[float, float]


def stages(params: DetectParams | None = None, decide: DecideParams | None = None) -> Stages:
    """One of each."""
    params = params or DetectParams()
    return Stages(Measure(params), Correlate(params), Attribute(params), Decide(decide or DecideParams()))


@dataclass
class SmallWorld:
    """What goes wrong: spans of seconds by `device/port` or device."""

    topology: Topology = field(default_factory=topology)
    down: dict[str, list[Seconds]] = field(default_factory=dict)
    disabled: dict[str, list[Seconds]] = field(default_factory=dict)
    offline: dict[str, list[Seconds]] = field(default_factory=dict)
    """Devices that answer nobody, and whose links are dead at both ends."""
    not_polled: dict[str, list[Seconds]] = field(default_factory=dict)
    """Devices that nobody reads, though they are well."""
    boots: dict[str, float] = field(default_factory=dict)
    """Device -> when it started anew."""
    lossy: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that lose a frame a second to bad checksums, of a thousand; counters are read only where there are any."""
    slow: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that carry 70 % of the 200 Gb/s of all others; bytes are read only where there are any."""

    incast: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts that receive 97 % of 400 Gb/s, 40 % of it marked; all others are half full."""
    throttled: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports of hosts that are paused 60 % of the time and send a fifth of the 200 Gb/s of all others."""
    overloaded: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that send 60 % more than the 200 Gb/s of all others; bytes are read only where there are any."""
    pausing: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports that pause the far side all the time, so that it sends nothing; pause is read only where there are any."""
    pcie_stalled: frozenset[str] = frozenset()
    """Those of them whose NIC waits for its host."""

    def rounds(self, until: float, source: Source = GNMI, phase: float = 0) -> Iterator[Samples]:
        """Each device's readings, every ROUND_S."""
        t = phase
        while t <= until:
            for device, cables in self.topology.links_of.items():
                if self.is_silent(device, t):
                    continue
                states: dict[str, float | None] = {}
                admin: dict[str, float | None] = {}
                for cable in cables:
                    own = cable.lower if cable.lower.device == device else cable.upper
                    far = cable.far_end(own)
                    port = f"{device}/{own.port}"
                    states[own.port] = float(self.is_up(port, f"{far.device}/{far.port}", t))
                    admin[own.port] = float(not _in(self.disabled.get(port), t))
                values = {Metric.OPER_UP: states, Metric.ADMIN_UP: admin}
                if self.lossy:
                    lost = {
                        p: float(sum(max(0, min(t, e) - b) for b, e in self.lossy.get(f"{device}/{p}", ())))
                        for p in states
                    }
                    values |= {
                        Metric.RX_FCS_ERRORS: dict(lost),
                        Metric.RX_PACKETS: dict.fromkeys(states, 1e6 + 1000 * t),
                    }
                if self.slow:
                    sent = {
                        p: 25e9
                        * (1e6 + t - 0.3 * sum(max(0, min(t, e) - b) for b, e in self.slow.get(f"{device}/{p}", ())))
                        for p in states
                    }
                    values |= {Metric.RX_BYTES: dict(sent), Metric.TX_BYTES: dict(sent)}
                if self.overloaded:
                    values[Metric.TX_BYTES] = {
                        p: 25e9
                        * (
                            1e6
                            + t
                            + 0.6 * sum(max(0, min(t, e) - b) for b, e in self.overloaded.get(f"{device}/{p}", ()))
                        )
                        for p in states
                    }
                boot = 2 if t >= self.boots.get(device, float("inf")) else 1
                indexed = self._pause(device, states, t) if self.pausing else None
                if self.incast:
                    indexed = self._crowd(device, states, t)
                if self.throttled:
                    indexed = self._stifle(device, states, t)
                yield samples(device, t, values, source=source, boot_id=boot, sequence=round(t), indexed=indexed)
            t += ROUND_S

    def _pause(self, device: str, ports: Iterable[str], t: float) -> Cells:
        """What the ports of a device count of pause at priority 3, and of the bytes that it stops, at 400 Gb/s."""
        own = {port: self._paused_s(f"{device}/{port}", t) for port in ports}
        far = {port: self._paused_s(self._far(device, port), t) for port in ports}
        return {
            (Metric.PFC_TX_FRAMES, 3): {port: 12_000 * s for port, s in own.items()},
            (Metric.PFC_RX_FRAMES, 3): {port: 12_000 * s for port, s in far.items()},
            (Metric.RX_BYTES, -1): {port: 25e9 * (1e6 + t - s) for port, s in own.items()},
            (Metric.TX_BYTES, -1): {port: 25e9 * (1e6 + t - s) for port, s in far.items()},
            (Metric.PCIE_STALLED_WRITE_SECONDS, -1): {
                port: float(int(s)) * (f"{device}/{port}" in self.pcie_stalled) for port, s in own.items()
            },
            (Metric.SPEED_BPS, -1): dict.fromkeys(ports, 400e9),
        }

    def _crowd(self, device: str, ports: Iterable[str], t: float) -> Cells:
        """What the ports of a device count of what comes in."""
        more = {p: float(sum(max(0, min(t, e) - b) for b, e in self.incast.get(f"{device}/{p}", ()))) for p in ports}
        octets: dict[str, float | None] = {p: 25e9 * (1e6 + t + 0.94 * s) for p, s in more.items()}
        return {
            (Metric.RX_BYTES, -1): octets,
            (Metric.RX_PACKETS, -1): {p: (count or 0) / 4096 for p, count in octets.items()},
            (Metric.ROCE_ECN_MARKED_PACKETS, -1): {p: 0.4 * 1.94 * 25e9 / 4096 * s for p, s in more.items()},
        }

    def _stifle(self, device: str, ports: Iterable[str], t: float) -> Cells:
        """What the ports of a device count of pause and of what goes out."""
        less = {p: float(sum(max(0, min(t, e) - b) for b, e in self.throttled.get(f"{device}/{p}", ()))) for p in ports}
        return {
            (Metric.PFC_RX_PAUSE_USECONDS, 3): {p: 6e5 * s for p, s in less.items()},
            (Metric.TX_BYTES, -1): {p: 25e9 * (1e6 + t - 0.8 * s) for p, s in less.items()},
            (Metric.SPEED_BPS, -1): dict.fromkeys(less, 400e9),
        }

    def _far(self, device: str, port: str) -> str:
        cable = self.topology.link_at(Port(device, port))
        assert cable is not None
        far = cable.far_end(Port(device, port))
        return f"{far.device}/{far.port}"

    def _paused_s(self, port: str, t: float) -> float:
        return float(sum(max(0, min(t, end) - begin) for begin, end in self.pausing.get(port, ())))

    def other_messages(self, until: float) -> Iterator[Message]:
        """What is told beside the readings of ports, as a world that has more says it."""
        return iter(())

    def is_silent(self, device: str, t: float) -> bool:
        """Whether nothing is read of it."""
        return _in(self.offline.get(device), t) or _in(self.not_polled.get(device), t)

    def is_up(self, own: str, far: str, t: float) -> bool:
        """Whether the link between these ports carries a signal."""
        dead = any(_in(self.down.get(p), t) or _in(self.disabled.get(p), t) for p in (own, far))
        return not dead and not any(_in(self.offline.get(p.split("/")[0]), t) for p in (own, far))


def _in(spans: Sequence[Seconds] | None, t: float) -> bool:
    return any(begin <= t < end for begin, end in spans or ())


def status(
    device: str, t: float, *, reachable: bool = True, error: str = "", cadence: float = 10, collector: str = "g0"
) -> CollectorStatus:
    """A collector says whether it reaches its target."""
    return CollectorStatus(collector, 1, GNMI, device, at(t), reachable, error, cadence_ns=ns(cadence))


def _never(device: str) -> float:
    return float("inf")


Statuses = Callable[..., Iterator[CollectorStatus]]


def statuses(world: SmallWorld, until: float, *, dies: Callable[[str], float] = _never) -> Iterator[CollectorStatus]:
    """What collectors say, each until it dies: they hold what went silent for reachable, and say it once they doubt."""
    said = {device: StatusSchedule(device, ROUND_S) for device in world.topology.links_of}
    for step in range(int(until // ROUND_S) + 1):
        t = step * ROUND_S
        for device, schedule in said.items():
            if not world.is_silent(device, t):
                schedule.sampled(t)
            if t < dies(device) and schedule.is_due(t, reachable=True):
                yield status(device, t)


def statuses_each_round(
    world: SmallWorld, until: float, *, dies: Callable[[str], float] = _never
) -> Iterator[CollectorStatus]:
    """As recordings have them: one a device and round, until its collector dies."""
    for step in range(int(until // ROUND_S) + 1):
        t = step * ROUND_S
        yield from (status(device, t) for device in world.topology.links_of if t < dies(device))


def recorded(world: SmallWorld, until: float) -> Iterator[Message]:
    """All that is told of a world: readings, what is told beside them, and what collectors say."""
    yield from world.rounds(until)
    yield from world.other_messages(until)
    yield from statuses(world, until)


def play(
    messages: Iterable[Message],
    top: Topology | None = None,
    params: DetectParams | None = None,
    decide: DecideParams | None = None,
) -> list[Finding | Remediation]:
    """Every revision that a backtest of these messages says."""
    return list(drive(stages(params, decide), top or topology(), messages, ns(30)))


def measured(top: Topology, rows: Iterable[Samples], restart_at: float | None = None) -> list[Symptom]:
    """The symptoms that measure tells of them; restored from its own snapshot before `restart_at`."""
    stage, said = Measure(DetectParams()), []
    stage.start_epoch(1)
    stage.set_topology(top)
    for row in rows:
        if restart_at is not None and row.sampled_at_ns == at(restart_at):
            data = stage.snapshot()
            stage = Measure(DetectParams())
            stage.start_epoch(2)
            stage.set_topology(top)
            stage.restore(data)
        said += [o.message for o in stage.process([row]) if isinstance(o.message, Symptom)]
    return said


def findings(said: Iterable[Finding | Remediation]) -> list[Finding]:
    """The last revision of each finding, in the order of their beginnings."""
    newest = {one.id: one for one in said if isinstance(one, Finding)}
    return sorted(newest.values(), key=lambda f: (f.started_at_ns, f.subject.id))
