"""The catalogue of telemetry metrics: the kind, the unit and the index of each.

Metric names are defined here only; the numbers are those of `metric.proto`, and a contract test compares the two.
Values travel raw and are converted once, by the collector of the vendor.
"""

from dataclasses import dataclass
from enum import IntEnum


class Metric(IntEnum):
    """The metric numbers of `metric.proto`, which documents each."""

    RX_BYTES = 1
    TX_BYTES = 2
    RX_PACKETS = 3
    TX_PACKETS = 4
    RX_DISCARDS = 5
    TX_DISCARDS = 6
    RX_ERRORS = 7
    TX_ERRORS = 8
    LINK_DOWN_EVENTS = 20
    RX_FCS_ERRORS = 21
    RX_SYMBOL_ERRORS = 22
    FEC_CORRECTED_BITS = 23
    RX_BITS = 24
    FEC_CORRECTED_CODEWORDS = 25
    FEC_UNCORRECTED_CODEWORDS = 26
    LINK_TRANSITIONS = 27
    LANE_RAW_ERRORS = 28
    PCS_SYMBOL_ERRORS = 29
    FEC_CODEWORDS_BY_ERRORS = 30
    LINK_ERROR_RECOVERIES = 31
    LOCAL_LINK_INTEGRITY_ERRORS = 32
    EXCESSIVE_BUFFER_OVERRUNS = 33
    RX_REMOTE_PHYSICAL_ERRORS = 34
    RX_SWITCH_RELAY_ERRORS = 35
    OPER_UP = 40
    ADMIN_UP = 41
    SPEED_BPS = 42
    PRE_FEC_BER = 43
    POST_FEC_BER = 44
    FEC_FLR_OBSERVED = 45
    FEC_FLR_PREDICTED = 46
    DAMPED = 47
    BFD_SESSION_UP = 48
    BGP_SESSION_UP = 49
    RX_POWER_DBM = 60
    TX_POWER_DBM = 61
    BIAS_MA = 62
    MEDIA_SNR_DB = 63
    MODULE_TEMPERATURE_C = 64
    MODULE_VOLTAGE_V = 65
    HOST_SNR_DB = 66
    RX_LOS = 67
    TX_FAULT = 68
    MODULE_EVENTS = 69
    PFC_RX_FRAMES = 80
    PFC_TX_FRAMES = 81
    PFC_RX_PAUSE_USECONDS = 82
    PFC_TX_PAUSE_USECONDS = 83
    ECN_MARKED_PACKETS = 84
    QUEUE_TX_PACKETS = 85
    QUEUE_DROPPED_PACKETS = 86
    PAUSE_RX_FRAMES = 87
    PAUSE_TX_FRAMES = 88
    QUEUE_WATERMARK_BYTES = 89
    PFC_RX_TRANSITIONS = 90
    PFC_TX_TRANSITIONS = 91
    PAUSE_STORM_WARNINGS = 92
    PAUSE_STORM_ERRORS = 93
    RX_BUFFER_NEARLY_FULL = 94
    QUEUE_DEPTH_BYTES = 95
    PORT_ECN_MARKED_PACKETS = 96
    PFC_WATCHDOG_STORMS = 97
    TX_WAIT_TICKS = 98
    CNP_SENT = 100
    CNP_HANDLED = 101
    ROCE_ECN_MARKED_PACKETS = 102
    OUT_OF_SEQUENCE = 103
    PACKET_SEQUENCE_ERRORS = 104
    LOCAL_ACK_TIMEOUTS = 105
    TRANSPORT_RETRIES_EXCEEDED = 106
    ADAPTIVE_RETRANSMITS = 107
    ROCE_SLOW_RESTARTS = 108
    RNR_NAK_RETRIES = 109
    OUT_OF_BUFFER = 110
    RX_ICRC_ERRORS = 111
    PCIE_STALLED_READ_SECONDS = 112
    PCIE_STALLED_WRITE_SECONDS = 113
    CNP_IGNORED = 114
    PCIE_RX_SIGNAL_ERRORS = 115
    PCIE_TX_SIGNAL_ERRORS = 116
    IMPLIED_NAK_SEQUENCE_ERRORS = 117
    DUPLICATE_REQUESTS = 118
    REQUESTER_CQE_ERRORS = 119
    RESPONDER_CQE_ERRORS = 120
    PCIE_BUFFER_OVERFLOWS = 121
    PCIE_WIDTH_LANES = 130
    PCIE_SPEED_GTPS = 131
    PCIE_WIDTH_MAX_LANES = 132
    PCIE_SPEED_MAX_GTPS = 133
    GPU_TEMPERATURE_C = 150
    GPU_UTILIZATION_RATIO = 151
    GPU_POWER_W = 152
    NVLINK_TX_BYTES = 153
    NVLINK_RX_BYTES = 154
    NVLINK_CRC_ERRORS = 155
    NVLINK_REPLAYS = 156
    PCIE_REPLAYS = 157
    GPU_ECC_UNCORRECTED = 158
    COLLECTIVE_SIZE_BYTES = 170
    COLLECTIVE_ELEMENTS = 171
    COLLECTIVE_TIME_US = 172
    COLLECTIVE_ALGORITHM_BYTES_PER_S = 173
    COLLECTIVE_BUS_BYTES_PER_S = 174
    COLLECTIVE_WRONG_ELEMENTS = 175
    COLLECTIVE_RANKS = 176
    COLLECTIVE_RANK = 177


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The kind and unit of one metric.

    `unit` is the unit on the wire; `index` names what the column index counts (lane, priority, queue, bin, link,
    kind, placement, group), None where the metric is a scalar of the row.
    """

    counter: bool
    unit: str
    index: str | None = None


def _counter(unit: str, index: str | None = None) -> MetricSpec:
    return MetricSpec(counter=True, unit=unit, index=index)


def _gauge(unit: str, index: str | None = None) -> MetricSpec:
    return MetricSpec(counter=False, unit=unit, index=index)


CATALOGUE: dict[Metric, MetricSpec] = {
    Metric.RX_BYTES: _counter("bytes"),
    Metric.TX_BYTES: _counter("bytes"),
    Metric.RX_PACKETS: _counter("packets"),
    Metric.TX_PACKETS: _counter("packets"),
    Metric.RX_DISCARDS: _counter("packets"),
    Metric.TX_DISCARDS: _counter("packets"),
    Metric.RX_ERRORS: _counter("errors"),
    Metric.TX_ERRORS: _counter("errors"),
    Metric.LINK_DOWN_EVENTS: _counter("events"),
    Metric.RX_FCS_ERRORS: _counter("errors"),
    Metric.RX_SYMBOL_ERRORS: _counter("errors"),
    Metric.FEC_CORRECTED_BITS: _counter("bits"),
    Metric.RX_BITS: _counter("bits"),
    Metric.FEC_CORRECTED_CODEWORDS: _counter("codewords"),
    Metric.FEC_UNCORRECTED_CODEWORDS: _counter("codewords"),
    Metric.LINK_TRANSITIONS: _counter("events"),
    Metric.LANE_RAW_ERRORS: _counter("errors", "lane"),
    Metric.PCS_SYMBOL_ERRORS: _counter("errors"),
    Metric.FEC_CODEWORDS_BY_ERRORS: _counter("codewords", "bin"),
    Metric.LINK_ERROR_RECOVERIES: _counter("events"),
    Metric.LOCAL_LINK_INTEGRITY_ERRORS: _counter("errors"),
    Metric.EXCESSIVE_BUFFER_OVERRUNS: _counter("events"),
    Metric.RX_REMOTE_PHYSICAL_ERRORS: _counter("errors"),
    Metric.RX_SWITCH_RELAY_ERRORS: _counter("errors"),
    Metric.OPER_UP: _gauge("bool"),
    Metric.ADMIN_UP: _gauge("bool"),
    Metric.SPEED_BPS: _gauge("bit/s"),
    Metric.PRE_FEC_BER: _gauge("ratio"),
    Metric.POST_FEC_BER: _gauge("ratio"),
    Metric.FEC_FLR_OBSERVED: _gauge("ratio"),
    Metric.FEC_FLR_PREDICTED: _gauge("ratio"),
    Metric.DAMPED: _gauge("bool"),
    Metric.BFD_SESSION_UP: _gauge("bool"),
    Metric.BGP_SESSION_UP: _gauge("bool"),
    Metric.RX_POWER_DBM: _gauge("dBm", "lane"),
    Metric.TX_POWER_DBM: _gauge("dBm", "lane"),
    Metric.BIAS_MA: _gauge("mA", "lane"),
    Metric.MEDIA_SNR_DB: _gauge("dB", "lane"),
    Metric.MODULE_TEMPERATURE_C: _gauge("°C"),
    Metric.MODULE_VOLTAGE_V: _gauge("V"),
    Metric.HOST_SNR_DB: _gauge("dB", "lane"),
    Metric.RX_LOS: _gauge("bool", "lane"),
    Metric.TX_FAULT: _gauge("bool", "lane"),
    Metric.MODULE_EVENTS: _counter("events", "kind"),
    Metric.PFC_RX_FRAMES: _counter("frames", "priority"),
    Metric.PFC_TX_FRAMES: _counter("frames", "priority"),
    Metric.PFC_RX_PAUSE_USECONDS: _counter("µs", "priority"),
    Metric.PFC_TX_PAUSE_USECONDS: _counter("µs", "priority"),
    Metric.ECN_MARKED_PACKETS: _counter("packets", "queue"),
    Metric.QUEUE_TX_PACKETS: _counter("packets", "queue"),
    Metric.QUEUE_DROPPED_PACKETS: _counter("packets", "queue"),
    Metric.PAUSE_RX_FRAMES: _counter("frames"),
    Metric.PAUSE_TX_FRAMES: _counter("frames"),
    Metric.QUEUE_WATERMARK_BYTES: _gauge("bytes", "queue"),
    Metric.PFC_RX_TRANSITIONS: _counter("events", "priority"),
    Metric.PFC_TX_TRANSITIONS: _counter("events", "priority"),
    Metric.PAUSE_STORM_WARNINGS: _counter("events"),
    Metric.PAUSE_STORM_ERRORS: _counter("errors"),
    Metric.RX_BUFFER_NEARLY_FULL: _counter("events"),
    Metric.QUEUE_DEPTH_BYTES: _gauge("bytes", "queue"),
    Metric.PORT_ECN_MARKED_PACKETS: _counter("packets"),
    Metric.PFC_WATCHDOG_STORMS: _counter("events", "queue"),
    Metric.TX_WAIT_TICKS: _counter("ticks"),
    Metric.CNP_SENT: _counter("events"),
    Metric.CNP_HANDLED: _counter("events"),
    Metric.ROCE_ECN_MARKED_PACKETS: _counter("packets"),
    Metric.OUT_OF_SEQUENCE: _counter("events"),
    Metric.PACKET_SEQUENCE_ERRORS: _counter("errors"),
    Metric.LOCAL_ACK_TIMEOUTS: _counter("events"),
    Metric.TRANSPORT_RETRIES_EXCEEDED: _counter("events"),
    Metric.ADAPTIVE_RETRANSMITS: _counter("events"),
    Metric.ROCE_SLOW_RESTARTS: _counter("events"),
    Metric.RNR_NAK_RETRIES: _counter("events"),
    Metric.OUT_OF_BUFFER: _counter("events"),
    Metric.RX_ICRC_ERRORS: _counter("errors"),
    Metric.PCIE_STALLED_READ_SECONDS: _counter("s"),
    Metric.PCIE_STALLED_WRITE_SECONDS: _counter("s"),
    Metric.CNP_IGNORED: _counter("events"),
    Metric.PCIE_RX_SIGNAL_ERRORS: _counter("errors"),
    Metric.PCIE_TX_SIGNAL_ERRORS: _counter("errors"),
    Metric.IMPLIED_NAK_SEQUENCE_ERRORS: _counter("errors"),
    Metric.DUPLICATE_REQUESTS: _counter("events"),
    Metric.REQUESTER_CQE_ERRORS: _counter("errors"),
    Metric.RESPONDER_CQE_ERRORS: _counter("errors"),
    Metric.PCIE_BUFFER_OVERFLOWS: _counter("events"),
    Metric.PCIE_WIDTH_LANES: _gauge("lanes"),
    Metric.PCIE_SPEED_GTPS: _gauge("GT/s"),
    Metric.PCIE_WIDTH_MAX_LANES: _gauge("lanes"),
    Metric.PCIE_SPEED_MAX_GTPS: _gauge("GT/s"),
    Metric.GPU_TEMPERATURE_C: _gauge("°C"),
    Metric.GPU_UTILIZATION_RATIO: _gauge("ratio"),
    Metric.GPU_POWER_W: _gauge("W"),
    Metric.NVLINK_TX_BYTES: _counter("bytes", "link"),
    Metric.NVLINK_RX_BYTES: _counter("bytes", "link"),
    Metric.NVLINK_CRC_ERRORS: _counter("errors", "link"),
    Metric.NVLINK_REPLAYS: _counter("events", "link"),
    Metric.PCIE_REPLAYS: _counter("events"),
    Metric.GPU_ECC_UNCORRECTED: _counter("events"),
    Metric.COLLECTIVE_SIZE_BYTES: _gauge("bytes", "placement"),
    Metric.COLLECTIVE_ELEMENTS: _gauge("elements", "placement"),
    Metric.COLLECTIVE_TIME_US: _gauge("µs", "placement"),
    Metric.COLLECTIVE_ALGORITHM_BYTES_PER_S: _gauge("bytes/s", "placement"),
    Metric.COLLECTIVE_BUS_BYTES_PER_S: _gauge("bytes/s", "placement"),
    Metric.COLLECTIVE_WRONG_ELEMENTS: _gauge("elements", "placement"),
    Metric.COLLECTIVE_RANKS: _gauge("ranks", "placement"),
    Metric.COLLECTIVE_RANK: _gauge("rank", "group"),
}

COUNTERS = tuple(m for m in Metric if CATALOGUE[m].counter)
GAUGES = tuple(m for m in Metric if not CATALOGUE[m].counter)
BY_NAME: dict[str, Metric] = {m.name.lower(): m for m in Metric}
