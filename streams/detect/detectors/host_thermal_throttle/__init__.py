"""host/thermal-throttle: a GPU or module of a host is at its temperature limit while its peers on the host are cool."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.host_thermal_throttle import evaluate, report
from streams.detect.detectors.host_thermal_throttle.fabric import FABRIC
from streams.detect.detectors.host_thermal_throttle.monitor import thermal_monitor
from streams.detect.detectors.host_thermal_throttle.params import ThermalParams
from streams.detect.evidence.part_spells import PartState
from streams.detect.measure.monitors.monitor import MonitorSpec
from streams.wire.models import Condition
from streams.wire.symptoms import SymptomKind

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.HOST_THERMAL_THROTTLE,
    version=report.VERSION,
    params=ThermalParams,
    section="thermal",
    fabric=FABRIC,
    pod=PodSide(
        state=PartState,
        scope=Scope.PORT,
        inputs=(SymptomKind.LEVEL_BEYOND_LIMIT, SymptomKind.LEVEL_WITHIN_LIMIT),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
    ),
    monitor=MonitorSpec(thermal_monitor),
)
