"""The links of some pods that are held by pause: which symptoms concern the same one, and when to look again."""

from collections.abc import Callable
from dataclasses import replace

from streams.detect.detectors.congestion_pfc_storm import evaluate as congestion_pfc_storm
from streams.detect.detectors.congestion_pfc_storm.evaluate import StormSpells
from streams.detect.params import DetectParams
from streams.fabric.ids import Port
from streams.wire.models import Episode, Subject, Symptom, SymptomsReplaced

NAME = "storm at "
"""Before a subject's id, where what is due is a storm and no other detector of the link."""

Storms = dict[str, StormSpells]
"""Subject id -> what is known; none, on a healthy fabric."""


def observe(storms: Storms, subject: Subject, observed: Symptom | SymptomsReplaced) -> dict[str, None]:
    """Take a symptom in; answers what to look at."""
    own = storms.setdefault(subject.id, StormSpells(subject))
    if own.add(observed):
        return {NAME + subject.id: None}
    if own.is_closed:
        del storms[subject.id]
    return {}


def look(params: DetectParams, storms: Storms, name: str, watermark_ns: int) -> tuple[list[Episode], int]:
    """Conclude on one link, and let go of it when nothing is left."""
    own = storms[name]
    episodes, due_ns = congestion_pfc_storm.step(params, own, watermark_ns)
    if own.is_closed:
        del storms[name]
    return episodes, due_ns


def rename(storms: Storms, subject_at: Callable[[Port], Subject]) -> list[str]:
    """Links keep their episodes under another inventory; answers what to look at."""
    for identity, own in list(storms.items()):
        at = own.subject.a or own.subject.z
        if at is None:
            continue
        now = subject_at(Port(at.device, at.port))
        if now.id != identity:
            del storms[identity]
            own.subject = replace(now, former_ids=(*own.subject.former_ids, identity))
            if now.id in storms:
                own.spells += storms[now.id].spells
                own.published = {
                    device: (*own.published.get(device, ()), *storms[now.id].published.get(device, ()))
                    for device in {*own.published, *storms[now.id].published}
                }
            storms[now.id] = own
        else:
            own.subject = replace(now, former_ids=own.subject.former_ids)
    return [NAME + identity for identity in storms]
