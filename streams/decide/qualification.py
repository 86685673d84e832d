"""Decides whether a link that was out of service is proven sound by the readings of both ends; silence proves nothing.

A link qualifies if its ends are up without a transition for `qualify_s`, and if all readings of that time show no
symbol error and a pre-FEC BER, light and SNR within the limits at which link/degrading recovers. The upper bound of an
error rate must meet the limit, not its estimate. A missing reading is no evidence.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from streams.wire.models import PortReadings

_EXACT = 100
"""Above this number of errors Wilson and Hilferty's approximation is used, which is within 0.1 %."""


class QualificationParams(BaseModel):
    """`[decide.qualification]`: the proof that a link needs before it carries traffic again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    qualify_s: Annotated[float, Field(gt=0)] = 900
    """Time up without a transition: bounds the rate of flaps at 3/T, 288 a day, with a confidence of 95 %."""

    confidence: ClassVar[float] = 0.95
    """The confidence of the upper bounds of error rates. Other tools wait for 1/(p x rate): 63 %."""

    ber: ClassVar[float] = 1e-12
    """The error rate after FEC that must be proven. Zero errors in 900 s prove 3.4e-14 at 100 Gb/s, so 4 Gb/s is
    enough."""

    unread_s: ClassVar[float] = 180
    """The longest time from the last reading until now: `measure` sends readings by the minute, so two were missed."""


@dataclass(frozen=True, slots=True)
class ReadingsRun:
    """Consecutive readings of a port without a fault; `interrupted` names the fault that ended the previous run.

    Levels are those nearest to their limits.
    """

    begin_ns: int
    end_ns: int
    bits: float = 0.0
    ber_limit: float = 0.0
    ber: float | None = None
    raw_errors: float | None = None
    errors: float | None = None
    rx_power_dbm: float | None = None
    rx_power_limit_dbm: float | None = None
    tx_power_dbm: float | None = None
    tx_power_limit_dbm: float | None = None
    snr_db: float | None = None
    snr_limit_db: float | None = None
    interrupted: str = ""


@dataclass(frozen=True, slots=True)
class EndEvidence:
    """The evidence of one end of a link. `not_carrying` is the reason why it is not proven to be up, or empty."""

    port: str
    not_carrying: str
    up_since_ns: int = 0
    runs: tuple[ReadingsRun, ...] = ()
    """One run for each live source that reads the port."""
    required: bool = True
    """False for a host's end without a collector, where the switch's end alone is accepted."""


_LEVELS = (
    ("receive power", "rx_power_dbm", "rx_power_limit_dbm", "dBm"),
    ("transmit power", "tx_power_dbm", "tx_power_limit_dbm", "dBm"),
    ("SNR", "snr_db", "snr_limit_db", "dB"),
)


def extend(run: ReadingsRun | None, readings: PortReadings) -> ReadingsRun:
    """Return the run with the next readings of its port; starts a new run after a gap or a fault.

    Readings that the run already includes change nothing.
    """
    if run is not None and readings.end_ns <= run.end_ns:
        return run
    if fault := find_fault(readings):
        return ReadingsRun(readings.end_ns, readings.end_ns, interrupted=fault)
    if run is None or readings.begin_ns != run.end_ns:
        interrupted = "" if run is None else run.interrupted if run.begin_ns == run.end_ns else "readings are missing"
        run = ReadingsRun(readings.begin_ns, readings.begin_ns, interrupted=interrupted)
    levels: dict[str, float] = {}
    for _, level, limit, _ in _LEVELS:
        pairs = [(getattr(one, level), getattr(one, limit)) for one in (run, readings)]
        if known := [pair for pair in pairs if pair[0] is not None]:
            levels[level], levels[limit] = min(known, key=lambda pair: float(pair[0] - pair[1]))
    return ReadingsRun(
        run.begin_ns, readings.end_ns, run.bits + readings.bits, readings.ber_limit,
        _optional(max, run.ber, readings.ber), _optional(operator.add, run.raw_errors, readings.raw_errors),
        _optional(operator.add, run.errors, readings.errors), interrupted=run.interrupted, **levels,
    )  # fmt: skip


def find_fault(readings: PortReadings) -> str:
    """Return the fault that readings show; empty if a sound link may have them."""
    if readings.errors:
        return f"{readings.errors:.0f} symbol errors or lost frames"
    if readings.ber is not None and readings.ber >= readings.ber_limit:
        return f"pre-FEC BER {readings.ber:.1e}, limit {readings.ber_limit:.0e}"
    for name, level_name, limit_name, unit in _LEVELS:
        level, limit = getattr(readings, level_name), getattr(readings, limit_name)
        if level is not None and level <= limit:
            return f"{name} {level:.1f} {unit}, limit {limit:.1f} {unit}"
    return ""


def find_doubts(params: QualificationParams, ends: Sequence[EndEvidence], now_ns: int, after_ns: int = 0) -> list[str]:
    """Return the reasons why the ends of a link do not prove it sound at `now_ns`, by readings after `after_ns`."""
    required = [end for end in ends if end.required]
    doubts = [] if required else ["no end is read"]
    for end in required:
        up_s = (now_ns - end.up_since_ns) / 1e9
        if end.not_carrying:
            doubts.append(end.not_carrying)
        elif up_s < params.qualify_s:
            doubts.append(f"{end.port} is up without a transition for {max(up_s, 0):.0f} s of {params.qualify_s:g} s")
        else:
            doubts += _find_gaps(params, end, now_ns, after_ns)
    return doubts


def _find_gaps(params: QualificationParams, end: EndEvidence, now_ns: int, after_ns: int) -> list[str]:
    """Return the reasons against an end that is up long enough, from its readings."""
    reasons = []
    for run in end.runs:
        clean_s = (run.end_ns - max(run.begin_ns, end.up_since_ns, after_ns)) / 1e9
        unread_s = (now_ns - run.end_ns) / 1e9
        if unread_s > params.unread_s:
            reasons.append(f"{end.port}: no reading for {unread_s:.0f} s")
        elif clean_s < params.qualify_s:
            after = f" since {run.interrupted}" if run.interrupted else ""
            reasons.append(f"{end.port}: {max(clean_s, 0):.0f} s of {params.qualify_s:g} s of sound readings{after}")
        elif (reason := _find_weakness(params, run)) and (run.errors is not None or run.ber is not None):
            reasons.append(f"{end.port}: {reason}")
    if not reasons and not any(run.errors is not None or run.ber is not None for run in end.runs):
        reasons.append(f"{end.port}: no counter of errors and no BER is read")
    return reasons


def _find_weakness(params: QualificationParams, run: ReadingsRun) -> str:
    """Return the error rate that a run does not prove."""
    if not run.bits:
        return "neither bits nor the speed of the port are known"
    bound = upper_bound(run.errors or 0.0, params.confidence) / run.bits
    if bound > params.ber:
        return f"{run.bits:.1e} bits prove an error rate below {bound:.1e}, not {params.ber:.0e}"
    if run.ber is not None:
        errors = run.raw_errors if run.raw_errors is not None else run.ber * run.bits
        bound = upper_bound(errors, params.confidence) / run.bits
        if bound >= run.ber_limit:
            return f"{run.bits:.1e} bits prove a pre-FEC BER below {bound:.1e}, not {run.ber_limit:.0e}"
    return ""


def upper_bound(errors: float, confidence: float) -> float:
    """Return the largest mean of a Poisson process that is consistent with a number of errors at this confidence.

    At 95 % it is 3.00 for no error, 4.74 for one and 6.30 for two.
    """
    if errors > _EXACT:
        shape = errors + 1
        root = 1 - 1 / (9 * shape) + NormalDist().inv_cdf(confidence) / (3 * math.sqrt(shape))
        return float(shape * root**3)
    count = math.ceil(round(errors, 6))
    low, high = 0.0, 4.0 * (count + 1) + 50.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if _at_most(count, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(count: int, mean: float) -> float:
    """Return the probability that a Poisson process with a mean has at most `count` events."""
    term = total = math.exp(-mean)
    for number in range(1, count + 1):
        term *= mean / number
        total += term
    return total


def _optional(join: Callable[[float, float], float], a: float | None, b: float | None) -> float | None:
    """Return both numbers joined, or the one that is present."""
    if a is None or b is None:
        return a if b is None else b
    return join(a, b)
