"""host/pcie-degraded: the PCIe link of a NIC or GPU trained below what it and its slot support."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.host_pcie_degraded import evaluate, report
from streams.detect.detectors.host_pcie_degraded.fabric import FABRIC
from streams.detect.detectors.host_pcie_degraded.monitor import PcieMonitor
from streams.detect.detectors.host_pcie_degraded.params import PcieParams
from streams.detect.evidence.part_spells import PartState
from streams.detect.measure.monitors.monitor import MonitorSpec
from streams.wire.models import Condition
from streams.wire.symptoms import SymptomKind

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.HOST_PCIE_DEGRADED,
    version=report.VERSION,
    params=PcieParams,
    section="pcie",
    fabric=FABRIC,
    pod=PodSide(
        state=PartState,
        scope=Scope.PORT,
        inputs=(SymptomKind.PCIE_DEGRADED, SymptomKind.PCIE_RESTORED),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
    ),
    monitor=MonitorSpec(PcieMonitor),
)
