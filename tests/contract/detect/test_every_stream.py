"""What holds of every detector, by its labelled case: order, repetition, restarts and what is not read decide nothing.

A detector that is registered with a case comes through all of this without a word.
"""

import random
from collections.abc import Callable
from functools import cache

import pytest

from streams.replay.driver import event_time
from streams.replay.score import score
from streams.wire.models import CollectorStatus, Condition, Event, Facts, Finding, Message, Samples
from tests.contract.detect.test_registry import LABELLED
from tests.unit.detect.chain import World, recorded
from tests.unit.detect.live import histories, in_order, run, shuffled, standing
from tests.unit.detect.parts import HOST
from tests.unit.detect.seen import GNMI, NIC, SNMP, at

UNTIL_S = 1200
LATE_S = 18
"""Within the lateness (30 s), and so that no silence of a source at 10 s seems to pass its limit."""


@cache
def case(slug: str) -> tuple[World, list[Message]]:
    """A labelled case, and all that is told of it in its order."""
    world, _ = LABELLED[slug]
    return world, in_order(recorded(world, UNTIL_S))


@cache
def in_the_end(slug: str) -> list[Finding]:
    """What stands when all came in its order."""
    world, messages = case(slug)
    return standing(run(messages, world.top))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("slug", LABELLED)
def test_order_and_repetition_within_the_lateness_change_no_final_revision(slug: str, seed: int) -> None:
    """Everything of the last revisions is the same, but for ids and revisions."""
    world, messages = case(slug)
    arrived = shuffled(messages, LATE_S, random.Random(seed))
    assert arrived != messages
    assert standing(run(arrived, world.top)) == in_the_end(slug) != []


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("slug", LABELLED)
def test_who_is_killed_and_taken_over_changes_nothing(slug: str, seed: int) -> None:
    """Twelve times a stage goes on from a snapshot: of each finding is said what would have been said, ids too."""
    world, messages = case(slug)
    chance = random.Random(seed)
    arrived = shuffled(messages, LATE_S, chance)
    killed = {(chance.randrange(len(arrived)), chance.randrange(4)) for _ in range(12)}
    assert histories(run(arrived, world.top, killed)) == histories(run(arrived, world.top)) != {}


SOURCES: dict[str, Callable[[Message], bool]] = {
    "gnmi": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is GNMI,
    "snmp": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is SNMP,
    "nic": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is NIC,
    "host": lambda m: isinstance(m, Samples | CollectorStatus | Facts) and m.source is HOST,
    "kernel log": lambda m: isinstance(m, Event),
}


@cache
def of_all_sources(slug: str) -> list[Message]:
    """A case as gNMI, SNMP and the hosts' own agents tell it, each at its own moment."""
    world, told = case(slug)
    hosts = {device.name for device in world.top.devices.values() if device.kind == "host"}
    nics = (own for own in world.rounds(UNTIL_S, NIC, phase=6) if own.device in hosts)
    return in_order([*told, *world.rounds(UNTIL_S, SNMP, phase=3), *nics])


@pytest.mark.parametrize("from_s", [0, 300])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("slug", LABELLED)
def test_a_source_that_is_not_read_makes_no_false_finding(slug: str, source: str, from_s: float) -> None:
    """Never read, or no more from the middle of the fault on: what is said is true, or that it is not seen."""
    world, truth = LABELLED[slug]
    is_gone = SOURCES[source]
    left = [m for m in of_all_sources(slug) if not (is_gone(m) and event_time(m)[0] >= at(from_s))]
    said = [f for f in run(left, world.top) if isinstance(f, Finding)]
    own = score([f for f in said if f.condition is not Condition.TELEMETRY_STALE], [truth])
    assert not own.invented, own.invented


@pytest.mark.parametrize("slug", LABELLED)
def test_all_sources_together_say_what_one_does(slug: str) -> None:
    """Three ways of reading one fault are one finding."""
    world, truth = LABELLED[slug]
    said = [f for f in run(of_all_sources(slug), world.top) if isinstance(f, Finding)]
    own = score(said, [truth])
    assert (own.precision, own.recall) == (1.0, 1.0), own
