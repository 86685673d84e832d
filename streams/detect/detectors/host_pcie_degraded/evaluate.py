"""host/pcie-degraded: the PCIe link of a NIC or GPU trained below what it and its slot support.

Opens when it has been degraded for `open_after_s`, unlike equal parts of its host, and closes once it has been
restored for `full_s`. `measure` decides which links are degraded, and excludes GPUs that idle. The effect on the NIC
shows as rail/degraded, of which this is the parent.
"""

from streams.detect.detector import Context, Evaluation, Observed
from streams.detect.detectors.host_pcie_degraded import report
from streams.detect.detectors.host_pcie_degraded.params import PcieParams
from streams.detect.evidence import part_spells
from streams.detect.evidence.part_spells import PartState, SpellRules
from streams.detect.evidence.subjects import part_subject
from streams.wire.models import Symptom
from streams.wire.symptoms import SymptomKind


def _rules(params: PcieParams) -> SpellRules:
    return SpellRules(params.open_after_s, params.full_s, _is_restored, report.capacity)


def _is_restored(symptom: Symptom) -> bool:
    return symptom.kind is SymptomKind.PCIE_RESTORED


def observe(params: PcieParams, state: PartState | None, symptom: Symptom, context: Context) -> Observed[PartState]:
    """Add a change of a link."""
    return part_spells.observe(
        _rules(params), state, symptom, lambda: part_subject(context.topology, symptom.device, symptom.port, "pcie")
    )


def evaluate(params: PcieParams, _: str, state: PartState | None, context: Context) -> Evaluation[PartState]:
    """Conclude from all changes of a link."""
    return part_spells.evaluate(
        _rules(params), state, context,
        lambda subject, spell, opens_ns: report.conclusion(params, context, subject, spell, opens_ns),
    )  # fmt: skip
