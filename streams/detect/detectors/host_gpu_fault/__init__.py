"""host/gpu-fault: a GPU of which the driver reports a fault."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.host_gpu_fault import evaluate, report
from streams.detect.detectors.host_gpu_fault.fabric import FABRIC
from streams.detect.detectors.host_gpu_fault.monitor import XidMonitor
from streams.detect.detectors.host_gpu_fault.params import GpuParams
from streams.detect.measure.monitors.monitor import MonitorSpec
from streams.wire.models import Condition
from streams.wire.symptoms import SymptomKind

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.HOST_GPU_FAULT,
    version=report.VERSION,
    params=GpuParams,
    section="gpu",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.GpuState,
        scope=Scope.PORT,
        inputs=(SymptomKind.GPU_XID, SymptomKind.GPU_ECC_COUNTED),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
        device_of=evaluate.device_of,
    ),
    monitor=MonitorSpec(lambda _: XidMonitor()),
)
