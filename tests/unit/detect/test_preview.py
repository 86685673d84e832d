"""`measure` concludes from an event alone what it concludes from it in order, and changes no state."""

from dataclasses import replace

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import Event, EventKind, Symptom
from streams.wire.stage import Output
from tests.worlds.observations import HOST, LEAF, at, event, samples
from tests.worlds.small_fabric import begun

RUN = 1
"""The run of the readings."""


def measure() -> Measure:
    """Return a stage that has read both ends of a link."""
    stage = begun(Measure(DetectParams()))
    for t in (1, 11):
        for port in (LEAF, HOST):
            device, _, name = port.partition("/")
            stage.process([samples(device, t, {Metric.OPER_UP: {name: 1.0}})])
    return stage


def symptoms(outputs: list[Output]) -> list[Symptom]:
    return [output.message for output in outputs if isinstance(output.message, Symptom)]


KINDS = [EventKind.LINK_DOWN, EventKind.LINK_UP, EventKind.ADMIN_DOWN, EventKind.LOSS_OF_SIGNAL]


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_of_an_event_is_what_its_processing_finds(kind: EventKind) -> None:
    """Minutes before the readings, and without a change of the state."""
    stage, one = measure(), replace(event(LEAF, 300, kind), collector_run=RUN)
    before = stage.snapshot()
    (found,) = symptoms(stage.preview([one]))
    assert stage.snapshot() == before
    assert found in symptoms(stage.process([one]))


STRANGE = {
    "a restart, which readings confirm": event(LEAF, 300, EventKind.DEVICE_REBOOT),
    "an up by another run": replace(event(LEAF, 300, EventKind.LINK_UP), collector_run=RUN + 1),
    "a clock that is ahead": replace(event(LEAF, 300, EventKind.LINK_DOWN), received_at_ns=at(290)),
    "a clock that is behind": replace(event(LEAF, 300, EventKind.LINK_DOWN), received_at_ns=at(330)),
    "an unknown port": replace(event(LEAF, 300, EventKind.LINK_DOWN), port="unknown"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_what_depends_on_the_readings_waits_for_them(case: str) -> None:
    """The state decides whether, and at which time, such an event counts."""
    one: Event = STRANGE[case]
    assert measure().preview([one]) == []


def test_an_event_is_no_evidence_that_earlier_readings_were_read() -> None:
    """It may be read first, after which no source is silent that is not."""
    stage = measure()
    found = symptoms(stage.process([event(HOST, 900, EventKind.LINK_DOWN)]))
    assert [one.device for one in found] == [HOST.split("/")[0]]
