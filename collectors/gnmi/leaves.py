"""What each leaf of a device's model is to us: the one table from paths to metrics, states and facts.

OpenConfig first (DETECTION 2), then the few leaves of vendors' own models that say the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from collectors.gnmi import values
from collectors.gnmi.paths import Elems
from streams.fabric.catalogue import CATALOGUE, Metric
from streams.wire.models import NO_INDEX


class Kind(Enum):
    """What is done with a leaf's value."""

    COUNTER = "counter"
    READING = "reading"  # a gauge that is read like a counter, at every sample
    STATE = "state"  # a gauge that the device reports when it changes
    BOOT_TIME = "boot-time"
    FACT = "fact"
    NAME = "name"  # the key of an interface whose elements came without keys


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf: what it is, whose row it is in, and how its value reads (None: unreadable, so absent)."""

    kind: Kind
    row: str = ""
    metric: Metric | None = None
    index: int = NO_INDEX
    read: Callable[[values.Scalar], float | str | None] = values.number
    fact: str = ""


_COUNTERS = {
    "in-octets": Metric.RX_BYTES,
    "out-octets": Metric.TX_BYTES,
    "in-pkts": Metric.RX_PACKETS,
    "out-pkts": Metric.TX_PACKETS,
    "in-discards": Metric.RX_DISCARDS,
    "out-discards": Metric.TX_DISCARDS,
    "in-errors": Metric.RX_ERRORS,
    "out-errors": Metric.TX_ERRORS,
    "in-fcs-errors": Metric.RX_FCS_ERRORS,
    # Two transitions a flap in all three; `link-transitions` is before damping, so it is the one taken first.
    "link-transitions": Metric.LINK_TRANSITIONS,
    "interface-transitions": Metric.LINK_TRANSITIONS,
    "carrier-transitions": Metric.LINK_TRANSITIONS,
}
RANK = {"carrier-transitions": 1, "interface-transitions": 2, "link-transitions": 3, "in-crc-errors": 1}
"""Of leaves that mean one metric, the higher wins where a device has several; what is not here ranks highest."""

_ETHERNET_COUNTERS = {
    "in-crc-errors": Metric.RX_FCS_ERRORS,
    "in-symbol-error": Metric.RX_SYMBOL_ERRORS,
    "in-mac-pause-frames": Metric.PAUSE_RX_FRAMES,
    "out-mac-pause-frames": Metric.PAUSE_TX_FRAMES,
    "fec-corrected-blocks": Metric.FEC_CORRECTED_CODEWORDS,
    "fec-uncorrectable-blocks": Metric.FEC_UNCORRECTED_CODEWORDS,
}
_STATES: dict[str, tuple[Metric, Callable[[values.Scalar], float | None]]] = {
    "oper-status": (Metric.OPER_UP, values.oper_up),
    "admin-status": (Metric.ADMIN_UP, values.admin_up),
}
_JUNIPER_LANE = {
    "lane_laser_receiver_power_dbm": Metric.RX_POWER_DBM,
    "lane_laser_output_power_dbm": Metric.TX_POWER_DBM,
    "lane_laser_bias_current": Metric.BIAS_MA,
}
_SYSTEM_FACTS = {"hostname": "hostname", "software-version": "os_version"}
_COMPONENT_FACTS = {
    name: name for name in ("type", "mfg-name", "description", "part-no", "serial-no", "software-version", "model-name")
}


def leaf(elems: Elems) -> Leaf | None:
    """What this path is to us, None where it is nothing.

    The path must be whole: the state of a subinterface is not that of its port. `row` is empty where the device left
    the interface's key out.
    """
    match [step.name for step in elems]:
        case ["interfaces", "interface", *rest]:
            return _interface(elems, elems[1].key("name") or "", rest)
        case ["ifm", "interfaces", "interface", "dynamic", ("oper-status" | "admin-status") as name]:  # Huawei's own
            metric, read = _STATES[name]
            return Leaf(Kind.STATE, elems[2].key("name") or "", metric, read=read)
        case ["system", "state", "boot-time"]:
            return Leaf(Kind.BOOT_TIME, read=values.unix_ns)
        case ["system", "state", name] if name in _SYSTEM_FACTS:
            return Leaf(Kind.FACT, read=values.text, fact=_SYSTEM_FACTS[name])
        case ["components", "component", "state", name] if name in _COMPONENT_FACTS:
            return Leaf(Kind.FACT, elems[1].key("name") or "", read=values.text, fact=f"component/{name}")
        case ["lldp", "interfaces", "interface", "neighbors", "neighbor", "state", ("system-name" | "port-id") as name]:
            neighbor = f"{elems[2].key('name') or ''}\0{elems[4].key('id') or ''}"
            return Leaf(Kind.FACT, neighbor, read=values.text, fact=f"neighbor/{name}")
    return None


def _interface(elems: Elems, row: str, rest: list[str]) -> Leaf | None:
    match rest:
        case ["name"] | ["state", "name"] | ["state", "counters", "name"]:
            return Leaf(Kind.NAME, row, read=values.text)
        case ["state", "counters", name] if name in _COUNTERS:
            return Leaf(Kind.COUNTER, row, _COUNTERS[name])
        case ["ethernet", "state", "counters", name] if name in _ETHERNET_COUNTERS:
            return Leaf(Kind.COUNTER, row, _ETHERNET_COUNTERS[name])
        case ["state", name] if name in _STATES:
            metric, read = _STATES[name]
            return Leaf(Kind.STATE, row, metric, read=read)
        case ["ethernet", "state", "port-speed"]:
            return Leaf(Kind.STATE, row, Metric.SPEED_BPS, read=values.port_speed)
        case ["ethernet", "state", ("pre-fec-ber" | "post-fec-ber") as name, "instant"]:
            metric = Metric.PRE_FEC_BER if name == "pre-fec-ber" else Metric.POST_FEC_BER
            return Leaf(Kind.READING, row, metric)
        case ["optics", "module_temp"]:  # Juniper's own from here
            return Leaf(Kind.READING, row, Metric.MODULE_TEMPERATURE_C)
        case ["optics", "lanediags", "lane", name] if name in _JUNIPER_LANE:
            lane = elems[4].key("lane_number") or ""
            return Leaf(Kind.READING, row, _JUNIPER_LANE[name], int(lane)) if lane.isdecimal() else None
    return None


def is_counter(found: Leaf) -> bool:
    """Whether the leaf's value goes to the table of counters."""
    return found.metric is not None and CATALOGUE[found.metric].counter
