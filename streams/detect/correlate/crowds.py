"""The hosts' links of some pods to which more comes than goes in: a pod's are concluded on together."""

from streams.detect.detectors.congestion_incast import evaluate as congestion_incast
from streams.detect.detectors.congestion_incast.attribution import ConcurrentSpells
from streams.detect.detectors.congestion_incast.evaluate import IncastSpells
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.topology import Topology
from streams.wire.models import Episode, Subject, Symptom, SymptomsReplaced

NAME = "crowds in "
"""Before a pod's name, where what is due are its crowded links."""

Crowds = dict[str, dict[str, IncastSpells]]
"""Pod -> subject id -> what is known; none, on a healthy fabric."""

_TOGETHER_NS = ns(10)
"""Those of a pod are looked at together so often: a load that crowds all would be looked at once for each otherwise."""


def observe(
    crowds: Crowds, subject: Subject, observed: Symptom | SymptomsReplaced, watermark_ns: int
) -> tuple[str, int] | None:
    """Take a symptom in; answers what to look at, and when."""
    pod = crowds.setdefault(subject.pod, {})
    own = pod.get(subject.id) or IncastSpells(subject)
    if not own.add(observed):
        if not pod:
            del crowds[subject.pod]
        return None
    pod[subject.id] = own
    return again(subject.pod, watermark_ns)


def again(pod: str, watermark_ns: int) -> tuple[str, int]:
    """What to look at, and when, where more is known of whom its crowded links are blamed on."""
    return NAME + pod, (watermark_ns // _TOGETHER_NS + 1) * _TOGETHER_NS


def look(
    params: DetectParams, crowds: Crowds, topology: Topology, name: str, beside: ConcurrentSpells, watermark_ns: int
) -> tuple[list[Episode], int]:
    """Conclude on one pod, and let go of what is over."""
    pod = crowds[name]
    episodes, due_ns = congestion_incast.step(params, topology, pod, beside, watermark_ns)
    for identity, own in list(pod.items()):
        if own.is_closed:
            del pod[identity]
    if not pod:
        del crowds[name]
    return episodes, due_ns
