"""Maps the kernel's and drivers' names of NIC counters to metrics; the only such table.

Several counters measure the same value; `Rank` selects one of them. Units are converted here.
Sources: Linux Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst, Documentation/ABI/stable/
sysfs-class-infiniband and sysfs-class-net-statistics, and the drivers' own tables of names (bnxt_re and bnxt_en, irdma,
ionic, i40e).
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX


class Rank(IntEnum):
    """Preference among the counters of a metric: the lowest is used. Netdev counters do not count RDMA."""

    PHYSICAL = 0
    RDMA = 1
    RDMA_EXTENDED = 2
    DRIVER = 3
    ROCE = 4
    """RoCE alone: the driver's counters of bnxt_en are those of the wire, and have Ethernet too."""
    FUNCTION = 5
    NETDEV = 6


@dataclass(frozen=True, slots=True)
class Signal:
    """One counter: its metric, its lane or priority, its unit factor, and its rank."""

    metric: Metric
    rank: Rank
    lane: int = NO_INDEX
    factor: int = 1
    is_part: bool = False
    """True if the counters of one metric and rank are parts of one sum."""


def _all(rank: Rank, metrics: dict[str, Metric]) -> dict[str, Signal]:
    return {name: Signal(metric, rank) for name, metric in metrics.items()}


_WORD = 4
"""`port_xmit_data` and `port_rcv_data` count units of 4 bytes (IBTA 16.1.3.5)."""

COUNTERS: dict[str, Signal] = _all(
    Rank.RDMA,
    {
        "port_rcv_packets": Metric.RX_PACKETS,
        "port_xmit_packets": Metric.TX_PACKETS,
        "port_rcv_discards": Metric.RX_DISCARDS,
        "port_xmit_discards": Metric.TX_DISCARDS,
        "port_rcv_errors": Metric.RX_ERRORS,
        "link_downed": Metric.LINK_DOWN_EVENTS,
        "symbol_error": Metric.RX_SYMBOL_ERRORS,
        "link_error_recovery": Metric.LINK_ERROR_RECOVERIES,
        "local_link_integrity_errors": Metric.LOCAL_LINK_INTEGRITY_ERRORS,
        "excessive_buffer_overrun_errors": Metric.EXCESSIVE_BUFFER_OVERRUNS,
        "port_rcv_remote_physical_errors": Metric.RX_REMOTE_PHYSICAL_ERRORS,
        "port_rcv_switch_relay_errors": Metric.RX_SWITCH_RELAY_ERRORS,
        "port_xmit_wait": Metric.TX_WAIT_TICKS,
    },
) | {
    "port_rcv_data": Signal(Metric.RX_BYTES, Rank.RDMA, factor=_WORD),
    "port_xmit_data": Signal(Metric.TX_BYTES, Rank.RDMA, factor=_WORD),
}
"""`ports/N/counters`."""

COUNTERS_EXT: dict[str, Signal] = {
    "port_rcv_data_64": Signal(Metric.RX_BYTES, Rank.RDMA_EXTENDED, factor=_WORD),
    "port_xmit_data_64": Signal(Metric.TX_BYTES, Rank.RDMA_EXTENDED, factor=_WORD),
    "port_rcv_packets_64": Signal(Metric.RX_PACKETS, Rank.RDMA_EXTENDED),
    "port_xmit_packets_64": Signal(Metric.TX_PACKETS, Rank.RDMA_EXTENDED),
}
"""`ports/N/counters_ext`, of kernels before 4.6."""

SATURATES: dict[str, int] = {
    "link_downed": 2**8 - 1,
    "link_error_recovery": 2**8 - 1,
    "symbol_error": 2**16 - 1,
    "port_rcv_errors": 2**16 - 1,
    "port_xmit_discards": 2**16 - 1,
    "port_rcv_remote_physical_errors": 2**16 - 1,
    "port_rcv_switch_relay_errors": 2**16 - 1,
    "port_xmit_wait": 2**32 - 1,
}
"""Values at which a counter of old hardware saturates for ever (IBTA PortCounters)."""

HW_COUNTERS: dict[str, Signal] = _all(
    Rank.RDMA,
    {
        # mlx5; whether a virtual function's congestion counters are its own is not documented
        "np_ecn_marked_roce_packets": Metric.ROCE_ECN_MARKED_PACKETS,
        "np_cnp_sent": Metric.CNP_SENT,
        "rp_cnp_handled": Metric.CNP_HANDLED,
        "rp_cnp_ignored": Metric.CNP_IGNORED,
        "out_of_sequence": Metric.OUT_OF_SEQUENCE,
        "packet_seq_err": Metric.PACKET_SEQUENCE_ERRORS,
        "implied_nak_seq_err": Metric.IMPLIED_NAK_SEQUENCE_ERRORS,
        "local_ack_timeout_err": Metric.LOCAL_ACK_TIMEOUTS,
        "req_transport_retries_exceeded": Metric.TRANSPORT_RETRIES_EXCEEDED,
        "rnr_nak_retry_err": Metric.RNR_NAK_RETRIES,
        "roce_adp_retrans": Metric.ADAPTIVE_RETRANSMITS,
        "roce_slow_restart": Metric.ROCE_SLOW_RESTARTS,
        "out_of_buffer": Metric.OUT_OF_BUFFER,
        "rx_icrc_encapsulated": Metric.RX_ICRC_ERRORS,
        "duplicate_request": Metric.DUPLICATE_REQUESTS,
        "req_cqe_error": Metric.REQUESTER_CQE_ERRORS,
        "resp_cqe_error": Metric.RESPONDER_CQE_ERRORS,
        # bnxt_re
        "rx_ecn_marked_pkts": Metric.ROCE_ECN_MARKED_PACKETS,
        "tx_cnp_pkts": Metric.CNP_SENT,
        "rx_cnp_pkts": Metric.CNP_HANDLED,
        "oos_drop_count": Metric.OUT_OF_SEQUENCE,
        "seq_err_naks_rcvd": Metric.PACKET_SEQUENCE_ERRORS,
        "to_retransmits": Metric.LOCAL_ACK_TIMEOUTS,
        "max_retry_exceeded": Metric.TRANSPORT_RETRIES_EXCEEDED,
        "rnr_naks_rcvd": Metric.RNR_NAK_RETRIES,
        "dup_req": Metric.DUPLICATE_REQUESTS,
        "rx_out_of_buffer": Metric.OUT_OF_BUFFER,
        # irdma
        "RxECNMrkd": Metric.ROCE_ECN_MARKED_PACKETS,
        "cnpSent": Metric.CNP_SENT,
        "cnpHandled": Metric.CNP_HANDLED,
        "cnpIgnored": Metric.CNP_IGNORED,
        # ionic; the firmware names them, and reports 2^64-1 for one that it lacks
        "rx_rdma_ucast_bytes": Metric.RX_BYTES,
        "tx_rdma_ucast_bytes": Metric.TX_BYTES,
        "rx_rdma_ucast_pkts": Metric.RX_PACKETS,
        "tx_rdma_ucast_pkts": Metric.TX_PACKETS,
        "tx_rdma_retx_pkts": Metric.RETRANSMITTED_PACKETS,
        "resp_rx_outof_buf": Metric.OUT_OF_BUFFER,
        "resp_rx_dup_request": Metric.DUPLICATE_REQUESTS,
        "req_rx_impl_nak_seq_err": Metric.IMPLIED_NAK_SEQUENCE_ERRORS,
        "rx_rdma_ecn_pkts": Metric.ROCE_ECN_MARKED_PACKETS,
        "tx_rdma_cnp_pkts": Metric.CNP_SENT,
        "rx_rdma_cnp_pkts": Metric.CNP_HANDLED,
        "resp_rx_outouf_seq": Metric.OUT_OF_SEQUENCE,
        "req_rx_pkt_seq_err": Metric.PACKET_SEQUENCE_ERRORS,
        "tx_rdma_ack_timeout": Metric.LOCAL_ACK_TIMEOUTS,
        "req_tx_retry_excd_err": Metric.TRANSPORT_RETRIES_EXCEEDED,
        "req_rx_rnr_retry_err": Metric.RNR_NAK_RETRIES,
        # efa; a timeout also changes the path
        "retrans_pkts": Metric.RETRANSMITTED_PACKETS,
        "retrans_bytes": Metric.RETRANSMITTED_BYTES,
        "retrans_timeout_events": Metric.LOCAL_ACK_TIMEOUTS,
        "unresponsive_remote_events": Metric.UNRESPONSIVE_REMOTES,
        "impaired_remote_conn_events": Metric.IMPAIRED_CONNECTIONS,
    },
)
HW_COUNTERS |= {
    name: Signal(Metric.REQUESTER_CQE_ERRORS, Rank.RDMA, is_part=True)
    for name in ("rdma_read_wr_err", "rdma_write_wr_err")  # efa
}
HW_COUNTERS |= _all(
    Rank.ROCE,
    {
        # bnxt_re
        "rx_roce_only_bytes": Metric.RX_BYTES,
        "tx_roce_only_bytes": Metric.TX_BYTES,
        "rx_roce_only_pkts": Metric.RX_PACKETS,
        "tx_roce_only_pkts": Metric.TX_PACKETS,
    },
)
HW_COUNTERS |= _all(
    Rank.FUNCTION,
    {
        # efa, and bnxt_re for one function
        "rx_bytes": Metric.RX_BYTES,
        "tx_bytes": Metric.TX_BYTES,
        "rx_pkts": Metric.RX_PACKETS,
        "tx_pkts": Metric.TX_PACKETS,
        "rx_drops": Metric.RX_DISCARDS,
    },
)
"""`ports/N/hw_counters`."""

OF_FUNCTIONS: dict[str, Signal] = {
    name: signal for name, signal in HW_COUNTERS.items() if signal.metric is not Metric.RX_ICRC_ERRORS
}
"""`hw_counters` that a virtual function counts itself; mlx5 reads the others from the physical port."""

STATISTICS: dict[str, Signal] = _all(
    Rank.NETDEV,
    {
        "rx_bytes": Metric.RX_BYTES,
        "tx_bytes": Metric.TX_BYTES,
        "rx_packets": Metric.RX_PACKETS,
        "tx_packets": Metric.TX_PACKETS,
        "rx_dropped": Metric.RX_DISCARDS,
        "tx_dropped": Metric.TX_DISCARDS,
        "rx_errors": Metric.RX_ERRORS,
        "tx_errors": Metric.TX_ERRORS,
        "rx_crc_errors": Metric.RX_FCS_ERRORS,
    },
)
"""`statistics` of a netdev."""

NETDEV: dict[str, Signal] = _all(
    Rank.NETDEV,
    {"carrier_changes": Metric.LINK_TRANSITIONS, "carrier_down_count": Metric.LINK_DOWN_EVENTS},
)
"""Files of a netdev itself."""

PHYSICAL: dict[str, Metric] = {
    # mlx5
    "rx_bytes_phy": Metric.RX_BYTES,
    "tx_bytes_phy": Metric.TX_BYTES,
    "rx_packets_phy": Metric.RX_PACKETS,
    "tx_packets_phy": Metric.TX_PACKETS,
    "rx_discards_phy": Metric.RX_DISCARDS,
    "tx_discards_phy": Metric.TX_DISCARDS,
    "tx_errors_phy": Metric.TX_ERRORS,
    "link_down_events_phy": Metric.LINK_DOWN_EVENTS,
    "rx_crc_errors_phy": Metric.RX_FCS_ERRORS,
    "rx_symbol_err_phy": Metric.RX_SYMBOL_ERRORS,
    "rx_corrected_bits_phy": Metric.FEC_CORRECTED_BITS,
    "rx_bits_phy": Metric.RX_BITS,
    "rx_pcs_symbol_err_phy": Metric.PCS_SYMBOL_ERRORS,
    "rx_pause_ctrl_phy": Metric.PAUSE_RX_FRAMES,
    "tx_pause_ctrl_phy": Metric.PAUSE_TX_FRAMES,
    "rx_buffer_passed_thres_phy": Metric.RX_BUFFER_NEARLY_FULL,
    "tx_pause_storm_warning_events": Metric.PAUSE_STORM_WARNINGS,
    "tx_pause_storm_error_events": Metric.PAUSE_STORM_ERRORS,
    "rx_pci_signal_integrity": Metric.PCIE_RX_SIGNAL_ERRORS,
    "tx_pci_signal_integrity": Metric.PCIE_TX_SIGNAL_ERRORS,
    "outbound_pci_stalled_rd": Metric.PCIE_STALLED_READ_SECONDS,
    "outbound_pci_stalled_wr": Metric.PCIE_STALLED_WRITE_SECONDS,
    "outbound_pci_buffer_overflow": Metric.PCIE_BUFFER_OVERFLOWS,
    # bnxt_en
    "rx_fcs_err_frames": Metric.RX_FCS_ERRORS,
    "link_down_events": Metric.LINK_DOWN_EVENTS,
    "rx_corrected_bits": Metric.FEC_CORRECTED_BITS,
    "rx_bits": Metric.RX_BITS,
    "rx_pcs_symbol_err": Metric.PCS_SYMBOL_ERRORS,
    "rx_pause_frames": Metric.PAUSE_RX_FRAMES,
    "tx_pause_frames": Metric.PAUSE_TX_FRAMES,
    "rx_total_frames": Metric.RX_PACKETS,
    "tx_total_frames": Metric.TX_PACKETS,
    # ionic
    "octets_rx_ok": Metric.RX_BYTES,
    "octets_tx_ok": Metric.TX_BYTES,
    "frames_rx_ok": Metric.RX_PACKETS,
    "frames_tx_ok": Metric.TX_PACKETS,
    "frames_rx_bad_fcs": Metric.RX_FCS_ERRORS,
    # i40e
    "port.rx_bytes": Metric.RX_BYTES,
    "port.tx_bytes": Metric.TX_BYTES,
    "port.rx_dropped": Metric.RX_DISCARDS,
    "port.rx_crc_errors": Metric.RX_FCS_ERRORS,
}
"""Statistics of ethtool that the card counts on the wire."""

_BY_NUMBER: tuple[tuple[re.Pattern[str], dict[str, Metric]], ...] = (
    (re.compile(r"(?P<way>rx)_err_lane_(?P<lane>\d{1,2})_phy"), {"rx": Metric.LANE_RAW_ERRORS}),
    (
        re.compile(r"(?P<way>[rt]x)_prio(?P<lane>[0-7])_pause"),
        {"rx": Metric.PFC_RX_FRAMES, "tx": Metric.PFC_TX_FRAMES},
    ),
    (
        re.compile(r"(?P<way>[rt]x)_prio(?P<lane>[0-7])_pause_duration"),  # in µs (counters.rst)
        {"rx": Metric.PFC_RX_PAUSE_USECONDS, "tx": Metric.PFC_TX_PAUSE_USECONDS},
    ),
    (
        re.compile(r"(?P<way>[rt]x)_prio(?P<lane>[0-7])_pause_transition"),
        {"rx": Metric.PFC_RX_TRANSITIONS, "tx": Metric.PFC_TX_TRANSITIONS},
    ),
    (
        re.compile(r"(?P<way>[rt]x)_pfc_ena_frames_pri(?P<lane>[0-7])"),  # bnxt_en
        {"rx": Metric.PFC_RX_FRAMES, "tx": Metric.PFC_TX_FRAMES},
    ),
    (
        re.compile(r"pfc_pri(?P<lane>[0-7])_(?P<way>[rt]x)_duration_us"),  # bnxt_en
        {"rx": Metric.PFC_RX_PAUSE_USECONDS, "tx": Metric.PFC_TX_PAUSE_USECONDS},
    ),
    (
        re.compile(r"pfc_pri(?P<lane>[0-7])_(?P<way>[rt]x)_transitions"),  # bnxt_en
        {"rx": Metric.PFC_RX_TRANSITIONS, "tx": Metric.PFC_TX_TRANSITIONS},
    ),
)
"""Statistics whose name has the lane or priority: `rx_err_lane_3_phy`."""


_MODULE: dict[str, int] = {
    "module_unplug": 0,
    "module_bus_stuck": 1,
    "module_high_temp": 2,
    "module_bad_shorted": 3,
}
"""Module events of an mlx5 port, by their index in the metric: unplugged, then three faults."""


def ethtool_signal(name: str) -> Signal | None:
    """Return the signal of a driver's statistic; None if it is not collected."""
    if (metric := PHYSICAL.get(name)) is not None:
        return Signal(metric, Rank.PHYSICAL)
    if (generic := STATISTICS.get(name)) is not None:
        return Signal(generic.metric, Rank.DRIVER)
    if (kind := _MODULE.get(name)) is not None:
        return Signal(Metric.MODULE_EVENTS, Rank.PHYSICAL, kind)
    for pattern, metrics in _BY_NUMBER:
        if match := pattern.fullmatch(name):
            return Signal(metrics[match["way"]], Rank.PHYSICAL, int(match["lane"]))
    return None
