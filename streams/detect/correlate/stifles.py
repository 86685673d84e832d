"""The hosts' links of some pods that are paused and send far less than before: a pod's are concluded on together."""

from streams.detect.detectors.congestion_collapse import evaluate as congestion_collapse
from streams.detect.detectors.congestion_collapse.evaluate import PodSpells, ThrottledSpells
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Episode, Subject, Symptom, SymptomsReplaced

NAME = "stifled in "
"""Before a pod's name, where what is due are its stifled links."""

Stifles = dict[str, PodSpells]
"""Pod -> what is known; none, on a healthy fabric."""

_TOGETHER_NS = ns(10)
"""Those of a pod are looked at together so often: a collapse of all would be looked at once for each otherwise."""


def observe(
    stifles: Stifles, subject: Subject, observed: Symptom | SymptomsReplaced, watermark_ns: int
) -> tuple[str, int] | None:
    """Take a symptom in; answers what to look at, and when."""
    pod = stifles.get(subject.pod) or PodSpells(
        Subject(f"pod:{subject.pod}", role="pod", pod=subject.pod, site=subject.site)
    )
    own = pod.links.get(subject.id) or ThrottledSpells(subject)
    if not own.add(observed):
        return None
    pod.links[subject.id] = own
    stifles[subject.pod] = pod
    return NAME + subject.pod, (watermark_ns // _TOGETHER_NS + 1) * _TOGETHER_NS


def look(
    params: DetectParams, stifles: Stifles, topology: Topology, pod: str, watermark_ns: int, *, keep: bool
) -> tuple[list[Episode], int]:
    """Conclude on one pod, and let go of it when nothing is left; `keep`: a crowded port may be blamed for it."""
    own = stifles[pod]
    episodes, due_ns = congestion_collapse.step(params, topology, own, watermark_ns, keep=keep)
    if own.is_over:
        del stifles[pod]
    return episodes, due_ns
