"""The three stages that conclude keep the promises of a stage, over a fabric in which everything goes wrong."""

from functools import cache

import pytest

from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.wire.models import EventKind, Message
from streams.wire.stage import Stage
from streams.wire.topics import EPISODES, SYMPTOMS, Topic
from tests.contract.stage_promises import Case, RepeatPromises, StagePromises, Step
from tests.unit.detect.chain import World, statuses
from tests.unit.detect.seen import at, event
from tests.unit.fabric.made import topology

TOP = topology()
PARAMS = DetectParams()
UNTIL = 1500
STEP = 150


def _world() -> World:
    return World(
        down={"p1-h1/e0": [(t, t + 10) for t in range(100, 400, 40)], "p2-l0/u2": [(150, 900)]},
        disabled={"p2-l1/u0": [(300, 500)]},
        gone={"s1": [(600, 720)], "p2-h2": [(200, 600)]},
        unread={"p1-h2": [(300, 700)]},
        boots={"s1": 720},
    )


@cache
def measure_steps() -> list[Step]:
    """Rounds and statuses as they arrive, with the arrival clock after each round."""
    world = _world()
    reboot = event("s1", 715, EventKind.DEVICE_REBOOT)
    messages: list[Message] = [*world.rounds(UNTIL), *statuses(world, UNTIL), reboot]
    steps: list[Step] = []
    for start in range(0, UNTIL, STEP):
        batch = [m for m in messages if start <= _time(m) < start + STEP]
        steps += [batch, at(start + STEP - 1)]
    return steps


def _time(message: Message) -> float:
    from streams.replay.driver import event_time

    return event_time(message)[0] / 1e9 - at(0) / 1e9


def downstream(stage: Stage, steps: list[Step], topic: Topic) -> list[Step]:
    """What the next stage is told when this one is told these steps."""
    stage.begin(1)
    stage.adopt(TOP)
    told: list[Step] = []
    for step in steps:
        outputs = stage.advance(step) if isinstance(step, int) else stage.process(step)
        if batch := [o.message for o in outputs if o.topic is topic and o.message is not None]:
            told.append(list(dict.fromkeys(batch)) if topic is SYMPTOMS else batch)
        if stage.watermark_ns < 2**62 and stage.watermark_ns not in told[-2:]:
            told.append(stage.watermark_ns)
    return [*told, at(UNTIL + 3600)]


@cache
def correlate_steps() -> list[Step]:
    """The symptoms of all that."""
    return downstream(Measure(PARAMS), measure_steps(), SYMPTOMS)


@cache
def attribute_steps() -> list[Step]:
    """The episodes of all that."""
    return downstream(Correlate(PARAMS), correlate_steps(), EPISODES)


class TestMeasure(StagePromises, RepeatPromises):
    """From samples to symptoms."""

    @pytest.fixture
    def case(self) -> Case:
        return Case("measure", lambda: Measure(PARAMS), TOP, measure_steps())


class TestCorrelate(StagePromises, RepeatPromises):
    """From symptoms to episodes."""

    @pytest.fixture
    def case(self) -> Case:
        return Case("correlate", lambda: Correlate(PARAMS), TOP, correlate_steps())


class TestAttribute(StagePromises, RepeatPromises):
    """From episodes to findings."""

    @pytest.fixture
    def case(self) -> Case:
        return Case("attribute", lambda: Attribute(PARAMS), TOP, attribute_steps())
