"""The mapping of the leaves of a device's model, by path, in gnmic's events and Telegraf's gnmi input.

Paths are without keys, modules and origin, with hyphens (Telegraf writes underscores). OpenConfig first (DETECTION
2), then a few vendors' native paths of the same values.
"""

from collectors.bridge import values
from collectors.bridge.signals import Kind, Signal, counter, gauge
from streams.fabric.catalogue import Metric

PORT = "interfaces/interface/"
"""Below it the port is the interface's key."""

PORTS: dict[str, Signal] = {
    "state/counters/in-octets": counter(Metric.RX_BYTES),
    "state/counters/out-octets": counter(Metric.TX_BYTES),
    "state/counters/in-pkts": counter(Metric.RX_PACKETS),
    "state/counters/out-pkts": counter(Metric.TX_PACKETS),
    "state/counters/in-discards": counter(Metric.RX_DISCARDS),
    "state/counters/out-discards": counter(Metric.TX_DISCARDS),
    "state/counters/in-errors": counter(Metric.RX_ERRORS),
    "state/counters/out-errors": counter(Metric.TX_ERRORS),
    "state/counters/in-fcs-errors": counter(Metric.RX_FCS_ERRORS, rank=9),
    "state/counters/in-crc-error-pkts": counter(Metric.RX_FCS_ERRORS, rank=1),  # a device's own, below OpenConfig's
    # Each flap is two transitions in all three; `link-transitions` is before damping, so it has the highest rank.
    "state/counters/link-transitions": counter(Metric.LINK_TRANSITIONS, rank=3),
    "state/counters/interface-transitions": counter(Metric.LINK_TRANSITIONS, rank=2),
    "state/counters/carrier-transitions": counter(Metric.LINK_TRANSITIONS, rank=1),
    "ethernet/state/counters/in-crc-errors": counter(Metric.RX_FCS_ERRORS, rank=1),
    "ethernet/state/counters/in-symbol-error": counter(Metric.RX_SYMBOL_ERRORS),
    "ethernet/state/counters/in-mac-pause-frames": counter(Metric.PAUSE_RX_FRAMES),
    "ethernet/state/counters/out-mac-pause-frames": counter(Metric.PAUSE_TX_FRAMES),
    "ethernet/state/counters/fec-corrected-blocks": counter(Metric.FEC_CORRECTED_CODEWORDS),
    "ethernet/state/counters/fec-uncorrectable-blocks": counter(Metric.FEC_UNCORRECTED_CODEWORDS),
    "state/oper-status": gauge(Metric.OPER_UP, values.oper_up),
    "state/admin-status": gauge(Metric.ADMIN_UP, values.admin_up),
    "ethernet/state/port-speed": gauge(Metric.SPEED_BPS, values.port_speed),
    "ethernet/state/pre-fec-ber/instant": gauge(Metric.PRE_FEC_BER, values.power),
    "ethernet/state/post-fec-ber/instant": gauge(Metric.POST_FEC_BER, values.power),
    # Juniper's native paths from here
    "optics/module-temp": gauge(Metric.MODULE_TEMPERATURE_C),
    "optics/lanediags/lane/lane-laser-receiver-power-dbm": gauge(Metric.RX_POWER_DBM, values.power),
    "optics/lanediags/lane/lane-laser-output-power-dbm": gauge(Metric.TX_POWER_DBM, values.power),
    "optics/lanediags/lane/lane-laser-bias-current": gauge(Metric.BIAS_MA, values.power),
    "optics/lanediags/lane/lane-rx-loss-of-signal-alarm": gauge(Metric.RX_LOS, values.is_set),
}
"""Below PORT."""

OTHERS: dict[str, Signal] = {
    "ifm/interfaces/interface/dynamic/oper-status": gauge(Metric.OPER_UP, values.oper_up),  # Huawei's own
    "ifm/interfaces/interface/dynamic/admin-status": gauge(Metric.ADMIN_UP, values.admin_up),
    "qos/interfaces/interface/output/queues/queue/state/transmit-pkts": counter(Metric.QUEUE_TX_PACKETS),
    "qos/interfaces/interface/output/queues/queue/state/dropped-pkts": counter(Metric.QUEUE_DROPPED_PACKETS),
    "qos/interfaces/interface/output/queues/queue/state/ecn-marked-pkts": counter(Metric.ECN_MARKED_PACKETS),
    "qos/interfaces/interface/output/queues/queue/state/max-queue-len": gauge(Metric.QUEUE_WATERMARK_BYTES),
    "qos/interfaces/interface/output/queues/queue/state/avg-queue-len": gauge(Metric.QUEUE_DEPTH_BYTES),
    # Juniper's queue monitor: of egress queues, as the ports' queues are
    "junos/system/linecard/qmon-sw/egress/packets": counter(Metric.QUEUE_TX_PACKETS),
    "junos/system/linecard/qmon-sw/egress/tail-drop-packets": counter(Metric.QUEUE_DROPPED_PACKETS),
    "junos/system/linecard/qmon-sw/egress/peak-buffer-occupancy-bytes": gauge(Metric.QUEUE_WATERMARK_BYTES),
    "system/state/boot-time": Signal(Kind.BOOT_TIME),
}
_CHANNEL = "components/component/transceiver/physical-channels/channel/state/"
OTHERS |= {
    f"{_CHANNEL}{name}{leaf}": gauge(metric, values.power)
    for name, metric in {
        "input-power": Metric.RX_POWER_DBM,
        "output-power": Metric.TX_POWER_DBM,
        "laser-bias-current": Metric.BIAS_MA,
        "host-snr": Metric.HOST_SNR_DB,
        "media-snr": Metric.MEDIA_SNR_DB,
    }.items()
    for leaf in ("", "/instant")
}
OTHERS[f"{_CHANNEL}rx-los"] = gauge(Metric.RX_LOS, values.is_set)
"""Complete paths."""

NAMES = {f"{PORT}name", f"{PORT}state/name", f"{PORT}state/counters/name"}
"""The name of a port whose path arrived without its key."""

ROW_KEYS = ("interface_name", "interface_interface-id", "interface_interface_id", "interface-id", "interface_id",
            "component_name", "qmon-sw_name", "name")  # fmt: skip
"""The tags that name the port, best first: gnmic writes `<element>_<key>`, Telegraf `<key>` by default.

A transceiver's row is its component's name; the inventory's `ports` map it to a port.
"""
LANE_KEYS = ("lane_lane_number", "lane_number", "channel_index", "queue_name", "egress_queue-number", "queue_number",
             "index")  # fmt: skip
"""The tags that number the lane or the queue; of a queue's name, its digits at the end."""
NO_PORT = frozenset({"subinterface_index", "neighbor_address", "neighbor_neighbor-address", "identifier"})
"""Tags of an object inside a port, or outside any, for values without a path."""
INSIDE_PORT = frozenset({"subinterface_index", "index"})
"""Tags of an object inside a port, for values whose path ends at the port."""

NEEDS_PATH = frozenset({"oper-status", "admin-status", "name"})
"""Leaves of many models: without a path they belong to a port only if the measurement is named after ports."""
