"""Which columns the simulated sources read, and what a healthy port counts in each.

The columns lie so that what a NIC reads and what a switch reads are each one stretch of them.
"""

from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX

Column = tuple[Metric, int]
LANES = 4
PRIORITY = 3
"""That of RoCE."""


def _plain(*metrics: Metric) -> tuple[Column, ...]:
    return tuple((metric, NO_INDEX) for metric in metrics)


_OF_NICS = (
    *_plain(
        Metric.LINK_DOWN_EVENTS, Metric.RX_SYMBOL_ERRORS, Metric.LINK_ERROR_RECOVERIES, Metric.CNP_SENT,
        Metric.CNP_HANDLED, Metric.ROCE_ECN_MARKED_PACKETS, Metric.OUT_OF_SEQUENCE, Metric.LOCAL_ACK_TIMEOUTS,
        Metric.ROCE_SLOW_RESTARTS, Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS,
    ),
    *((Metric.LANE_RAW_ERRORS, lane) for lane in range(LANES)),
    (Metric.PFC_RX_PAUSE_USECONDS, PRIORITY), (Metric.PFC_TX_PAUSE_USECONDS, PRIORITY),
)  # fmt: skip
_OF_BOTH = (
    *_plain(
        Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS, Metric.RX_DISCARDS, Metric.TX_DISCARDS,
        Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.FEC_CORRECTED_BITS, Metric.RX_BITS,
        Metric.FEC_UNCORRECTED_CODEWORDS,
    ),
    (Metric.PFC_RX_FRAMES, PRIORITY), (Metric.PFC_TX_FRAMES, PRIORITY),
)  # fmt: skip
_OF_SWITCHES = _plain(
    Metric.LINK_TRANSITIONS, Metric.PCS_SYMBOL_ERRORS, Metric.PAUSE_RX_FRAMES, Metric.PAUSE_TX_FRAMES,
    Metric.PORT_ECN_MARKED_PACKETS,
)  # fmt: skip
COUNTERS: tuple[Column, ...] = (*_OF_NICS, *_OF_BOTH, *_OF_SWITCHES)
COUNTER_INDEX = {column: place for place, column in enumerate(COUNTERS)}
NIC_COUNTERS = slice(0, len(_OF_NICS) + len(_OF_BOTH))
SWITCH_COUNTERS = slice(len(_OF_NICS), len(COUNTERS))

GAUGES: tuple[Metric, ...] = (
    Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS, Metric.RX_POWER_DBM, Metric.TX_POWER_DBM,
    Metric.MODULE_TEMPERATURE_C, Metric.PRE_FEC_BER, Metric.PCIE_WIDTH_LANES, Metric.PCIE_SPEED_GTPS,
    Metric.PCIE_WIDTH_MAX_LANES, Metric.PCIE_SPEED_MAX_GTPS,
)  # fmt: skip
GAUGE_INDEX = {metric: place for place, metric in enumerate(GAUGES)}
NIC_GAUGES = slice(0, 6)
"""A NIC's BER is its corrected bits over its bits."""
SWITCH_GAUGES = slice(0, 7)
HOST_GAUGES = slice(7, 11)

PER_BYTE: dict[Metric, tuple[Metric, float]] = {
    Metric.RX_PACKETS: (Metric.RX_BYTES, 1 / 4096),
    Metric.TX_PACKETS: (Metric.TX_BYTES, 1 / 4096),
    Metric.CNP_SENT: (Metric.RX_BYTES, 2e-8),
    Metric.CNP_HANDLED: (Metric.TX_BYTES, 2e-8),
    Metric.ROCE_ECN_MARKED_PACKETS: (Metric.RX_BYTES, 3e-8),
    Metric.PORT_ECN_MARKED_PACKETS: (Metric.TX_BYTES, 3e-8),
}
"""What grows by traffic: of which direction, and by how much a byte."""
RARE_COUNTERS = (
    Metric.RX_DISCARDS, Metric.TX_DISCARDS, Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS,
    Metric.FEC_UNCORRECTED_CODEWORDS, Metric.OUT_OF_SEQUENCE, Metric.LOCAL_ACK_TIMEOUTS, Metric.PCS_SYMBOL_ERRORS,
)  # fmt: skip
"""What a healthy port counts now and then, one at a time."""
RARE_PER_PORT_HOUR = 0.02
"""As the load of `bench pipeline` has it: one port in fifty counts one an hour."""
