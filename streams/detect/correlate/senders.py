"""The hosts' links of some pods that the fabric slows: kept for as long as a crowded port may be blamed on them."""

from streams.detect.evidence.congestion_spells import LinkSpells
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import (
    Subject,
    Symptom,
    SymptomsReplaced,
)
from streams.wire.symptoms import CnpThrottledBegan, CongestionState

STATE = CongestionState.CNP_THROTTLED

Slowed = dict[str, dict[str, LinkSpells[CnpThrottledBegan]]]
"""Pod -> subject id -> what is known; none, on a healthy fabric."""


def observe(
    params: DetectParams,
    slowed: Slowed,
    subject: Subject,
    observed: Symptom | SymptomsReplaced,
    watermark_ns: int,
    *,
    needed: bool,
) -> bool:
    """Take a symptom in; answers whether it was new. What is long over goes unless the pod has a crowded port."""
    pod = slowed.setdefault(subject.pod, {})
    own = pod.get(subject.id) or LinkSpells[CnpThrottledBegan](subject)
    if is_new := own.add(observed):
        pod[subject.id] = own
    if not needed:
        old_ns = watermark_ns - ns(params.incast.remember_s)
        for identity, link in list(pod.items()):
            link.spells = [spell for spell in link.spells if spell.end_ns > old_ns]
            if not link.spells:
                del pod[identity]
    if not pod:
        del slowed[subject.pod]
    return is_new
