"""Lists the columns and objects that are read, and the metric of each."""

from dataclasses import dataclass

from collectors.snmp.ber import oid_bytes, oid_of
from streams.fabric.catalogue import Metric


def oid(text: str) -> bytes:
    """Encode an OID in dotted form."""
    return oid_bytes(oid_of(text))


SYS_DESCR, SYS_OBJECT_ID, SYS_UP_TIME = oid("1.3.6.1.2.1.1.1.0"), oid("1.3.6.1.2.1.1.2.0"), oid("1.3.6.1.2.1.1.3.0")
ENGINE_BOOTS, ENGINE_TIME = oid("1.3.6.1.6.3.10.2.1.2.0"), oid("1.3.6.1.6.3.10.2.1.3.0")

_IF, _IFX = "1.3.6.1.2.1.2.2.1", "1.3.6.1.2.1.31.1.1.1"
IF_DESCR, IF_TYPE, IF_SPEED, IF_PHYS_ADDRESS = (oid(f"{_IF}.{n}") for n in (2, 3, 5, 6))
IF_ADMIN_STATUS, IF_OPER_STATUS = oid(f"{_IF}.7"), oid(f"{_IF}.8")
IF_NAME, IF_HIGH_SPEED = oid(f"{_IFX}.1"), oid(f"{_IFX}.15")
IF_DISCONTINUITY = oid(f"{_IFX}.19")

_DOT3, _DOT3_HC, _PAUSE = "1.3.6.1.2.1.10.7.2.1", "1.3.6.1.2.1.10.7.11.1", "1.3.6.1.2.1.10.7.10.1"
_PFC = "1.3.111.2.802.1.1.21.1.1.1"

_ENTITY = "1.3.6.1.2.1.47.1.1.1.1"
(
    ENTITY_DESCR, ENTITY_PARENT, ENTITY_CLASS, ENTITY_NAME, ENTITY_FIRMWARE, ENTITY_SOFTWARE, ENTITY_SERIAL,
    ENTITY_MAKER, ENTITY_MODEL,
) = ENTITIES = tuple(oid(f"{_ENTITY}.{n}") for n in (2, 4, 5, 7, 9, 10, 11, 12, 13))  # fmt: skip
ENTITY_ALIAS = oid("1.3.6.1.2.1.47.1.3.2.1.2")

_SENSOR = "1.3.6.1.2.1.99.1.1.1"
SENSOR_TYPE, SENSOR_SCALE, SENSOR_PRECISION, SENSOR_VALUE, SENSOR_STATUS, SENSOR_UNITS = (
    oid(f"{_SENSOR}.{n}") for n in range(1, 7)
)

_CISCO_SENSOR = "1.3.6.1.4.1.9.9.91.1.1.1.1"
CISCO_SENSORS = CISCO_TYPE, CISCO_SCALE, CISCO_PRECISION, CISCO_VALUE, CISCO_STATUS = tuple(
    oid(f"{_CISCO_SENSOR}.{n}") for n in range(1, 6)
)
"""entSensorType, Scale, Precision, Value and Status; ENTITY-SENSOR-MIB was derived from them."""
CISCO_MEASURED = oid(f"{_CISCO_SENSOR}.8")
"""entSensorMeasuredEntity: the entity that the sensor measures."""

_ARISTA_LIMITS = "1.3.6.1.4.1.30065.3.12.1.1.1"
ARISTA_LIMITS = {
    "low_warning": oid(f"{_ARISTA_LIMITS}.1"), "low_alarm": oid(f"{_ARISTA_LIMITS}.2"),
    "high_warning": oid(f"{_ARISTA_LIMITS}.3"), "high_alarm": oid(f"{_ARISTA_LIMITS}.4"),
}  # fmt: skip
"""aristaEntSensorThreshold…, in the sensor's own scale; its "critical" is "alarm" in other MIBs."""

_DOM, _DOM_LANE = "1.3.6.1.4.1.2636.3.60.1.1.1.1", "1.3.6.1.4.1.2636.3.60.1.2.1.1"
DOM_RX_POWER, DOM_BIAS, DOM_TX_POWER, DOM_TEMPERATURE, DOM_VOLTAGE = (oid(f"{_DOM}.{n}") for n in (5, 6, 7, 8, 25))
DOM_LANE_RX_POWER, DOM_LANE_BIAS, DOM_LANE_TX_POWER = (oid(f"{_DOM_LANE}.{n}") for n in (6, 7, 8))
DOM_LIMITS = {
    "rx_power_high_alarm_dbm": oid(f"{_DOM}.9"), "rx_power_low_alarm_dbm": oid(f"{_DOM}.10"),
    "rx_power_high_warning_dbm": oid(f"{_DOM}.11"), "rx_power_low_warning_dbm": oid(f"{_DOM}.12"),
    "tx_power_high_alarm_dbm": oid(f"{_DOM}.17"), "tx_power_low_alarm_dbm": oid(f"{_DOM}.18"),
    "tx_power_high_warning_dbm": oid(f"{_DOM}.19"), "tx_power_low_warning_dbm": oid(f"{_DOM}.20"),
}  # fmt: skip
"""A module's own limits, in 0.01 dBm."""

_HUAWEI = "1.3.6.1.4.1.2011.5.25.31.1.1.3.1"
(
    HUAWEI_TEMPERATURE, HUAWEI_VOLTAGE, HUAWEI_BIAS, HUAWEI_RX_POWER, HUAWEI_TX_POWER, HUAWEI_LANE_BIAS,
    HUAWEI_LANE_RX_POWER, HUAWEI_LANE_TX_POWER,
) = HUAWEI_OPTICS = tuple(oid(f"{_HUAWEI}.{n}") for n in (5, 6, 7, 8, 9, 31, 32, 33))  # fmt: skip

_H3C, _H3C_LANE = "1.3.6.1.4.1.25506.2.70.1.1.1", "1.3.6.1.4.1.25506.2.70.1.2.1"
H3C_TX_POWER, H3C_RX_POWER, H3C_TEMPERATURE, H3C_VOLTAGE, H3C_BIAS = (oid(f"{_H3C}.{n}") for n in (9, 12, 15, 16, 17))
H3C_LANE_TX_POWER, H3C_LANE_RX_POWER = oid(f"{_H3C_LANE}.2"), oid(f"{_H3C_LANE}.3")

_NOKIA = "1.3.6.1.4.1.6527.3.1.2.2.4.31.1"
NOKIA_VOLTAGE, NOKIA_TX_POWER, NOKIA_RX_POWER = (oid(f"{_NOKIA}.{n}") for n in (6, 16, 21))

OCNOS_RX_POWER, JUNIPER_OTN_BER = oid("1.3.6.1.4.1.36673.100.1.2.3.1.22"), oid("1.3.6.1.4.1.2636.3.73.1.3.3.8.1.5")

_REMOTE, _LOCAL = "1.0.8802.1.1.2.1.4.1.1", "1.0.8802.1.1.2.1.3.7.1"
LLDP_CHASSIS_KIND, LLDP_CHASSIS, LLDP_PORT_KIND, LLDP_PORT, LLDP_PORT_DESCR, LLDP_NAME = (
    oid(f"{_REMOTE}.{n}") for n in range(4, 10)
)
LLDP_REMOTE = (LLDP_CHASSIS_KIND, LLDP_CHASSIS, LLDP_PORT_KIND, LLDP_PORT, LLDP_PORT_DESCR, LLDP_NAME)
LLDP_LOCAL = LLDP_LOCAL_KIND, LLDP_LOCAL_ID, LLDP_LOCAL_DESCR = tuple(oid(f"{_LOCAL}.{n}") for n in (2, 3, 4))

TRAP_OID = oid("1.3.6.1.6.3.1.1.4.1.0")
IF_INDEX = oid(f"{_IF}.1")

PHYSICAL = frozenset({6, 26, 62, 69, 117, 199})
"""ifType of a port with a cable: ethernetCsmacd and its obsolete variants (RFC 3635, 2.1), infiniband (199)."""


@dataclass(frozen=True, slots=True)
class Counter:
    """The columns whose sum is one metric, and their width.

    `bytes_each` is the minimum of bytes on the wire per step of a counter that follows traffic: with 32 bits such a
    counter may wrap too fast. 84 is the smallest frame with its preamble and gap.
    """

    columns: tuple[bytes, ...]
    bits: int = 32
    bytes_each: int = 0


def _frames(table: str, columns: tuple[int, ...], bits: int) -> Counter:
    return Counter(tuple(oid(f"{table}.{n}") for n in columns), bits, 84)


def _of(column: str, bits: int = 32) -> Counter:
    return Counter((oid(column),), bits)


COUNTERS: dict[Metric, tuple[Counter, ...]] = {
    Metric.RX_BYTES: (_of(f"{_IFX}.6", 64), Counter((oid(f"{_IF}.10"),), 32, 1)),
    Metric.TX_BYTES: (_of(f"{_IFX}.10", 64), Counter((oid(f"{_IF}.16"),), 32, 1)),
    Metric.RX_PACKETS: (
        _frames(_IFX, (7, 8, 9), 64),
        Counter((oid(f"{_IF}.11"), oid(f"{_IFX}.2"), oid(f"{_IFX}.3")), 32, 84),
        _frames(_IF, (11, 12), 32),
    ),
    Metric.TX_PACKETS: (
        _frames(_IFX, (11, 12, 13), 64),
        Counter((oid(f"{_IF}.17"), oid(f"{_IFX}.4"), oid(f"{_IFX}.5")), 32, 84),
        _frames(_IF, (17, 18), 32),
    ),
    Metric.RX_DISCARDS: (_of(f"{_IF}.13"),),
    Metric.TX_DISCARDS: (_of(f"{_IF}.19"),),
    Metric.RX_ERRORS: (_of(f"{_IF}.14"),),
    Metric.TX_ERRORS: (_of(f"{_IF}.20"),),
    Metric.RX_FCS_ERRORS: (_of(f"{_DOT3_HC}.2", 64), _of(f"{_DOT3}.3")),
    Metric.RX_SYMBOL_ERRORS: (_of(f"{_DOT3_HC}.6", 64), _of(f"{_DOT3}.18")),
    Metric.PAUSE_RX_FRAMES: (_of(f"{_PAUSE}.5", 64), _of(f"{_PAUSE}.3")),
    Metric.PAUSE_TX_FRAMES: (_of(f"{_PAUSE}.6", 64), _of(f"{_PAUSE}.4")),
    # A request is a PFC frame that this port sends, an indication a frame that it receives. The MIB has no priority:
    # the index is left out, and the value covers all priorities.
    Metric.PFC_TX_FRAMES: (_of(f"{_PFC}.2"),),
    Metric.PFC_RX_FRAMES: (_of(f"{_PFC}.3"),),
}
"""The counters of a port, the best first: 64-bit before 32-bit counters, which wrap in 86 ms at 400 Gb/s."""

INTERFACES = (IF_DESCR, IF_TYPE, IF_SPEED, IF_PHYS_ADDRESS, IF_NAME)
"""The columns of a port that are read once; its states and counters are read at every poll."""
STATES = (IF_ADMIN_STATUS, IF_OPER_STATUS, IF_HIGH_SPEED, IF_SPEED, IF_DISCONTINUITY)
EVERY_COUNTER = tuple(dict.fromkeys(c for found in COUNTERS.values() for one in found for c in one.columns))
SENSORS = (SENSOR_TYPE, SENSOR_SCALE, SENSOR_PRECISION, SENSOR_UNITS, SENSOR_VALUE, SENSOR_STATUS)
