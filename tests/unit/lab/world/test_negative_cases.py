"""Tests of agents that report a healthy switch oddly: no faults are found, and those beside them are."""

from dataclasses import replace

import pytest

from lab.world.effects import Interval
from lab.world.fault_placement import FaultPlacer
from lab.world.faults import FAULT_OF, Fault
from lab.world.ground_truth import InjectedFault
from lab.world.negative_cases import ODD_AGENTS, NegativeCase
from streams.fabric.clos import GenerateParams, generate
from streams.replay.driver import drive
from streams.wire.models import Condition, Finding, Samples
from tests.worlds.simulated_world import S, SimulatedWorld
from tests.worlds.small_world import stages

SMALL = generate(GenerateParams(gpus=128, radix=64, jobs=0))
CADENCE_S, LAST_S = 30.0, 2400.0


def world(*cases: NegativeCase, slug: str = "") -> SimulatedWorld:
    """Return half an hour of a fabric with negative cases, and with a fault."""

    def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
        fault = FAULT_OF[slug].inject(placer, within) if slug else InjectedFault((), (), "healthy")
        odd = [effect for case in cases for effect in case.inject(placer, within)]
        return replace(fault, effects=(*fault.effects, *odd))

    return SimulatedWorld(SMALL, Fault(Condition.CONDITION_UNSPECIFIED, inject), (300.0, LAST_S - 300), LAST_S)


def readings(*cases: NegativeCase) -> list[object]:
    return [
        (one.boot_id, one.sampled_at_ns, one.counters.values.tobytes())
        for one in world(*cases).messages(60.0)
        if isinstance(one, Samples)
    ]


@pytest.mark.parametrize("case", ODD_AGENTS, ids=lambda case: case.name)
def test_an_odd_agent_is_injected_by_name(case: NegativeCase) -> None:
    """The readings of its switch differ from those of a healthy agent."""
    assert readings(case) != readings()


@pytest.mark.parametrize(("slug", "found"), [("", set()), ("link/down", {Condition.LINK_DOWN})])
def test_odd_agents_are_no_faults_and_hide_none(slug: str, found: set[Condition]) -> None:
    """All of them at switches of one fabric, without and with a link that is down."""
    own = world(*ODD_AGENTS, slug=slug)
    messages = own.messages(CADENCE_S)
    assert {f.condition for f in drive(stages(), own.topology, messages, 30 * S) if isinstance(f, Finding)} == found
