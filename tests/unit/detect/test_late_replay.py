"""Congestion at ports does not depend on the order in which the readings of a source arrive."""

import random

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.wire.models import Message, Symptom, SymptomsReplaced
from tests.contract.detect.cases import INCAST, STORM, THROTTLED
from tests.worlds.live_stages import final_findings, in_order, run, shuffled
from tests.worlds.measure_stage import detected
from tests.worlds.small_world import Seconds, SmallWorld, recorded

PAUSER = "pod1-host2/mlx5_3"


def spans(chance: random.Random, shortest: int, longest: int) -> list[Seconds]:
    """Return random intervals; a finding is over between some of them, and lasts between others."""
    begin, found = 100.0, list[Seconds]()
    while begin < 800:
        end = begin + chance.randrange(shortest, longest)
        found.append((begin, end))
        begin = end + chance.choice([chance.randrange(5, 40), chance.randrange(200, 300)])
    return found


def messages_of(world: SmallWorld) -> list[Message]:
    """Return all messages of a world, in order."""
    return in_order(recorded(world, 1100))


@pytest.mark.parametrize("seed", range(6))
def test_storms_that_come_and_go_are_the_same(seed: int) -> None:
    """They are shorter than a round or longer than the lateness, at a host and at the leaf that it pauses."""
    chance = random.Random(seed)
    own = spans(chance, 5, 100)
    world = SmallWorld(topology=STORM.topology, pausing={PAUSER: own, "pod1-leaf4/Ethernet1/1": own})
    arrived = shuffled(messages_of(world), 18, chance, keep_order=False)
    assert final_findings(run(arrived, world.topology)) == final_findings(run(messages_of(world), world.topology)) != []


@pytest.mark.parametrize("seed", range(6))
def test_short_and_long_incasts_are_the_same(seed: int) -> None:
    """Slightly longer than the shortest that is reported, and much longer."""
    chance = random.Random(seed)
    world = SmallWorld(topology=INCAST.topology, incast={PAUSER: spans(chance, 50, 200)})
    arrived = shuffled(messages_of(world), 18, chance, keep_order=False)
    assert final_findings(run(arrived, world.topology)) == final_findings(run(messages_of(world), world.topology)) != []


@pytest.mark.parametrize("world", [STORM, INCAST, THROTTLED], ids=["storm", "incast", "collapse"])
def test_readings_in_order_are_reported_once(world: SmallWorld) -> None:
    """However late a reading is, its symptoms are not emitted again when the next one comes."""
    stage, found = Measure(DetectParams()), list[Symptom]()
    stage.set_topology(world.topology)
    missing = set(range(150, 900, 70))
    for message in messages_of(world):
        if getattr(message, "sampled_at_ns", 0) // 10**9 % 1_000_000 not in missing:
            outputs = [o.message for o in detected(stage.process([message]))]
            found += [one for one in outputs if isinstance(one, Symptom)]
            assert not any(isinstance(one, SymptomsReplaced) for one in outputs)
    assert len(found) == len(set(found)) > 0
