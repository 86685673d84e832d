"""Proposes settings of one detector for a desired number of findings per week, from backtests over one history.

Changes the detector's opening settings together, step by step, to be less or more sensitive. All configurations process
the same messages at the same time, as in a backtest that compares two.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import log, log2
from typing import Any

from pydantic import ValidationError

from streams.config.settings import Settings
from streams.detect.detector import Detector
from streams.detect.detectors import DETECTORS
from streams.detect.params import DetectParams
from streams.fabric.topology import Topology
from streams.replay.backtest import run_all
from streams.replay.difference import Differences, diff
from streams.wire.errors import Misconfigured
from streams.wire.models import Finding, Message, Severity, Status

_WEEK_NS = 7 * 86_400 * 10**9
FACTORS = (0.25, 0.5, 0.75, 1.5, 2.0, 3.0, 4.0)
"""Factors of the limits; below 1 the detector is more sensitive than now."""

Scale = Callable[[Any, float], Any]


def _more(value: Any, factor: float) -> Any:
    """Scale a limit that a value must exceed."""
    return max(2, round(value * factor)) if isinstance(value, int) else value * factor


def _closer(value: float, factor: float) -> float:
    """Scale a share that a value must exceed, by its distance to 1."""
    return 1 - (1 - value) / factor


def _lower(value: float, factor: float) -> float:
    """Scale a share that a value must fall below."""
    return 1 - (1 - value) * factor


TUNED: Mapping[str, Mapping[str, Scale]] = {
    "link/down": {"open_after_s": _more},
    "link/degrading": {
        "errors": _more, "loss_ratio": _more, "ber": _more, "ber_clear": _more,
        "drop_db": _more, "drop_clear_db": _more,
    },
    "link/miscabled": {"hold_s": _more},
    "rail/degraded": {"slow": _lower, "timeouts_per_s": _more},
    "congestion/incast": {"marked": _more, "drops_per_s": _more, "pauses": _more, "sustained_s": _more},
    "congestion/pfc-storm": {"paused": _closer, "sustained_s": _more},
    "congestion/imbalance": {"uneven": _more},
    "congestion/collapse": {"paused": _more, "sustained_s": _more},
    "telemetry/stale": {"cadences": _more, "at_least_s": _more},
    "host/pcie-degraded": {"open_after_s": _more},
    "host/thermal-throttle": {"gpu_limit_c": lambda value, factor: value + 5 * log2(factor),
                              "module_limit_c": lambda value, factor: value + 5 * log2(factor)},
    "device/clock-skew": {"min_offset_s": _more},
}  # fmt: skip
"""Detector -> its opening settings, each with the function that makes it less sensitive by a factor.

Excludes link/flap, because its presets are rules of vendors, and device/down, host/gpu-fault and fleet/version-drift,
which have no limit.
"""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The settings for one factor, and their findings over the history."""

    factor: float
    values: dict[str, Any]
    findings: tuple[Finding, ...]
    per_week: float


@dataclass(frozen=True, slots=True)
class Tuning:
    """The candidates in the order of their factors, with the present settings and the proposal."""

    detector: str
    section: str
    days: float
    messages: int
    per_week: float
    candidates: tuple[Candidate, ...]
    present: Candidate
    proposed: Candidate

    @property
    def differences(self) -> Differences:
        """The findings that appear and disappear with the proposal."""
        return diff(self.present.findings, self.proposed.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the tuning as JSON values."""
        return {
            "detector": self.detector, "days": self.days, "messages": self.messages, "wanted_per_week": self.per_week,
            "candidates": [
                {"factor": one.factor, "settings": one.values, "findings": len(one.findings), "per_week": one.per_week}
                for one in self.candidates
            ],
            "proposed": {"section": f"detect.{self.section}", "settings": self.proposed.values},
            "differences": self.differences.as_dict(),
        }  # fmt: skip


def tune(slug: str, per_week: float, messages: Iterable[Message], topology: Topology, settings: Settings) -> Tuning:
    """Return the settings whose findings per week are nearest to `per_week`; raises Misconfigured if there are none."""
    detector = next((one for one in DETECTORS if one.slug == slug), None)
    if detector is None or slug not in TUNED:
        raise Misconfigured(f"no detector with limits to tune: {slug}; known: {', '.join(sorted(TUNED))}")
    configurations = dict(_configurations(detector, settings))
    outcome = run_all(messages, topology, [own for own, _ in configurations.values()])
    if not outcome.span_ns:
        raise Misconfigured("the history has no messages in that time; choose another time or other files")
    weeks = outcome.span_ns / _WEEK_NS
    candidates = [
        Candidate(factor, values, found, len(found) / weeks)
        for (factor, (_, values)), last in zip(configurations.items(), outcome.findings, strict=True)
        for found in [tuple(one for one in last.values() if _counts(one, slug))]
    ]
    present = next(one for one in candidates if one.factor == 1.0)
    proposed = min(candidates, key=lambda one: (abs(one.per_week - per_week), abs(log(one.factor))))
    return Tuning(
        slug, detector.section, outcome.span_ns / 86_400e9, outcome.messages, per_week, tuple(candidates), present,
        proposed,
    )  # fmt: skip


def _configurations(
    detector: Detector[Any], settings: Settings
) -> Iterable[tuple[float, tuple[Settings, dict[str, Any]]]]:
    """Yield the settings by factor, without settings that are out of bounds; factor 1 has the present settings."""
    present = settings.detect.section(detector)
    for factor in sorted((*FACTORS, 1.0)):
        values = {
            name: getattr(present, name) if factor == 1.0 else scale(getattr(present, name), factor)
            for name, scale in TUNED[detector.slug].items()
        }
        try:
            section = detector.params.model_validate(present.model_dump() | values)
            whole = settings.detect.model_dump() | {detector.section: section.model_dump()}
            detect = DetectParams.model_validate(whole)
        except ValidationError:
            continue
        yield factor, (settings.model_copy(update={"detect": detect}), values)


def _counts(finding: Finding, slug: str) -> bool:
    """Return whether a finding is for people: not retracted, not shadow, no child, and above INFO."""
    return (
        finding.detector == slug
        and finding.status is not Status.RETRACTED
        and not finding.shadow
        and not finding.parent_id
        and finding.severity is not Severity.INFO
    )
