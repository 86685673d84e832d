"""Runs the detection benchmark: checks its options, simulates, scores, and compares with a missing source."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lab.bench.detection.fabrics import FABRICS
from lab.bench.detection.render import as_dict, lines
from lab.bench.detection.source_ablation import SourceAblation
from lab.bench.detection.sources import SOURCES
from lab.bench.detection.trial import TrialSpec, run
from lab.world.delivery_model import Cadence
from lab.world.fault_placement import NoRoom
from lab.world.faults import FAULT_OF, FAULTS
from streams.config.settings import Settings
from streams.replay.backtest import stages
from streams.wire.errors import Misconfigured

DAYS_CADENCE_S = 60.0
"""Over days cadences are longer than those of the collectors, because each day would take hours."""


class DetectionOptions(NamedTuple):
    """Options of the benchmark; a cadence of None is the default."""

    gpus: int
    seed: int
    faults_each: int
    days: float
    cadence_s: float | None
    nic_cadence_s: float | None
    conditions: Sequence[str]
    without: str
    fabric: str = "all"


class DetectionResult(NamedTuple):
    """The outcome as JSON values and as text."""

    values: dict[str, Any]
    lines: Iterable[str]


def run_detection(options: DetectionOptions, settings: Settings) -> DetectionResult:
    """Run one trial, or one with and one without a source; raise Misconfigured for impossible options."""
    spec = _trial_spec(options)
    try:
        outcome = run(spec, settings, stages(settings))
        if not options.without:
            return DetectionResult(as_dict(outcome), lines(outcome))
        partial = run(replace(spec, without=options.without), settings, stages(settings))
    except NoRoom as error:
        raise Misconfigured(str(error)) from error
    ablation = SourceAblation(outcome, partial)
    return DetectionResult(ablation.as_dict(), ablation.lines())


def _trial_spec(options: DetectionOptions) -> TrialSpec:
    if unknown := [name for name in options.conditions if name not in FAULT_OF]:
        raise Misconfigured(f"unknown condition: {', '.join(unknown)}; known: {', '.join(FAULT_OF)}")
    if options.without and options.without not in SOURCES:
        raise Misconfigured(f"unknown source: {options.without}; known: {', '.join(SOURCES)}")
    if options.fabric not in FABRICS:
        raise Misconfigured(f"unknown fabric: {options.fabric}; known: {', '.join(FABRICS)}")
    own = FABRICS[options.fabric]
    switch_s = options.cadence_s or (DAYS_CADENCE_S if options.days else own.cadence.switch_s)
    nic_s = options.nic_cadence_s or (switch_s if options.days else min(switch_s, own.cadence.nic_s))
    if switch_s % nic_s:
        raise Misconfigured(f"--cadence {switch_s:g} is not a multiple of --nic-cadence {nic_s:g}")
    faults = tuple(fault for fault in FAULTS if fault.slug in options.conditions) or FAULTS
    return TrialSpec(
        options.gpus,
        options.seed,
        options.faults_each,
        options.days,
        Cadence(switch_s, nic_s),
        faults,
        own.planes,
        own.has_pause,
        options.fabric,
    )
