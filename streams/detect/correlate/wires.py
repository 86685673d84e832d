"""The links of some pods of which an end hears another than it should, and when to look at them again."""

from collections.abc import Callable
from dataclasses import replace

from streams.detect.detectors.link_miscabled import evaluate as link_miscabled
from streams.detect.detectors.link_miscabled.evaluate import LinkCabling
from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import CablingReport, Episode, Subject

NAME = "wire of "
"""Before a subject's id, where what is due is how a link is cabled and no other detector of it."""

Wires = dict[str, LinkCabling]
"""Subject id -> what is known; none, on a healthy fabric."""

_LATER_NS = ns(3600)
"""measure adopts an inventory up to so long before this stage, and tells of its links by it."""


def observe(wires: Wires, subject: Subject, word: CablingReport) -> dict[str, None]:
    """Take a word in; answers what to look at."""
    return {NAME + subject.id: None} if wires.setdefault(subject.id, LinkCabling(subject)).add(word) else {}


def look(
    params: DetectParams, wires: Wires, topology: Topology, name: str, watermark_ns: int
) -> tuple[list[Episode], int]:
    """Conclude on one link, and let go of it when nothing is left."""
    own = wires.get(name)
    if own is None:
        return [], FOREVER
    episodes, due_ns = link_miscabled.step(params, own, topology, watermark_ns)
    if due_ns != FOREVER:
        return episodes, due_ns
    if link_miscabled.is_over(own, params, watermark_ns):
        del wires[name]
        return episodes, FOREVER
    again_ns = own.reports[-1].at_ns + ns(params.lateness_s) + 1
    if again_ns <= watermark_ns:
        again_ns += ns(params.miscabled.lost_s)
    return episodes, again_ns if again_ns > watermark_ns else FOREVER


def rename(wires: Wires, subject_at: Callable[[Port], Subject], watermark_ns: int) -> list[str]:
    """Under another inventory a link that now leads elsewhere is judged by what is heard from then on.

    Answers what to look at. Its finding keeps its subject, and is over.
    """
    due = []
    for identity, own in list(wires.items()):
        at = own.subject.a or own.subject.z
        if at is None:
            continue
        now = subject_at(Port(at.device, at.port))
        if now.id == identity:
            own.subject = replace(now, former_ids=own.subject.former_ids)
            continue
        del wires[identity]
        own.subject = replace(now, former_ids=(*own.subject.former_ids, identity))
        own.moved(watermark_ns, watermark_ns - _LATER_NS)
        if (other := wires.get(now.id)) is not None:
            for word in other.reports:
                own.add(word)
            own.state = (*own.state, *other.state)
        wires[now.id] = own
        due.append(NAME + now.id)
    return due
