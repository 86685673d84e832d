"""Maps the fields of Telegraf's snmp, infiniband and ethtool inputs to metrics; the vendor profiles map gNMI's.

snmp: the names are the MIBs' columns; each row of a table is one metric. The site chooses the measurement's name;
`agent_host` is always among the tags. Only 64-bit counters of octets and packets are used: a 32-bit one wraps within a
second at 40 Gb/s.
infiniband: the kernel's names in `/sys/class/infiniband`; tags `device` (RDMA), `port`; `gather_rdma` adds hw_counters.
ethtool: the names are the drivers' statistics and the plugin's own fields; the tags are `interface`, `driver`, `host`.
"""

from dataclasses import dataclass
from enum import Enum

from collectors.bridge import values
from collectors.bridge.points import Fields
from collectors.kernel.signals import COUNTERS, HW_COUNTERS, Rank, ethtool_signal
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX


class Kind(Enum):
    """The ways to process a field's value."""

    VALUE = "value"
    BOOT_TIME = "boot-time"  # the time at which the device started
    UPTIME = "uptime"  # hundredths of a second since the boot
    NAME = "name"  # the port's name, among the values because its path lacks it


@dataclass(frozen=True, slots=True)
class Signal:
    """One field: its metric, its lane or queue, its reader and its rank.

    If several fields of one port have the same metric in one reading, the highest `rank` is used. A `secondary` signal
    is used only in a row with other values.
    """

    kind: Kind
    metric: Metric | None = None
    read: values.Reader = values.gauge
    rank: int = 0
    lane: int = NO_INDEX
    secondary: bool = False


def counter(metric: Metric, rank: int = 0, lane: int = NO_INDEX) -> Signal:
    """Return the signal of a counter without conversion."""
    return Signal(Kind.VALUE, metric, values.counter, rank, lane)


def gauge(metric: Metric, read: values.Reader = values.gauge) -> Signal:
    """Return the signal of a gauge or a state."""
    return Signal(Kind.VALUE, metric, read)


SNMP: dict[str, Signal] = {
    "ifHCInOctets": counter(Metric.RX_BYTES),
    "ifHCOutOctets": counter(Metric.TX_BYTES),
    "ifInDiscards": counter(Metric.RX_DISCARDS),
    "ifOutDiscards": counter(Metric.TX_DISCARDS),
    "ifInErrors": counter(Metric.RX_ERRORS),
    "ifOutErrors": counter(Metric.TX_ERRORS),
    "dot3StatsFCSErrors": counter(Metric.RX_FCS_ERRORS),
    "dot3HCStatsFCSErrors": counter(Metric.RX_FCS_ERRORS, rank=1),
    "dot3StatsSymbolErrors": counter(Metric.RX_SYMBOL_ERRORS),
    "dot3HCStatsSymbolErrors": counter(Metric.RX_SYMBOL_ERRORS, rank=1),
    "dot3InPauseFrames": counter(Metric.PAUSE_RX_FRAMES),
    "dot3HCInPauseFrames": counter(Metric.PAUSE_RX_FRAMES, rank=1),
    "dot3OutPauseFrames": counter(Metric.PAUSE_TX_FRAMES),
    "dot3HCOutPauseFrames": counter(Metric.PAUSE_TX_FRAMES, rank=1),
    # A request is a frame that this port sends, an indication a frame that it receives. Each sums all priorities, so it
    # has no index.
    "ieee8021PfcRequests": counter(Metric.PFC_TX_FRAMES),
    "ieee8021PfcIndications": counter(Metric.PFC_RX_FRAMES),
    "ifOperStatus": gauge(Metric.OPER_UP, values.oper_up),
    "ifAdminStatus": gauge(Metric.ADMIN_UP, values.admin_up),
    "ifHighSpeed": gauge(Metric.SPEED_BPS, values.scaled(1e6)),  # 0 while up on 311 of 517 devices: 0 is absent
    "uptime": Signal(Kind.UPTIME),
    "sysUpTime": Signal(Kind.UPTIME),
    "sysUpTimeInstance": Signal(Kind.UPTIME),
    "ifHCInPkts": counter(Metric.RX_PACKETS),
    "ifHCOutPkts": counter(Metric.TX_PACKETS),
}

SNMP_SUMS: dict[str, tuple[str, ...]] = {
    "ifHCInPkts": ("ifHCInUcastPkts", "ifHCInMulticastPkts", "ifHCInBroadcastPkts"),
    "ifHCOutPkts": ("ifHCOutUcastPkts", "ifHCOutMulticastPkts", "ifHCOutBroadcastPkts"),
}
"""Packets are the sum of three columns; the sum is absent if a column is missing."""


def with_sums(fields: Fields) -> Fields:
    """Return the fields of a row of SNMP with their sums."""
    by_name = dict(fields)
    sums: Fields = []
    for name, parts in SNMP_SUMS.items():
        found = [by_name.get(part) for part in parts]
        if all(type(part) is int and part >= 0 for part in found):
            sums.append((name, sum(part for part in found if isinstance(part, int)) % 2**64))
    return [*fields, *sums]


INFINIBAND: dict[str, Signal] = {
    name: Signal(Kind.VALUE, signal.metric, values.counter if signal.factor == 1 else values.times(signal.factor))
    for name, signal in (COUNTERS | HW_COUNTERS).items()
}

ETHTOOL_ADDED: dict[str, Signal] = {
    "link": gauge(Metric.OPER_UP, values.is_set),
    "interface_up": gauge(Metric.ADMIN_UP, values.is_set),
    "speed": gauge(Metric.SPEED_BPS, values.scaled(1e6)),  # in Mb/s; -1 or 2^32-1 is absent
}
"""The fields that the plugin adds."""


def ethtool(name: str) -> Signal | None:
    """Return the signal of an ethtool statistic; None if it is not collected."""
    if (added := ETHTOOL_ADDED.get(name)) is not None:
        return added
    found = ethtool_signal(name)
    # Signals use the highest rank, ethtool's table the lowest.
    return None if found is None else counter(found.metric, max(Rank) - found.rank, found.lane)
