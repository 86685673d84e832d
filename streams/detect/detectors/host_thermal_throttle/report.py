"""The finding of host/thermal-throttle: the part, its temperature when it became hot, and its peers'."""

from streams.detect.detector import Context
from streams.detect.detectors.host_thermal_throttle.params import ThermalParams
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.part_spells import PartSpell
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Evidence, Finding, Severity, Subject
from streams.wire.symptoms import LevelState

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
