"""What is known of the parts of a pod's hosts: GPUs that had a fault, PCIe links that were low.

Decides which detector a part's symptoms concern, and when it looks again; a host whose parts are well is not here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from streams.detect.detectors.host_gpu_fault import evaluate as host_gpu_fault
from streams.detect.detectors.host_gpu_fault.evaluate import GpuState
from streams.detect.detectors.host_pcie_degraded import evaluate as host_pcie_degraded
from streams.detect.detectors.host_pcie_degraded.evaluate import PcieState
from streams.detect.evidence.link_history import FOREVER, Interval
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port, port_id
from streams.wire.models import (
    Endpoint,
    Episode,
    Subject,
    Symptom,
)
from streams.wire.symptoms import SymptomKind

GPU = frozenset({SymptomKind.GPU_XID, SymptomKind.GPU_ECC_COUNTED})
PCIE = frozenset({SymptomKind.PCIE_DEGRADED, SymptomKind.PCIE_RESTORED})
KINDS = GPU | PCIE

NAME = "part "
"""Before `host/part`, where what is due is a part of a host."""

_REMEMBER_NS = ns(3600)
"""After it was over: others of the same hour may be explained by it."""


@dataclass(slots=True)
class Parts:
    """By `host/part`."""

    gpus: dict[str, GpuState] = field(default_factory=dict)
    pcie: dict[str, PcieState] = field(default_factory=dict)

    def add(self, symptom: Symptom, like: Subject) -> str:
        """One more symptom; answers the part that is to be looked at, empty where it says nothing new."""
        port = Port(symptom.device, symptom.port)
        name = f"{port.device}/{port.port}"
        end = Endpoint(port.device, port.port)
        subject = replace(like, id=port_id(port), a=end, z=None, role="pcie", former_ids=())
        if symptom.kind in PCIE:
            if name not in self.pcie:
                if symptom.kind is SymptomKind.PCIE_RESTORED:
                    return ""
                self.pcie[name] = PcieState(subject)
            return name if self.pcie[name].add(symptom) else ""
        if name not in self.gpus:
            if not host_gpu_fault.is_relevant(symptom):
                return ""
            self.gpus[name] = GpuState(replace(subject, role="gpu"))
        return name if self.gpus[name].add(symptom) else ""

    def of(self, device: str) -> list[str]:
        """The GPUs of a host: what a restart of it concerns."""
        return [name for name in self.gpus if name.rpartition("/")[0] == device]

    def look(
        self, params: DetectParams, name: str, restarts: Mapping[str, list[Interval]], watermark_ns: int
    ) -> tuple[list[Episode], int]:
        """Let the detectors of a part conclude; answers what changed, and when to look again."""
        episodes: list[Episode] = []
        due_ns = FOREVER
        if (gpu := self.gpus.get(name)) is not None:
            after_ns = _REMEMBER_NS + ns(params.gpu.quiet_s)
            gpu.forget(watermark_ns - after_ns)
            device = gpu.subject.a.device if gpu.subject.a else ""
            episodes, due_ns = host_gpu_fault.step(params, gpu, restarts.get(device, ()), watermark_ns)
            due_ns = min(due_ns, _forgotten_ns(gpu, after_ns, watermark_ns))
            if not (gpu.symptoms or gpu.state):
                del self.gpus[name]
        if (pcie := self.pcie.get(name)) is not None:
            pcie.forget(watermark_ns - _REMEMBER_NS)
            more, again_ns = host_pcie_degraded.step(params, pcie, watermark_ns)
            episodes += more
            due_ns = min(due_ns, again_ns, _forgotten_ns(pcie, _REMEMBER_NS, watermark_ns))
            if not (pcie.symptoms or pcie.state):
                del self.pcie[name]
        return episodes, due_ns


def _forgotten_ns(part: GpuState | PcieState, after_ns: int, watermark_ns: int) -> int:
    """When what is over can be let go of; FOREVER while it is not over, and where nothing is left."""
    if not part.symptoms or any(not said.episode.finding.final for said in part.state):
        return FOREVER
    return max(part.symptoms[-1].at_ns + after_ns + 1, watermark_ns + _REMEMBER_NS // 60)
