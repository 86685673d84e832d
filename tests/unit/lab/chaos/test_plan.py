"""The sequence of a seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.chaos.faults import FAULTS, needs_of
from lab.chaos.plan import fault_names, make_plan
from lab.chaos.scene import NOTHING, Need
from lab.chaos.stack import ALL_TARGETS
from streams.wire.errors import Misconfigured


@given(st.integers(0, 10**6), st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, unique=True), st.floats(1, 120))
def test_a_seed_gives_one_sequence(seed: int, faults: list[str], seconds: float) -> None:
    """The same arguments give the same steps, at least one, all of the given faults and begun in time."""
    plan = make_plan(seed, faults, seconds)
    assert plan == make_plan(seed, faults, seconds)
    assert plan
    assert {step.fault for step in plan} <= set(faults)
    assert all(step.begin_s < seconds for step in plan)


@given(st.integers(0, 10**6))
def test_faults_of_one_target_do_not_overlap(seed: int) -> None:
    """Of two steps with one target, or with the target of everything, the first heals before the second begins."""
    plan = make_plan(seed, tuple(FAULTS), 120)
    for i, first in enumerate(plan):
        for second in plan[i + 1 :]:
            targets = {FAULTS[first.fault].target, FAULTS[second.fault].target}
            if len(targets) == 1 or ALL_TARGETS in targets:
                assert first.heal_s < second.begin_s


def test_all_are_the_faults_that_need_nothing_else() -> None:
    """Those of three brokers, and those of network and disks, are chosen by name or as `every`."""
    assert needs_of(fault_names("all")) == NOTHING
    rest = set(FAULTS) - set(fault_names("all"))
    assert rest == {
        "brokers-in-turn", "network-cut", "network-lossy", "network-slow", "broker-disk-full", "store-disk-full",
    }  # fmt: skip
    assert needs_of(FAULTS) == Need.THREE_BROKERS | Need.NAMESPACES


def test_an_unknown_fault_is_refused_by_name() -> None:
    """The error names it and the faults that exist."""
    assert fault_names("every") == tuple(FAULTS)
    assert fault_names("poison, broker-killed") == ("poison", "broker-killed")
    with pytest.raises(Misconfigured, match=r"unknown fault 'flood'; available: worker-killed"):
        fault_names("poison,flood")
    with pytest.raises(Misconfigured, match="unknown fault ''"):
        fault_names("")
