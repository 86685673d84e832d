"""Symptoms of a measure stage that receives readings out of order, with or without restarts."""

from collections.abc import Sequence

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import Message, Symptom
from tests.worlds.small_fabric import begun

UP, DOWNS = Metric.OPER_UP, Metric.LINK_DOWN_EVENTS


BriefSymptom = tuple[str, float | None, float | None, int]


def stage() -> Measure:
    """One that knows the fabric."""
    return begun(Measure(DetectParams()))


def symptoms_of(messages: Sequence[Message], *, killed: bool = False) -> list[Symptom]:
    """Return the symptoms of ports, in the order of emission."""
    own, found = stage(), []
    for message in messages:
        found += [o.message for o in own.process([message]) if isinstance(o.message, Symptom) and o.message.port]
        if killed:
            state, own = own.snapshot(), stage()
            own.restore(state)
    return found
