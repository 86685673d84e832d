"""Tests the evidence of `decide` over all stages: which links of a simulated fabric count as capacity and qualify."""

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest

from streams.decide.link_states import Block
from streams.decide.stage import Decide
from streams.replay.driver import Driver, batches, event_time
from streams.wire.models import Message
from tests.worlds.link_windows import with_quality
from tests.worlds.live_stages import LiveStages, in_order
from tests.worlds.observations import T0
from tests.worlds.small_world import SmallWorld, stages

QUALIFY_S = 900
SLACK_S = 80
"""A reading after a transition begins a stretch, which is sent at the first reading of the next minute."""


class Moment(NamedTuple):
    """The links at the time of a batch."""

    t: float
    blocked: dict[str, Block]
    doubts: list[str]


def link_at(world: SmallWorld, port: str) -> str:
    device, _, name = port.partition("/")
    found = world.topology.link_at(world.topology.resolve_port(device, name))
    assert found is not None
    return found.id


def watch(
    world: SmallWorld, port: str, until: float, read: Callable[[SmallWorld, float], Iterable[Message]]
) -> list[Moment]:
    """Return the states of the links after each batch, and the qualification of one."""
    own = stages()
    assert isinstance(own.decide, Decide)
    driver, decide, link_id = Driver(own, world.topology), own.decide, link_at(world, port)
    moments = []
    for batch in batches(sorted(read(world, until), key=event_time)):
        driver.process(batch)
        links = decide.link_states
        t = event_time(batch[-1])[0] / 1e9 - T0
        moments.append(Moment(t, dict(links.blocked), links.doubts(link_id)))
    return moments


def plain(world: SmallWorld, until: float) -> Iterable[Message]:
    return world.rounds(until)


def measured(world: SmallWorld, until: float) -> Iterable[Message]:
    return with_quality(world.rounds(until))


def at_time(moments: list[Moment], t: float) -> Moment:
    return [moment for moment in moments if moment.t <= t][-1]


def first_qualified(moments: list[Moment], after: float = 0) -> float:
    return next(moment.t for moment in moments if moment.t > after and not moment.doubts)


def test_a_link_that_is_administratively_down_is_no_capacity() -> None:
    """From the reading that shows it at one end until that which shows it enabled."""
    world = SmallWorld(disabled={"p1-l0/u1": [(200, 400)]})
    link = link_at(world, "p1-l0/u1")
    moments = watch(world, "p1-l0/u1", 600, plain)
    assert at_time(moments, 190).blocked == {}
    assert at_time(moments, 200).blocked == {link: Block.ADMIN_DOWN}
    assert at_time(moments, 390).blocked == {link: Block.ADMIN_DOWN}
    assert at_time(moments, 400).blocked == {}


def test_the_links_of_a_device_that_is_not_read_are_no_capacity() -> None:
    """Healthy or not: within the stale limit after its last reading they no longer count, until it is read again."""
    world = SmallWorld(not_polled={"s1": [(200, 500)]})
    links = {link.id for link in world.topology.links_of["s1"]}
    moments = watch(world, "p1-l0/u0", 700, plain)
    assert at_time(moments, 200).blocked == {}
    assert at_time(moments, 240).blocked == dict.fromkeys(links, Block.STALE)
    assert at_time(moments, 500).blocked == {}


def test_a_link_that_comes_back_and_stays_up_qualifies_after_900_seconds() -> None:
    """Not before, and within a minute and a reading after."""
    world = SmallWorld(down={"p1-l0/u0": [(100, 160)]})
    moments = watch(world, "p1-l0/u0", 1300, measured)
    t = first_qualified(moments, after=160)
    assert 160 + QUALIFY_S <= t <= 160 + QUALIFY_S + SLACK_S
    assert not any(moment.doubts for moment in moments if moment.t >= t)


def test_a_repair_takes_the_link_down_and_is_proven_at_both_ends() -> None:
    """The light of one end was low while the link stayed up; the far end has evidence only since the repair."""
    world = SmallWorld(down={"p1-l0/u0": [(1600, 1640)]})

    def dirty(own: SmallWorld, until: float) -> Iterable[Message]:
        return with_quality(own.rounds(until), light=lambda port, t: -4.5 if port in dim and 1200 < t < 1600 else -1.0)

    dim = {"p1-l0/u0"}
    moments = watch(world, "p1-l0/u0", 2700, dirty)
    low, far = at_time(moments, 1590).doubts
    assert low.endswith("sound readings since receive power -4.5 dBm, limit -3.0 dBm")
    assert far == "s1/p1-l0: no counter of errors and no BER is read"
    assert 1640 + QUALIFY_S <= first_qualified(moments, after=100) <= 1640 + QUALIFY_S + SLACK_S


@pytest.mark.parametrize("seed", range(4))
def test_restarts_of_measure_and_decide_change_no_evidence(seed: int) -> None:
    """Both are replaced by successors at random points, and messages come twice: links and proofs are the same."""
    world = SmallWorld(
        down={"p1-l0/u0": [(100, 160)], "p2-l0/u2": [(150, 900)]}, disabled={"p2-l1/u0": [(300, 500)]},
        offline={"s1": [(400, 500)]}, not_polled={"p1-h2": [(300, 700)]}, boots={"s1": 520},
    )  # fmt: skip
    messages = in_order(measured(world, 1300))
    rng = random.Random(seed)
    whole, killed = LiveStages(world.topology), LiveStages(world.topology)
    cuts = {rng.randrange(len(messages)): rng.choice((0, 3)) for _ in range(8)}
    for number, message in enumerate(messages):
        whole.process(message)
        if number in cuts:
            killed.take_over(cuts[number])
            for repeated in messages[max(0, number - rng.randrange(30)) : number]:
                killed.process(repeated)
        killed.process(message)
    assert _evidence(killed, world) == _evidence(whole, world)


def _evidence(live: LiveStages, world: SmallWorld) -> object:
    decide = live.stages[3]
    assert isinstance(decide, Decide)
    links = decide.link_states
    return dict(links.blocked), {link: (links.why_not(link), links.doubts(link)) for link in world.topology.links}
