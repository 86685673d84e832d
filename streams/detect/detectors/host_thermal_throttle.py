"""host/thermal-throttle: a GPU or module of a host is at its temperature limit while its peers on the host are cool.

Opens when that has lasted for `open_after_s`, and closes once the part has been cool for `clear_s`. `measure` decides
which parts are hot; a host on which all are hot is left out, since its cause is the room or the fans. A rail that is
slow at the same port is rail/degraded, of which this is the parent.
"""

from typing import ClassVar

from pydantic import Field

from streams.detect.detector import Context, Detector, Evaluation, Observed, PodSide, Scope
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.spells import PartSpell, PartState, SpellRules, evaluate_part, observe_part
from streams.detect.evidence.subjects import part_subject
from streams.detect.fabric_side import CapacityEffect, FabricSide, SeverityContext
from streams.detect.measure.monitors.level_monitor import LevelLimit, LevelMonitor
from streams.detect.measure.monitors.monitor import MonitorSpec
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Evidence,
    Finding,
    RowKind,
    Severity,
    Subject,
    Symptom,
)
from streams.wire.symptoms import LevelState, SymptomKind


class ThermalParams(Thresholds):
    """`[detect.thermal]`: the temperatures at which a GPU or a module is too hot, and for how long it counts."""

    gpu_limit_c: float = Field(default=85.0, gt=0)
    """Maximum operating temperature of data center GPUs by `nvidia-smi -q -d TEMPERATURE` (A100: 85 °C, H100: 87)."""

    module_limit_c: float = Field(default=80.0, gt=0)
    """Above the high alarm of 75 °C that modules for a case of up to 70 °C have; 70 °C alone is usual under load."""

    peer_margin_c: ClassVar[float] = 10.0
    """Above the median of the host's own GPUs or modules: all hot is the room or the fans (DETECTION 3: +10 °C)."""

    open_after_s: ClassVar[float] = 60
    """Six readings: a GPU touches its limit for some seconds when a job starts, until its clock falls."""

    clear_s: ClassVar[float] = 120
    """Cool for this long; a part that throttles and recovers in turn is one finding."""


def thermal_monitor(params: ThermalParams) -> LevelMonitor:
    """Return the monitor of both temperatures; the modules of switches are not compared."""
    limits = (
        LevelLimit(RowKind.ROW_KIND_GPU, Metric.GPU_TEMPERATURE_C, params.gpu_limit_c, params.peer_margin_c),
        LevelLimit(RowKind.ROW_KIND_PORT, Metric.MODULE_TEMPERATURE_C, params.module_limit_c, params.peer_margin_c),
    )
    return LevelMonitor("thermal", limits, "host")


SLUG = "host/thermal-throttle"
VERSION = "1"


def conclusion(
    params: ThermalParams, context: Context, subject: Subject, spell: PartSpell, opens_ns: int
) -> Conclusion:
    """Return the episode of a spell, which opened at `opens_ns`."""
    clear_ns = spell.end_ns + ns(params.clear_s) if spell.end_ns != FOREVER else FOREVER
    over = clear_ns <= context.watermark_ns
    state = spell.worst.payload
    assert isinstance(state, LevelState)
    at = subject.a or Endpoint("")
    is_gpu = state.metric is Metric.GPU_TEMPERATURE_C
    part = "GPU" if is_gpu else "the module of"
    finding = Finding(
        **finding_defaults(context.settings, SLUG, VERSION),
        condition=Condition.HOST_THERMAL_THROTTLE,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=spell.begin_ns,
        observed_at_ns=spell.end_ns if over else opens_ns,
        resolved_at_ns=spell.end_ns if over else None,
        detected_at_ns=opens_ns,
        summary=f"{part} {at.device}/{at.port} is at its temperature limit of {state.limit:g} °C",
        cause=Cause.GPU if is_gpu else Cause.OPTIC,
        evidence=(
            Evidence(
                statement=_describe(state, f"{at.device}/{at.port}"),
                metric=state.metric.name.lower(),
                at=at,
                observed=state.level,
                expected=state.limit,
                comparison="peers",
                window_start_ns=spell.begin_ns,
                window_end_ns=spell.end_ns if over else opens_ns,
            ),
        ),
        confidence=0.9,
        coverage=Coverage(seen=1, expected=1),
    )
    end_ns = spell.end_ns - 1 if over else FOREVER
    final_at = clear_ns + ns(context.settings.lateness_s) if over else None
    return Conclusion(spell.begin_ns, end_ns, finding, str(spell.begin_ns), final_at)


def _describe(state: LevelState, name: str) -> str:
    if state.level is None or state.peer_level is None:
        return f"{name} was above {state.limit:g} °C, unlike its peers on the host"
    return f"{name} reached {state.level:.0f} °C, its peers on the host {state.peer_level:.0f} °C"


def _rules(params: ThermalParams) -> SpellRules:
    return SpellRules(params.open_after_s, params.clear_s, _is_cool, _rank)


def _is_cool(symptom: Symptom) -> bool:
    return symptom.kind is SymptomKind.LEVEL_WITHIN_LIMIT


def _rank(_: Symptom) -> float:
    """Rank all alike, so that the first symptom of a spell is its evidence: that does not depend on their order."""
    return 0.0


def observe(params: ThermalParams, state: PartState | None, symptom: Symptom, context: Context) -> Observed[PartState]:
    """Add a change of a part."""
    return observe_part(
        _rules(params), state, symptom, lambda: part_subject(context.topology, symptom.device, symptom.port, "thermal")
    )


def evaluate(params: ThermalParams, _: str, state: PartState | None, context: Context) -> Evaluation[PartState]:
    """Conclude from all changes of a part."""
    return evaluate_part(
        _rules(params), state, context,
        lambda subject, spell, opens_ns: conclusion(params, context, subject, spell, opens_ns),
    )  # fmt: skip


def _is_critical(finding: Finding, context: SeverityContext) -> bool:
    return context.has_job(finding.subject.a.device if finding.subject.a else "", finding)


FABRIC = FabricSide(link_fault_rank=4, capacity=CapacityEffect.NONE, is_critical=_is_critical)


DETECTOR = Detector(
    slug=SLUG,
    condition=Condition.HOST_THERMAL_THROTTLE,
    version=VERSION,
    params=ThermalParams,
    section="thermal",
    fabric=FABRIC,
    pod=PodSide(
        state=PartState,
        scope=Scope.PORT,
        inputs=(SymptomKind.LEVEL_BEYOND_LIMIT, SymptomKind.LEVEL_WITHIN_LIMIT),
        observe=observe,
        evaluate=evaluate,
    ),
    monitor=MonitorSpec(thermal_monitor),
)
