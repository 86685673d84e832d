"""Inputs of the stages in steps, for the labelled cases and for a world with every fault at once."""

from functools import cache

from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.topology import Topology
from streams.replay.driver import event_time
from streams.wire.models import EventKind, Message
from streams.wire.stage import Stage
from streams.wire.topics import EPISODES, SUMMARIES, SYMPTOMS, Topic
from tests.contract.detect.cases import LABELLED, case_messages, settled_s
from tests.contract.stage_promises import Step
from tests.worlds.observations import at, event
from tests.worlds.small_world import SmallWorld, recorded

PARAMS = DetectParams()


UNTIL = 1500


STEP = 150
"""The length of a step in the world with every fault; a labelled case is divided into thirds."""


def _world() -> SmallWorld:
    return SmallWorld(
        down={"p1-h1/e0": [(t, t + 10) for t in range(100, 400, 40)], "p2-l0/u2": [(150, 900)]},
        disabled={"p2-l1/u0": [(300, 500)]},
        offline={"s1": [(600, 720)], "p2-h2": [(200, 600)]},
        not_polled={"p1-h2": [(300, 700)]},
        boots={"s1": 720},
    )


EVERYTHING = "everything"
"""The name of the world with every fault at once; the other names are labelled cases."""


def world_of(name: str) -> SmallWorld:
    """Return the world of a case."""
    return _world() if name == EVERYTHING else LABELLED[name][0]


@cache
def measure_steps(name: str) -> list[Step]:
    """Rounds and statuses as they arrive, with the arrival clock after each batch."""
    messages: list[Message]
    if name == EVERYTHING:
        messages, until, step_s = [*recorded(_world(), UNTIL), event("s1", 715, EventKind.DEVICE_REBOOT)], UNTIL, STEP
    else:
        messages, until = case_messages(name), int(settled_s(name))
        step_s = -(-until // 3)
    steps: list[Step] = []
    for start in range(0, until, step_s):
        batch = [m for m in messages if start <= _time(m) < start + step_s]
        steps += [batch, at(min(start + step_s, until) - 1)]
    return steps


def _time(message: Message) -> float:
    return event_time(message)[0] / 1e9 - at(0) / 1e9


def downstream(stage: Stage, top: Topology, steps: list[Step], topics: tuple[Topic, ...]) -> list[Step]:
    """Return the messages for the next stage that these steps give."""
    stage.start_epoch(1)
    stage.set_topology(top)
    below: list[Step] = []
    for step in steps:
        outputs = stage.advance_watermark(step) if isinstance(step, int) else stage.process(step)
        if batch := [o.message for o in outputs if o.topic in topics and o.message is not None]:
            below.append(list(dict.fromkeys(batch)) if SYMPTOMS in topics else batch)
        if stage.watermark_ns < 2**62 and stage.watermark_ns not in below[-2:]:
            below.append(stage.watermark_ns)
    return [*below, at(UNTIL + 3600)]


@cache
def correlate_steps(name: str) -> list[Step]:
    """Return the symptoms and windows of a case."""
    return downstream(Measure(PARAMS), world_of(name).topology, measure_steps(name), (SYMPTOMS, SUMMARIES))


@cache
def attribute_steps(name: str) -> list[Step]:
    """Return the episodes of a case."""
    return downstream(Correlate(PARAMS), world_of(name).topology, correlate_steps(name), (EPISODES,))
