"""Parses FEC statistics of ethtool, and the memory of modules: temperature, light, bias and SNR. Pure.

Sources: ethtool_netlink.h and commit cc2f0812 (histogram, Linux 6.18 as far as known); ethtool's cmis.h, qsfp.h. Two
parts were not tried on a module: bias in steps of 2 µA (CMIS 5), and SNR by VDM (as sonic-platform-common reads it).
SNR of page 14h needs a write to select it, which would disturb other readers, and is not read.
"""

import math
import struct
from collections.abc import Callable

from collectors.kernel.netlink import attributes, number, numbers
from collectors.nic.metric_sources import Slot
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import ABSENT_COUNTER, NO_INDEX

Values = dict[Slot, float]
Memory = Callable[[int, int, int, int], bytes]
"""Returns the bytes of a module by page, offset, length and bank."""

_FEC_TOTALS = {2: Metric.FEC_CORRECTED_CODEWORDS, 3: Metric.FEC_UNCORRECTED_CODEWORDS, 4: Metric.FEC_CORRECTED_BITS}
_HISTOGRAM = 5
_BIN_LOW, _BIN_HIGH, _BIN_VALUE, _BIN_LANES = 2, 3, 4, 5
_MOST_ERRORS = 15


def fec_values(statistics: bytes) -> Values:
    """Return the codewords of FEC; a bin of several numbers of errors has no index and is left out. Raises Reject."""
    found: Values = {}
    for kind, data in attributes(statistics):
        if kind in _FEC_TOTALS and (values := numbers(data)) and values[0] != ABSENT_COUNTER:
            found[_FEC_TOTALS[kind], NO_INDEX] = values[0]  # the lanes follow
        elif kind == _HISTOGRAM:
            found |= _bin(dict(attributes(data)))
    return found


def _bin(found: dict[int, bytes]) -> Values:
    low, high = number(found.get(_BIN_LOW, b"")), number(found.get(_BIN_HIGH, b""))
    if low != high or low > _MOST_ERRORS or not {_BIN_VALUE, _BIN_LANES} & found.keys():
        return {}
    lanes = [value for value in numbers(found.get(_BIN_LANES, b"")) if value != ABSENT_COUNTER]
    count = number(found[_BIN_VALUE]) if _BIN_VALUE in found else sum(lanes)
    return {(Metric.FEC_CODEWORDS_BY_ERRORS, low): count} if count < ABSENT_COUNTER else {}


_CMIS = {0x18, 0x19, 0x1E, 0x1F}
"""QSFP-DD, OSFP, QSFP with CMIS, SFP-DD with CMIS (SFF-8024)."""
_SFF_8636 = {0x0D, 0x11}
_FLAT = 0x80
_LANES = 8
"""Lanes of a bank."""
_BANKS = {0: 1, 1: 2, 2: 4}
_TX_BIAS, _TX_POWER, _RX_POWER = 0x01, 0x02, 0x04
_BIAS_FACTORS = {0x00: 1, 0x08: 2, 0x10: 4}
_HAS_VDM = 0x40
_VDM_SNR = {5: Metric.MEDIA_SNR_DB, 6: Metric.HOST_SNR_DB}
_BIAS_STEP_MA = 0.002
_POWER_STEP_MW = 1e-4


def module_values(memory: Memory) -> Values:
    """Return what a module measures; nothing for one without monitors, such as a passive cable. Raises Reject."""
    lower = _read(memory, 0, 0, 128)
    if lower[0] in _CMIS:
        return _cmis(lower, memory)
    if lower[0] in _SFF_8636:
        found = _supply(lower[22:24], lower[26:28])
        return found | _lanes(lower[50:58], lower[42:50], lower[34:42], 1, 0)
    return {}


def _read(memory: Memory, page: int, offset: int, length: int, bank: int = 0) -> bytes:
    data = memory(page, offset, length, bank)
    if len(data) != length:
        raise Reject(f"{len(data)} of {length} bytes of page {page:#x} of a module")
    return data


def _cmis(lower: bytes, memory: Memory) -> Values:
    found = _supply(lower[14:16], lower[16:18])
    if lower[2] & _FLAT:  # it has page 0 only
        return found
    advertised = _read(memory, 0x01, 128, 128)
    pages, monitors = advertised[142 - 128], advertised[160 - 128]
    factor = _BIAS_FACTORS.get(monitors & 0x18, 0)
    for bank in range(_BANKS.get(pages & 3, 1)):
        lanes = _read(memory, 0x11, 0x9A, 48, bank)
        tx, bias, rx = (
            lanes[at : at + 16] if monitors & mask else b""
            for at, mask in ((0, _TX_POWER), (16, _TX_BIAS), (32, _RX_POWER))
        )
        found |= _lanes(tx, bias, rx, factor, bank * _LANES)
    if pages & _HAS_VDM:
        found |= _vdm(_read(memory, 0x20, 128, 128), _read(memory, 0x24, 128, 128))
    return found


def _supply(temperature: bytes, voltage: bytes) -> Values:
    """Return temperature and voltage; a module without monitors has 0 in both."""
    if not any(temperature + voltage):
        return {}
    found: Values = {(Metric.MODULE_TEMPERATURE_C, NO_INDEX): struct.unpack(">h", temperature)[0] / 256}
    if any(voltage):
        found[Metric.MODULE_VOLTAGE_V, NO_INDEX] = struct.unpack(">H", voltage)[0] * 1e-4
    return found


def _lanes(tx: bytes, bias: bytes, rx: bytes, factor: int, first: int) -> Values:
    """Return power and bias by lane. 0 is absent: an unused lane has it as well as a laser that is off."""
    found: Values = {}
    for metric, data in ((Metric.TX_POWER_DBM, tx), (Metric.RX_POWER_DBM, rx)):
        for lane, raw in enumerate(struct.unpack(f">{len(data) // 2}H", data), first):
            if raw:
                found[metric, lane] = 10 * math.log10(raw * _POWER_STEP_MW)
    for lane, raw in enumerate(struct.unpack(f">{len(bias) // 2}H", bias), first):
        if raw and factor:
            found[Metric.BIAS_MA, lane] = raw * _BIAS_STEP_MA * factor
    return found


def _vdm(descriptors: bytes, samples: bytes) -> Values:
    """Return SNR of the first group of observables: lane and type of each, and its value on another page."""
    found: Values = {}
    for at in range(0, len(descriptors), 2):
        metric = _VDM_SNR.get(descriptors[at + 1])
        if metric is not None and (raw := struct.unpack_from(">H", samples, at)[0]):
            found[metric, descriptors[at] & 15] = raw / 256
    return found
