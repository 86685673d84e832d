"""host/thermal-throttle: a GPU or module of a host is at its temperature limit while its peers on the host are cool.

Opens when that has lasted for `open_after_s`, and closes once the part has been cool for `clear_s`. `measure` decides
which parts are hot; a host on which all are hot is left out, since its cause is the room or the fans. A rail that is
slow at the same port is rail/degraded, of which this is the parent.
"""

from streams.detect.detector import Context, Evaluation, Observed
from streams.detect.detectors.host_thermal_throttle import report
from streams.detect.detectors.host_thermal_throttle.params import ThermalParams
from streams.detect.evidence import part_spells
from streams.detect.evidence.part_spells import PartState, SpellRules
from streams.detect.evidence.subjects import part_subject
from streams.wire.models import Symptom
from streams.wire.symptoms import SymptomKind


def _rules(params: ThermalParams) -> SpellRules:
    return SpellRules(params.open_after_s, params.clear_s, _is_cool, _rank)


def _is_cool(symptom: Symptom) -> bool:
    return symptom.kind is SymptomKind.LEVEL_WITHIN_LIMIT


def _rank(_: Symptom) -> float:
    """Rank all alike, so that the first symptom of a spell is its evidence: that does not depend on their order."""
    return 0.0


def observe(params: ThermalParams, state: PartState | None, symptom: Symptom, context: Context) -> Observed[PartState]:
    """Add a change of a part."""
    return part_spells.observe(
        _rules(params), state, symptom, lambda: part_subject(context.topology, symptom.device, symptom.port, "thermal")
    )


def evaluate(params: ThermalParams, _: str, state: PartState | None, context: Context) -> Evaluation[PartState]:
    """Conclude from all changes of a part."""
    return part_spells.evaluate(
        _rules(params), state, context,
        lambda subject, spell, opens_ns: report.conclusion(params, context, subject, spell, opens_ns),
    )  # fmt: skip
