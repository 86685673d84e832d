"""Telegraf's `ethtool` input: the drivers' own statistics, and what the plugin adds of itself.

Tags `interface`, `driver` and `host`. Names as in the kernel's mlx5/counters.rst and the tables of bnxt_en and i40e.
`interface_up`, `link` and `speed` (Mb/s; -1 or 2^32-1 for none) are the plugin's own.
"""

import re

from collectors.bridge import values
from collectors.bridge.signals import Signal, counter, gauge
from streams.fabric.catalogue import Metric

_PHYSICAL, _DRIVER = 9, 1
"""Physical first: a driver's generic counters miss what RDMA carries."""

FIELDS: dict[str, Signal] = {
    name: counter(metric, _PHYSICAL)
    for name, metric in {
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
        # i40e
        "port.rx_bytes": Metric.RX_BYTES,
        "port.tx_bytes": Metric.TX_BYTES,
        "port.rx_dropped": Metric.RX_DISCARDS,
        "port.rx_crc_errors": Metric.RX_FCS_ERRORS,
    }.items()
}
FIELDS |= {
    name: counter(metric, _DRIVER)
    for name, metric in {
        "rx_bytes": Metric.RX_BYTES,
        "tx_bytes": Metric.TX_BYTES,
        "rx_packets": Metric.RX_PACKETS,
        "tx_packets": Metric.TX_PACKETS,
        "rx_dropped": Metric.RX_DISCARDS,
        "tx_dropped": Metric.TX_DISCARDS,
        "rx_errors": Metric.RX_ERRORS,
        "tx_errors": Metric.TX_ERRORS,
        "rx_crc_errors": Metric.RX_FCS_ERRORS,
    }.items()
}
FIELDS |= {
    "link": gauge(Metric.OPER_UP, values.is_set),
    "interface_up": gauge(Metric.ADMIN_UP, values.is_set),
    "speed": gauge(Metric.SPEED_BPS, values.scaled(1e6)),
}

NUMBERED: tuple[tuple[re.Pattern[str], dict[str, Metric]], ...] = (
    (re.compile(r"(rx)_err_lane_(\d{1,2})_phy"), {"rx": Metric.LANE_RAW_ERRORS}),
    (re.compile(r"([rt]x)_prio([0-7])_pause"), {"rx": Metric.PFC_RX_FRAMES, "tx": Metric.PFC_TX_FRAMES}),
    (
        re.compile(r"([rt]x)_prio([0-7])_pause_duration"),  # in µs, says counters.rst
        {"rx": Metric.PFC_RX_PAUSE_USECONDS, "tx": Metric.PFC_TX_PAUSE_USECONDS},
    ),
    (
        re.compile(r"([rt]x)_prio([0-7])_pause_transition"),
        {"rx": Metric.PFC_RX_TRANSITIONS, "tx": Metric.PFC_TX_TRANSITIONS},
    ),
    (
        re.compile(r"([rt]x)_pfc_ena_frames_pri([0-7])"),  # bnxt_en
        {"rx": Metric.PFC_RX_FRAMES, "tx": Metric.PFC_TX_FRAMES},
    ),
)
"""The lane or priority is in the name: `rx_err_lane_3_phy`."""

ROW_KEYS = ("interface",)
DEVICE_KEYS = ("host",)


def signal(name: str) -> Signal | None:
    """What a statistic is to us, None where it is nothing."""
    if (found := FIELDS.get(name)) is not None:
        return found
    for pattern, metrics in NUMBERED:
        if said := pattern.fullmatch(name):
            return counter(metrics[said[1]], _PHYSICAL, int(said[2]))
    return None
