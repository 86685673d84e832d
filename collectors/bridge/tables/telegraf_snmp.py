"""Telegraf's `snmp` input: columns of the MIBs by their names, one metric for each row of a table.

The site chooses the measurement's name; `agent_host` is always among the tags. Only 64-bit counters of octets and
packets are used: a 32-bit one wraps within a second at 40 Gb/s.
"""

from collectors.bridge import values
from collectors.bridge.points import Fields
from collectors.bridge.signals import Kind, Signal, counter, gauge
from streams.fabric.catalogue import Metric

FIELDS: dict[str, Signal] = {
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
    # A request is a frame that this port sends, an indication one that it receives; all priorities, so no index.
    "ieee8021PfcRequests": counter(Metric.PFC_TX_FRAMES),
    "ieee8021PfcIndications": counter(Metric.PFC_RX_FRAMES),
    "ifOperStatus": gauge(Metric.OPER_UP, values.oper_up),
    "ifAdminStatus": gauge(Metric.ADMIN_UP, values.admin_up),
    "ifHighSpeed": gauge(Metric.SPEED_BPS, values.scaled(1e6)),  # 0 while up on 311 of 517 devices: then it is none
    "uptime": Signal(Kind.UPTIME),
    "sysUpTime": Signal(Kind.UPTIME),
    "sysUpTimeInstance": Signal(Kind.UPTIME),
    "ifHCInPkts": counter(Metric.RX_PACKETS),
    "ifHCOutPkts": counter(Metric.TX_PACKETS),
}

SUMS: dict[str, tuple[str, ...]] = {
    "ifHCInPkts": ("ifHCInUcastPkts", "ifHCInMulticastPkts", "ifHCInBroadcastPkts"),
    "ifHCOutPkts": ("ifHCOutUcastPkts", "ifHCOutMulticastPkts", "ifHCOutBroadcastPkts"),
}
"""Packets are the sum of three columns; if one of them is missing there is no sum."""

ROW_KEYS = ("ifName", "ifDescr", "ifIndex", "index")
DEVICE_KEYS = ("source", "sysName", "hostname", "agent_host")
"""`host` is Telegraf's own host, never the device."""


def with_sums(fields: Fields) -> Fields:
    """Return the fields of a row, with their sums."""
    by_name = dict(fields)
    sums: Fields = []
    for name, parts in SUMS.items():
        found = [by_name.get(part) for part in parts]
        if all(type(part) is int and part >= 0 for part in found):
            sums.append((name, sum(part for part in found if isinstance(part, int)) % 2**64))
    return [*fields, *sums]
