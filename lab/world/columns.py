"""Declares the columns that the simulated sources read, and the counts of a healthy port in each.

The columns are ordered so that a NIC and a switch each read one contiguous slice of them.
"""

from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX

Column = tuple[Metric, int]
LANES = 4
PRIORITY = 3
"""The priority of RoCE."""
LINE_BPS = 400e9
FRAME_BYTES = 4096
"""All frames have one size, as most training traffic has."""
RX_BITS_PER_S = 4.25e11
"""The bits that a 400G port receives per second, with or without traffic."""
PAUSE_FRAMES_PER_S = 11_921.0
"""The rate of frames that pauses a port of 400 Gb/s all the time (IEEE 802.1Qbb: 65535 quanta of 512 bits)."""


def _plain(*metrics: Metric) -> tuple[Column, ...]:
    return tuple((metric, NO_INDEX) for metric in metrics)


_NICS_ONLY = (
    *_plain(
        Metric.LINK_DOWN_EVENTS, Metric.RX_SYMBOL_ERRORS, Metric.LINK_ERROR_RECOVERIES, Metric.CNP_SENT,
        Metric.CNP_HANDLED, Metric.ROCE_ECN_MARKED_PACKETS, Metric.OUT_OF_SEQUENCE, Metric.LOCAL_ACK_TIMEOUTS,
        Metric.ROCE_SLOW_RESTARTS, Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS,
    ),
    *((Metric.LANE_RAW_ERRORS, lane) for lane in range(LANES)),
    (Metric.PFC_RX_PAUSE_USECONDS, PRIORITY), (Metric.PFC_TX_PAUSE_USECONDS, PRIORITY),
)  # fmt: skip
_BOTH = (
    *_plain(
        Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS, Metric.RX_DISCARDS, Metric.TX_DISCARDS,
        Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.FEC_CORRECTED_BITS, Metric.RX_BITS,
        Metric.FEC_UNCORRECTED_CODEWORDS,
    ),
    (Metric.PFC_RX_FRAMES, PRIORITY), (Metric.PFC_TX_FRAMES, PRIORITY),
)  # fmt: skip
_SWITCHES_ONLY = _plain(
    Metric.LINK_TRANSITIONS, Metric.PCS_SYMBOL_ERRORS, Metric.PAUSE_RX_FRAMES, Metric.PAUSE_TX_FRAMES,
    Metric.PORT_ECN_MARKED_PACKETS,
)  # fmt: skip
COUNTERS: tuple[Column, ...] = (*_NICS_ONLY, *_BOTH, *_SWITCHES_ONLY)
COUNTER_INDEX = {column: index for index, column in enumerate(COUNTERS)}
NIC_COUNTERS = slice(0, len(_NICS_ONLY) + len(_BOTH))
SWITCH_COUNTERS = slice(len(_NICS_ONLY), len(COUNTERS))

GAUGES: tuple[Metric, ...] = (
    Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS, Metric.RX_POWER_DBM, Metric.TX_POWER_DBM,
    Metric.MODULE_TEMPERATURE_C, Metric.PRE_FEC_BER, Metric.PCIE_WIDTH_LANES, Metric.PCIE_SPEED_GTPS,
    Metric.PCIE_WIDTH_MAX_LANES, Metric.PCIE_SPEED_MAX_GTPS,
)  # fmt: skip
GAUGE_INDEX = {metric: index for index, metric in enumerate(GAUGES)}
NIC_GAUGES = slice(0, 6)
"""A NIC's BER is computed from its corrected bits and its bits."""
SWITCH_GAUGES = slice(0, 7)
HOST_GAUGES = slice(7, 11)

PER_BYTE: dict[Metric, tuple[Metric, float]] = {
    Metric.RX_PACKETS: (Metric.RX_BYTES, 1 / FRAME_BYTES),
    Metric.TX_PACKETS: (Metric.TX_BYTES, 1 / FRAME_BYTES),
    Metric.CNP_SENT: (Metric.RX_BYTES, 2e-8),
    Metric.CNP_HANDLED: (Metric.TX_BYTES, 2e-8),
    Metric.ROCE_ECN_MARKED_PACKETS: (Metric.RX_BYTES, 3e-8),
    Metric.PORT_ECN_MARKED_PACKETS: (Metric.TX_BYTES, 3e-8),
}
"""Counters that grow with traffic, each with its counter of bytes and its growth per byte."""
RARE_COUNTERS = (
    Metric.RX_DISCARDS, Metric.TX_DISCARDS, Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS,
    Metric.FEC_UNCORRECTED_CODEWORDS, Metric.OUT_OF_SEQUENCE, Metric.LOCAL_ACK_TIMEOUTS, Metric.PCS_SYMBOL_ERRORS,
)  # fmt: skip
"""Counters that occasionally grow by one on a healthy port."""
RARE_PER_PORT_HOUR = 0.02
"""One port in fifty counts one per hour."""
