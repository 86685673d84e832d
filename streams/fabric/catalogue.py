"""Defines the catalogue of telemetry metrics: the number, kind, unit and index of each.

Metric names are defined only here. `metric.proto` has the same numbers and documents each metric; a contract test
compares the two. Values are sent raw and converted once, by the collector of the vendor.
"""

from enum import IntEnum
from typing import Self

_COUNTER, _GAUGE = True, False


class Metric(IntEnum):
    """The metrics: number, kind, unit on the wire, and meaning of the column `index`.

    The index is a lane, priority, queue, bin, link, kind, placement or group; None for a scalar of the row.
    """

    _value_: int
    counter: bool
    unit: str
    index: str | None

    def __new__(cls, number: int, counter: bool = False, unit: str = "", index: str | None = None) -> Self:
        member = int.__new__(cls, number)
        member._value_ = number
        member.counter, member.unit, member.index = counter, unit, index
        return member

    RX_BYTES = 1, _COUNTER, "bytes"
    TX_BYTES = 2, _COUNTER, "bytes"
    RX_PACKETS = 3, _COUNTER, "packets"
    TX_PACKETS = 4, _COUNTER, "packets"
    RX_DISCARDS = 5, _COUNTER, "packets"
    TX_DISCARDS = 6, _COUNTER, "packets"
    RX_ERRORS = 7, _COUNTER, "errors"
    TX_ERRORS = 8, _COUNTER, "errors"
    LINK_DOWN_EVENTS = 20, _COUNTER, "events"
    RX_FCS_ERRORS = 21, _COUNTER, "errors"
    RX_SYMBOL_ERRORS = 22, _COUNTER, "errors"
    FEC_CORRECTED_BITS = 23, _COUNTER, "bits"
    RX_BITS = 24, _COUNTER, "bits"
    FEC_CORRECTED_CODEWORDS = 25, _COUNTER, "codewords"
    FEC_UNCORRECTED_CODEWORDS = 26, _COUNTER, "codewords"
    LINK_TRANSITIONS = 27, _COUNTER, "events"
    LANE_RAW_ERRORS = 28, _COUNTER, "errors", "lane"
    PCS_SYMBOL_ERRORS = 29, _COUNTER, "errors"
    FEC_CODEWORDS_BY_ERRORS = 30, _COUNTER, "codewords", "bin"
    LINK_ERROR_RECOVERIES = 31, _COUNTER, "events"
    LOCAL_LINK_INTEGRITY_ERRORS = 32, _COUNTER, "errors"
    EXCESSIVE_BUFFER_OVERRUNS = 33, _COUNTER, "events"
    RX_REMOTE_PHYSICAL_ERRORS = 34, _COUNTER, "errors"
    RX_SWITCH_RELAY_ERRORS = 35, _COUNTER, "errors"
    OPER_UP = 40, _GAUGE, "bool"
    ADMIN_UP = 41, _GAUGE, "bool"
    SPEED_BPS = 42, _GAUGE, "bit/s"
    PRE_FEC_BER = 43, _GAUGE, "ratio"
    POST_FEC_BER = 44, _GAUGE, "ratio"
    FEC_FLR_OBSERVED = 45, _GAUGE, "ratio"
    FEC_FLR_PREDICTED = 46, _GAUGE, "ratio"
    DAMPED = 47, _GAUGE, "bool"
    BFD_SESSION_UP = 48, _GAUGE, "bool"
    BGP_SESSION_UP = 49, _GAUGE, "bool"
    RX_POWER_DBM = 60, _GAUGE, "dBm", "lane"
    TX_POWER_DBM = 61, _GAUGE, "dBm", "lane"
    BIAS_MA = 62, _GAUGE, "mA", "lane"
    MEDIA_SNR_DB = 63, _GAUGE, "dB", "lane"
    MODULE_TEMPERATURE_C = 64, _GAUGE, "°C"
    MODULE_VOLTAGE_V = 65, _GAUGE, "V"
    HOST_SNR_DB = 66, _GAUGE, "dB", "lane"
    RX_LOS = 67, _GAUGE, "bool", "lane"
    TX_FAULT = 68, _GAUGE, "bool", "lane"
    MODULE_EVENTS = 69, _COUNTER, "events", "kind"
    PFC_RX_FRAMES = 80, _COUNTER, "frames", "priority"
    PFC_TX_FRAMES = 81, _COUNTER, "frames", "priority"
    PFC_RX_PAUSE_USECONDS = 82, _COUNTER, "µs", "priority"
    PFC_TX_PAUSE_USECONDS = 83, _COUNTER, "µs", "priority"
    ECN_MARKED_PACKETS = 84, _COUNTER, "packets", "queue"
    QUEUE_TX_PACKETS = 85, _COUNTER, "packets", "queue"
    QUEUE_DROPPED_PACKETS = 86, _COUNTER, "packets", "queue"
    PAUSE_RX_FRAMES = 87, _COUNTER, "frames"
    PAUSE_TX_FRAMES = 88, _COUNTER, "frames"
    QUEUE_WATERMARK_BYTES = 89, _GAUGE, "bytes", "queue"
    PFC_RX_TRANSITIONS = 90, _COUNTER, "events", "priority"
    PFC_TX_TRANSITIONS = 91, _COUNTER, "events", "priority"
    PAUSE_STORM_WARNINGS = 92, _COUNTER, "events"
    PAUSE_STORM_ERRORS = 93, _COUNTER, "errors"
    RX_BUFFER_NEARLY_FULL = 94, _COUNTER, "events"
    QUEUE_DEPTH_BYTES = 95, _GAUGE, "bytes", "queue"
    PORT_ECN_MARKED_PACKETS = 96, _COUNTER, "packets"
    PFC_WATCHDOG_STORMS = 97, _COUNTER, "events", "queue"
    TX_WAIT_TICKS = 98, _COUNTER, "ticks"
    CNP_SENT = 100, _COUNTER, "events"
    CNP_HANDLED = 101, _COUNTER, "events"
    ROCE_ECN_MARKED_PACKETS = 102, _COUNTER, "packets"
    OUT_OF_SEQUENCE = 103, _COUNTER, "events"
    PACKET_SEQUENCE_ERRORS = 104, _COUNTER, "errors"
    LOCAL_ACK_TIMEOUTS = 105, _COUNTER, "events"
    TRANSPORT_RETRIES_EXCEEDED = 106, _COUNTER, "events"
    ADAPTIVE_RETRANSMITS = 107, _COUNTER, "events"
    ROCE_SLOW_RESTARTS = 108, _COUNTER, "events"
    RNR_NAK_RETRIES = 109, _COUNTER, "events"
    OUT_OF_BUFFER = 110, _COUNTER, "events"
    RX_ICRC_ERRORS = 111, _COUNTER, "errors"
    PCIE_STALLED_READ_SECONDS = 112, _COUNTER, "s"
    PCIE_STALLED_WRITE_SECONDS = 113, _COUNTER, "s"
    CNP_IGNORED = 114, _COUNTER, "events"
    PCIE_RX_SIGNAL_ERRORS = 115, _COUNTER, "errors"
    PCIE_TX_SIGNAL_ERRORS = 116, _COUNTER, "errors"
    IMPLIED_NAK_SEQUENCE_ERRORS = 117, _COUNTER, "errors"
    DUPLICATE_REQUESTS = 118, _COUNTER, "events"
    REQUESTER_CQE_ERRORS = 119, _COUNTER, "errors"
    RESPONDER_CQE_ERRORS = 120, _COUNTER, "errors"
    PCIE_BUFFER_OVERFLOWS = 121, _COUNTER, "events"
    PCIE_WIDTH_LANES = 130, _GAUGE, "lanes"
    PCIE_SPEED_GTPS = 131, _GAUGE, "GT/s"
    PCIE_WIDTH_MAX_LANES = 132, _GAUGE, "lanes"
    PCIE_SPEED_MAX_GTPS = 133, _GAUGE, "GT/s"
    GPU_TEMPERATURE_C = 150, _GAUGE, "°C"
    GPU_UTILIZATION_RATIO = 151, _GAUGE, "ratio"
    GPU_POWER_W = 152, _GAUGE, "W"
    NVLINK_TX_BYTES = 153, _COUNTER, "bytes", "link"
    NVLINK_RX_BYTES = 154, _COUNTER, "bytes", "link"
    NVLINK_CRC_ERRORS = 155, _COUNTER, "errors", "link"
    NVLINK_REPLAYS = 156, _COUNTER, "events", "link"
    PCIE_REPLAYS = 157, _COUNTER, "events"
    GPU_ECC_UNCORRECTED = 158, _COUNTER, "events"
    COLLECTIVE_SIZE_BYTES = 170, _GAUGE, "bytes", "placement"
    COLLECTIVE_ELEMENTS = 171, _GAUGE, "elements", "placement"
    COLLECTIVE_TIME_US = 172, _GAUGE, "µs", "placement"
    COLLECTIVE_ALGORITHM_BYTES_PER_S = 173, _GAUGE, "bytes/s", "placement"
    COLLECTIVE_BUS_BYTES_PER_S = 174, _GAUGE, "bytes/s", "placement"
    COLLECTIVE_WRONG_ELEMENTS = 175, _GAUGE, "elements", "placement"
    COLLECTIVE_RANKS = 176, _GAUGE, "ranks", "placement"
    COLLECTIVE_RANK = 177, _GAUGE, "rank", "group"
    NVLINK_LINKS = 200, _GAUGE, "links"
    NVLINK_LINKS_UP = 201, _GAUGE, "links"
    NVLINK_RECOVERIES = 202, _COUNTER, "events", "link"
    NVLINK_FAILED_RECOVERIES = 203, _COUNTER, "events", "link"
    NVLINK_RX_ERRORS = 204, _COUNTER, "errors", "link"
    NVLINK_INTEGRITY_ERRORS = 205, _COUNTER, "errors", "link"
    NVLINK_TX_DISCARDS = 206, _COUNTER, "packets", "link"
    NVLINK_EFFECTIVE_ERRORS = 207, _COUNTER, "errors", "link"
    NVLINK_SYMBOL_ERRORS = 208, _COUNTER, "errors", "link"
    NVLINK_EFFECTIVE_BER = 209, _GAUGE, "ratio", "link"
    NVLINK_SYMBOL_BER = 210, _GAUGE, "ratio", "link"
    NVLINK_RAW_BER = 211, _GAUGE, "ratio", "link"
    GPU_FABRIC_STATE = 212, _GAUGE, "state"
    GPU_FABRIC_FAULTS = 213, _GAUGE, "bool", "kind"
    GPU_CLOCK_LIMITED_NS = 214, _COUNTER, "ns", "kind"
    GPU_POWER_LIMIT_W = 215, _GAUGE, "W"
    GPU_POWER_LIMIT_SET_W = 216, _GAUGE, "W"
    GPU_ROWS_REMAPPED = 217, _COUNTER, "rows", "kind"
    GPU_ROW_REMAP_STATE = 218, _GAUGE, "bool", "kind"
    GPU_RECOVERY_ACTION = 219, _GAUGE, "state"


COUNTERS = tuple(m for m in Metric if m.counter)
GAUGES = tuple(m for m in Metric if not m.counter)
BY_NAME: dict[str, Metric] = {m.name.lower(): m for m in Metric}
