"""Defines the fabrics of the benchmark: their sources, the cadences, and the faults that these sources can show.

Each is the simulated day of a seed, read in a different way. A fault that its sources cannot certainly show counts
neither as found nor as missed; the report has the reason.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from lab.bench.detection.infiniband import CADENCE_S, by_infiniband, hidden_from_infiniband
from lab.world.delivery_model import Cadence
from lab.world.faults.congestion import DELAYED
from lab.world.faults.devices import STRAY
from streams.detect.detectors import DETECTORS
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.replay.score import Truth
from streams.wire.models import CollectorStatus, Condition, Event, Facts, Message, Samples, Source, Table

SNMP_METRICS = frozenset(
    {
        Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS, Metric.MODULE_TEMPERATURE_C, Metric.RX_POWER_DBM,
        Metric.TX_POWER_DBM, Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS,
        Metric.RX_DISCARDS, Metric.TX_DISCARDS, Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.PAUSE_RX_FRAMES,
        Metric.PAUSE_TX_FRAMES, Metric.PFC_RX_FRAMES, Metric.PFC_TX_FRAMES,
    }
)  # fmt: skip
"""The simulated columns that the SNMP collector reads (IF-MIB, EtherLike-MIB, IEEE8021-PFC-MIB, ENTITY-SENSOR-MIB)."""

SNMP_CADENCE_S, SLOW_CADENCE_S = 30.0, 60.0

Filter = Callable[[Message], Message | None]
Reason = Callable[[Truth, str, Topology], str]
"""Returns the reason why no source shows a fault, from its truth, its kind and the topology; empty if one does."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """One way to read a fabric."""

    description: str
    planes: int = 1
    is_sprayed: bool = False
    has_pause: bool = True
    cadence: Cadence = field(default_factory=Cadence)
    receive: Filter = lambda message: message
    """Returns a message as this fabric's sources send it; None if they do not send it."""
    hidden: Reason = lambda *_: ""
    shut_hidden: Mapping[str, str] = field(default_factory=dict)
    """The reason why a port shut at a device that no source reads looks like a failed link, by kind of device."""
    promises_delays: bool = False
    """True if docs/detection.md promises delays for it: all sources at their default cadences."""


def _by_snmp(message: Message) -> Message | None:
    if isinstance(message, Event) or getattr(message, "source", None) is not Source.SOURCE_GNMI:
        return None
    if isinstance(message, Samples):
        tables = (_columns(table) for table in (message.counters, message.gauges))
        counters, gauges = tables
        return replace(message, source=Source.SOURCE_SNMP, counters=counters, gauges=gauges)
    assert isinstance(message, CollectorStatus | Facts)
    return replace(message, source=Source.SOURCE_SNMP)


def _columns(table: Table) -> Table:
    places = [place for place, metric in enumerate(table.metric) if metric in SNMP_METRICS]
    return Table(
        tuple(table.metric[place] for place in places), tuple(table.index[place] for place in places),
        table.values[places],
    )  # fmt: skip


def _by_nic(message: Message) -> Message | None:
    return message if getattr(message, "source", None) is Source.SOURCE_NIC else None


def _without_strays(message: Message) -> Message | None:
    return None if isinstance(message, Event) and message.collector == STRAY else message


_HIDDEN = {detector.condition: detector.hidden_in for detector in DETECTORS}
"""The reason why a fabric's sources never show a fault, by condition and fabric; rules for single faults are below."""

_CONGESTION = (Condition.CONGESTION_PFC_STORM, Condition.CONGESTION_COLLAPSE, Condition.CONGESTION_INCAST)


def _too_short(truth: Truth, cadence_s: float) -> str:
    """Return why polls do not certainly show a fault because it ends before the next polls.

    A state that lasts for two polls is observed over a whole interval, a shorter one over parts of two. A silence looks
    like late polls until three are missing, the default of `[detect.stale]`.
    """
    lasts_s = (truth.end_ns - truth.start_ns) / 1e9
    if truth.condition in _CONGESTION and lasts_s < 2 * cadence_s:
        return "congestion of less than two polls"
    if truth.condition is Condition.TELEMETRY_STALE and lasts_s < 3 * cadence_s:
        return "a silence of less than three polls"
    return ""


def _hidden_from_snmp(truth: Truth, kind: str, topology: Topology) -> str:
    if (reason := _HIDDEN[truth.condition].get("snmp")) is not None:
        return reason
    device = topology.devices.get(truth.device)
    if truth.condition is Condition.LINK_DEGRADING:
        if device is not None and device.kind == "host":
            return "errors are counted by the end that receives them: the NIC"
        return "SNMP has no bit errors" if kind == "noisy" else ""
    if truth.condition is Condition.DEVICE_DOWN and device is not None and device.kind == "host":
        return "polls of its neighbors lie further apart than links that are lost together ([detect.grouping] links_s)"
    if truth.condition is Condition.LINK_DOWN and truth.end_ns - truth.start_ns < 60 * 10**9:
        return "an outage of less than two polls may show in one of them, which has no duration"
    if device is not None and device.kind == "host" and truth.condition in (
        Condition.TELEMETRY_STALE, Condition.FLEET_VERSION_DRIFT, Condition.HOST_THERMAL_THROTTLE,
        Condition.DEVICE_CLOCK_SKEW,
    ):  # fmt: skip
        return "no host is read"
    return _too_short(truth, SNMP_CADENCE_S)


def _hidden_from_nics(truth: Truth, kind: str, topology: Topology) -> str:
    if (reason := _HIDDEN[truth.condition].get("nic")) is not None:
        return reason
    device = topology.devices.get(truth.device)
    if truth.condition is Condition.CONGESTION_INCAST and kind == "dropped":
        return "packets that the switch drops are counted by the switch"
    if truth.condition is Condition.CONGESTION_INCAST and kind == DELAYED:
        return "no counter shows the queue, and no probes are sent"
    if device is None or device.kind == "host":
        return ""
    link = topology.link_at(Port(truth.device, truth.port)) if truth.port else None
    if link is None:
        return "no switch is read"
    if topology.devices[link.lower.device].kind != "host":
        return "no end of the link is read"
    if truth.condition is Condition.LINK_DEGRADING:
        return "errors are counted by the end that receives them: the switch"
    return ""


def _hidden_without_pause(truth: Truth, _kind: str, _topology: Topology) -> str:
    return _HIDDEN[truth.condition].get("no-pause", "")


def _hidden_from_infiniband(truth: Truth, kind: str, topology: Topology) -> str:
    reason = _HIDDEN[truth.condition].get("infiniband") or hidden_from_infiniband(truth, kind, topology)
    return reason or _too_short(truth, CADENCE_S)


def _hidden_at_60_s(truth: Truth, _kind: str, _topology: Topology) -> str:
    return _HIDDEN[truth.condition].get("slow") or _too_short(truth, SLOW_CADENCE_S)


FABRICS: dict[str, Fabric] = {
    "all": Fabric("all sources", promises_delays=True),
    "planes": Fabric("two planes, all sources", planes=2, promises_delays=True),
    "planes8": Fabric("eight planes, all sources", planes=8, promises_delays=True),
    "sprayed": Fabric("four planes with sprayed packets, all sources", planes=4, is_sprayed=True, promises_delays=True),
    "snmp": Fabric("SNMP alone, without traps", cadence=Cadence(SNMP_CADENCE_S, SNMP_CADENCE_S), receive=_by_snmp,
                   hidden=_hidden_from_snmp,
                   shut_hidden={"host": "no failure, but a port that was shut at the host: no host is read"}),
    "slow": Fabric("all sources, every 60 s", cadence=Cadence(SLOW_CADENCE_S, SLOW_CADENCE_S),
                   receive=_without_strays, hidden=_hidden_at_60_s),
    "no-pause": Fabric("all sources; congestion control instead of pause", has_pause=False,
                       hidden=_hidden_without_pause, promises_delays=True),
    "infiniband": Fabric("InfiniBand: UFM Telemetry every 30 s, and hosts", cadence=Cadence(CADENCE_S, 1.0),
                         receive=by_infiniband, hidden=_hidden_from_infiniband),
    "nic": Fabric("NIC data alone", receive=_by_nic, hidden=_hidden_from_nics,
                  shut_hidden={"switch": "no failure, but a port that was shut at the switch: no switch is read"}),
}  # fmt: skip

_T = TypeVar("_T", bound=int)


def received(fabric: Fabric, batches: Iterator[tuple[_T, list[Message]]]) -> Iterator[tuple[_T, list[Message]]]:
    """Yield the batches as the sources of a fabric send them."""
    for at_ns, batch in batches:
        yield at_ns, [sent for message in batch if (sent := fabric.receive(message)) is not None]
