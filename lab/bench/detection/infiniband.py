"""Reads the simulated day as the sources of an InfiniBand fabric do: UFM Telemetry, and the collectors of hosts.

The traffic and the faults of links, hosts and devices are the same. A port that is paused is one that waits for
credits; marks, congestion notifications and probes do not exist.
"""

from dataclasses import replace

import numpy as np

from lab.world.columns import LINE_BPS
from lab.world.faults.congestion import STORM_FRAMES_PER_S
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.replay.score import Truth
from streams.wire.models import (
    ABSENT_COUNTER,
    NO_INDEX,
    CollectorStatus,
    Condition,
    Event,
    Facts,
    Message,
    ProbeReport,
    Samples,
    Source,
    Table,
)

CADENCE_S = 30.0
"""The interval of UFM Telemetry's first instance."""
_PAUSED_BYTES = LINE_BPS / 8 / STORM_FRAMES_PER_S
"""The bytes that a port does not send for a frame of pause. In a storm a frame arrives before the end of the last one:
with the whole time of each, the port would wait for 105 % of the time."""
_OF_SWITCH = {
    Metric.RX_BYTES: (Metric.RX_BYTES, 1.0), Metric.TX_BYTES: (Metric.TX_BYTES, 1.0),
    Metric.RX_PACKETS: (Metric.RX_PACKETS, 1.0), Metric.TX_PACKETS: (Metric.TX_PACKETS, 1.0),
    Metric.TX_DISCARDS: (Metric.TX_DISCARDS, 1.0), Metric.LINK_TRANSITIONS: (Metric.LINK_DOWN_EVENTS, 0.5),
    Metric.RX_FCS_ERRORS: (Metric.UNCORRECTED_SYMBOLS, 1.0),
    Metric.PFC_RX_FRAMES: (Metric.TX_WAIT_BYTES, _PAUSED_BYTES),
    **{metric: (metric, 1.0) for metric in (
        Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS, Metric.MODULE_TEMPERATURE_C, Metric.PRE_FEC_BER,
    )},
}  # fmt: skip
"""The columns of a switch, what UFM Telemetry has for them, and the factor."""
_NOT_AT_HOSTS = frozenset(
    {
        Metric.CNP_SENT, Metric.CNP_HANDLED, Metric.ROCE_ECN_MARKED_PACKETS, Metric.ROCE_SLOW_RESTARTS,
        Metric.RX_FCS_ERRORS, Metric.FEC_UNCORRECTED_CODEWORDS, Metric.PFC_RX_FRAMES, Metric.PFC_TX_FRAMES,
        Metric.PFC_RX_PAUSE_USECONDS, Metric.PFC_TX_PAUSE_USECONDS,
    }
)  # fmt: skip
"""The counters that an HCA does not have; its tick of PortXmitWait is unknown."""


def by_infiniband(message: Message) -> Message | None:
    """Return a message as the sources of an InfiniBand fabric send it; None if they do not send it."""
    if isinstance(message, ProbeReport):
        return None
    source = getattr(message, "source", None)
    if source is Source.SOURCE_NIC and isinstance(message, Samples):
        return replace(message, counters=_without(message.counters))
    if source is not Source.SOURCE_GNMI:
        return message
    match message:
        case Samples():
            return replace(
                message, source=Source.SOURCE_IB, boot_id=0,
                counters=_converted(message.counters), gauges=_converted(message.gauges),
            )  # fmt: skip
        case Facts():
            return replace(message, source=Source.SOURCE_IB, os_version="", booted_at_ns=0)
        case CollectorStatus():
            return replace(message, source=Source.SOURCE_IB)
        case _:
            assert isinstance(message, Event)
            return None


def _converted(table: Table) -> Table:
    columns = [(place, *_OF_SWITCH[metric]) for place, metric in enumerate(table.metric) if metric in _OF_SWITCH]
    values = table.values[[place for place, _, _ in columns]].copy()
    for row, (_, _, factor) in enumerate(columns):
        if factor != 1.0:
            known = values[row] != ABSENT_COUNTER
            values[row, known] = (values[row, known] * factor).astype(values.dtype)
    order = np.argsort([int(metric) for _, metric, _ in columns], kind="stable")
    return Table(tuple(columns[at][1] for at in order), (NO_INDEX,) * len(columns), values[order])


def _without(table: Table) -> Table:
    places = [place for place, metric in enumerate(table.metric) if metric not in _NOT_AT_HOSTS]
    return Table(
        tuple(table.metric[place] for place in places), tuple(table.index[place] for place in places),
        table.values[places],
    )  # fmt: skip


def hidden_from_infiniband(truth: Truth, kind: str, topology: Topology) -> str:
    """Return why no source of an InfiniBand fabric shows a fault; empty if one does. See Fabric.hidden."""
    device = topology.devices.get(truth.device)
    at_host = device is not None and device.kind == "host"
    link = topology.link_at(Port(truth.device, truth.port)) if truth.port else None
    match truth.condition:
        case Condition.CONGESTION_PFC_STORM if link is not None and not at_host:
            if topology.devices[link.lower.device].kind == "host":
                return "the host waits, and the tick of an HCA is unknown"
        case Condition.LINK_DEGRADING if at_host and kind == "lossy":
            return "an HCA's symbol errors are not read by the host's collector"
        case Condition.DEVICE_DOWN if not at_host and truth.end_ns - truth.start_ns < 3 * CADENCE_S * 10**9:
            return "a restart of a switch of less than three polls: its boots are not reported"
        case Condition.FLEET_VERSION_DRIFT | Condition.DEVICE_CLOCK_SKEW if not at_host:
            return "the versions and clocks of switches are not reported"
        case _:
            pass
    return ""
