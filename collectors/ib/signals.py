"""Converts the values of a port of InfiniBand to metrics, by the generation of its link and the ASIC of its node. Pure.

The counters of one name mean different things by generation. What no correction recovers is the effective errors of
EDR and older, and the symbol errors since HDR: since then, links repeat what FEC did not correct (PLR), so that these
codes are not lost. PortXmitWait counts ticks whose length depends on the ASIC.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from streams.fabric.catalogue import Metric

_A = re.ASCII
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*C?\s*\Z", _A | re.IGNORECASE)
_ZERO_BER = 1e-250
"""15E-255 is how firmware writes a BER of 0."""
_HDR_BPS = 50e9
"""Per lane: HDR and later have PAM4, FEC and PLR."""
_LANES = 4


class Asic(NamedTuple):
    """The unit in which a switch counts PortXmitWait: a tick is `tick_bytes` of the port, or of each lane."""

    tick_bytes: int
    per_lane: bool


QUANTUM = Asic(8, per_lane=False)
SWITCH_IB = Asic(32, per_lane=True)
"""SwitchX counts as it does (ibdiagnet manual 2.13: every 32 B of each lane)."""

_MODELS = (
    (re.compile(r"(?:MQM|MCS8|Q3\d\d\d|QM3|.*quantum)", _A | re.IGNORECASE), QUANTUM),
    (re.compile(r"(?:MSB7|MSX6|MSX1|CS7|.*switch-?ib|.*switchx)", _A | re.IGNORECASE), SWITCH_IB),
)
_DEVICE_IDS = {54000: QUANTUM, 54002: QUANTUM, 54004: QUANTUM, 52000: SWITCH_IB, 53000: SWITCH_IB, 51000: SWITCH_IB}


def asic_of(model: str, device_id: int = 0) -> Asic | None:
    """Return the ASIC of a switch by its device id or its model; None if neither is known, as of an HCA."""
    return _DEVICE_IDS.get(device_id) or next((asic for known, asic in _MODELS if known.match(model)), None)


@dataclass(frozen=True, slots=True)
class PortKind:
    """The ASIC of a port (None: unknown), its speed in bit/s (0: unknown) and its lanes."""

    asic: Asic | None
    speed_bps: float = 0.0
    lanes: int = _LANES

    @property
    def has_plr(self) -> bool:
        """True since HDR."""
        return self.speed_bps >= _HDR_BPS * self.lanes

    def wait_bytes(self, ticks: int) -> int | None:
        """Return the bytes that a port did not send in the ticks of PortXmitWait; None if the ASIC is unknown."""
        if self.asic is None:
            return None
        return ticks * self.asic.tick_bytes * (self.lanes if self.asic.per_lane else 1)


_COUNTERS: tuple[tuple[Metric, int, tuple[tuple[str, int], ...]], ...] = (
    (Metric.RX_BYTES, 4, (("portrcvdataextended", 64),)),
    (Metric.TX_BYTES, 4, (("portxmitdataextended", 64),)),
    (Metric.RX_PACKETS, 1, (("portrcvpktsextended", 64),)),
    (Metric.TX_PACKETS, 1, (("portxmitpktsextended", 64),)),
    (Metric.TX_DISCARDS, 1, (("portxmitdiscardsextended", 64), ("portxmitdiscards", 16))),
    (Metric.RX_ERRORS, 1, (("portrcverrorsextended", 64), ("portrcverrors", 16))),
    (Metric.LINK_DOWN_EVENTS, 1, (("linkdownedcounterextended", 64), ("linkdownedextended", 64),
                                  ("linkdownedcounter", 8), ("linkdowned", 8))),
    (Metric.LINK_ERROR_RECOVERIES, 1, (("linkerrorrecoverycounterextended", 64), ("linkerrorrecoveryextended", 64),
                                       ("linkerrorrecoverycounter", 8), ("linkerrorrecovery", 8))),
    (Metric.LOCAL_LINK_INTEGRITY_ERRORS, 1, (("locallinkintegrityerrorsextended", 64),
                                             ("locallinkintegrityerrors", 4))),
    (Metric.EXCESSIVE_BUFFER_OVERRUNS, 1, (("excessivebufferoverrunerrorsextended", 64),
                                           ("excessivebufferoverrunerrors", 4))),
    (Metric.RX_REMOTE_PHYSICAL_ERRORS, 1, (("portrcvremotephysicalerrorsextended", 64),
                                           ("portrcvremotephysicalerrors", 16))),
    (Metric.RX_SWITCH_RELAY_ERRORS, 1, (("portrcvswitchrelayerrorsextended", 64), ("portrcvswitchrelayerrors", 16))),
    (Metric.TX_WAIT_TICKS, 1, (("portxmitwaitextended", 64), ("portxmitwait", 32))),
    (Metric.HOQ_LIFETIME_DISCARDS, 1, (("portswhoqlifetimelimitdiscards", 16),
                                       ("portswhoqlifetimelimitdiscardsextended", 64))),
    (Metric.PLR_RX_ERRORS, 1, (("plrrcvcodeerr", 64),)),
    (Metric.PLR_RX_UNCORRECTABLE, 1, (("plrrcvuncorrectablecode", 64),)),
    (Metric.PLR_TX_RETRIES, 1, (("plrxmitretrycodes", 64),)),
    (Metric.PLR_TX_RETRY_EVENTS, 1, (("plrxmitretryevents", 64),)),
)  # fmt: skip
"""A metric, the factor to its unit, and its counters by preference, with their bits: a full one stands still."""

_LOST = {
    True: (("physymbolerrors", 64), ("symbolerrorcounterextended", 64), ("symbolerrorextended", 64),
           ("symbolerrors", 64), ("symbolerr", 64), ("symbolerrorcounter", 16)),
    False: (("phyeffectiveerrors", 64), ("effectiveerrors", 64), ("effectiveerr", 64)),
}  # fmt: skip
"""The counters of errors that no correction recovers: with PLR, and without."""

_BER = {Metric.PRE_FEC_BER: "rawber", Metric.POST_FEC_BER: "effectiveber"}
_UP = {"4": 1.0, "active": 1.0, "act": 1.0, "1": 0.0, "down": 0.0, "dwn": 0.0, "2": 0.0, "init": 0.0, "ini": 0.0,
       "3": 0.0, "armed": 0.0, "arm": 0.0}  # fmt: skip
_STATE = ("portstate", "logicalstate", "portlogicalstate", "sta")
_PHYSICAL = ("portphysicalstate", "portphysstate", "physstate", "physsta")
"""The state by the InfiniBand specification, by name or number: 3 is Disabled, which a person or a program sets."""
_RATES = {"sdr": 2.5, "ddr": 5, "qdr": 10, "fdr10": 10, "fdr": 14, "edr": 25, "hdr": 50, "ndr": 100, "xdr": 200}
_GBPS = {2.5: 2.5, 5: 5, 10: 10, 14: 14, 14.0625: 14, 25: 25, 25.78125: 25, 50: 50, 53.125: 50, 100: 100, 106.25: 100,
         200: 200, 212.5: 200}  # fmt: skip
"""Gb/s per lane, by its name or its number. A number that is not of these is the code of a tool, and means nothing."""
_WIDTHS = {f"{lanes}x": lanes for lanes in (1, 2, 4, 8, 12)}


def number(text: str | None) -> float | None:
    """Return the number in a text; None for an empty text, `N/A`, NaN and infinity."""
    found = _NUMBER.match(text or "")
    return float(found[1]) if found else None


def counter(text: str | None, bits: int) -> int | None:
    """Return a counter; None if it is absent, negative, or full: a full counter stands still and means nothing."""
    text = (text or "").strip()
    try:
        value = int(text, 16) if text[:2].lower() == "0x" else int(text) if text.isdecimal() else int(float(text))
    except (ValueError, OverflowError):
        return None
    return value if 0 <= value < (1 << bits) - 1 else None


def _first(values: Mapping[str, str], names: tuple[tuple[str, int], ...]) -> int | None:
    return next((found for name, bits in names if (found := counter(values.get(name), bits)) is not None), None)


def speed(values: Mapping[str, str]) -> tuple[float, int]:
    """Return the speed of a port in bit/s and its lanes by its own values; 0 if they do not have them."""
    width = values.get("linkwidthactive") or values.get("lwa") or ""
    rate = (values.get("linkspeedactive") or values.get("lsa") or "").strip().lower()
    lanes = _WIDTHS.get(width.strip().lower(), 0)
    gbps = _RATES.get(rate) or _GBPS.get(number(rate) or 0.0, 0.0)
    return (gbps * lanes * 1e9, lanes) if lanes and gbps else (0.0, 0)


def values_of(values: Mapping[str, str], kind: PortKind) -> Iterator[tuple[Metric, float]]:
    """Yield the metrics of a port; an absent or full counter yields none."""
    for metric, factor, names in _COUNTERS:
        if (found := _first(values, names)) is not None:
            yield metric, found * factor
            if metric is Metric.TX_WAIT_TICKS and (waited := kind.wait_bytes(found)) is not None:
                yield Metric.TX_WAIT_BYTES, waited
    if kind.speed_bps and (lost := _first(values, _LOST[kind.has_plr])) is not None:
        yield Metric.UNCORRECTED_SYMBOLS, lost
    if own_bps := speed(values)[0]:
        yield Metric.SPEED_BPS, own_bps
    for gauge, known in _BER.items():
        ber = number(values.get(known))
        if ber is not None and 0 <= ber <= 1:
            yield gauge, 0.0 if ber < _ZERO_BER else ber
    if (state := next((_UP.get(values[name].strip().lower()) for name in _STATE if name in values), None)) is not None:
        yield Metric.OPER_UP, state
    if physical := next((values[name].strip().lower() for name in _PHYSICAL if values.get(name, "").strip()), ""):
        yield Metric.ADMIN_UP, 0.0 if physical == "3" or physical.startswith("dis") else 1.0
    if (celsius := number(values.get("moduletemperature"))) is not None and 0 < celsius < 150:
        yield Metric.MODULE_TEMPERATURE_C, celsius
