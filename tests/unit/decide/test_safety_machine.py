"""Property test of the whole stage over random fabrics: what is published keeps every limit of the guards.

The limits are checked by tests/fixtures/safety_ledger.py, which has no code of `decide`. Each guard is also replaced by
one that permits, and the machine must then find the violation of this limit.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from streams.decide import answers, capacity, guards
from streams.decide.core import Core
from streams.decide.fabric_view import FabricView
from streams.fabric.graph import ABSENT, Graph, Ints, Mask
from streams.wire.models import RemediationResult
from tests.fixtures.safety_ledger import Limits, Violation
from tests.fixtures.safety_machine import Safety


def run(examples: int, only: Limits | None = None) -> None:
    """Run the machine with all limits, or with one profile of them; raises Violation where one is broken."""
    chosen = settings(
        max_examples=examples, stateful_step_count=30, deadline=None, derandomize=True, database=None,
        phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(type("Safety", (Safety,), {"only": only}), settings=chosen)


@pytest.mark.filterwarnings("ignore")
def test_every_limit_holds_in_every_history() -> None:
    """Of findings, failures, controls, answers, forged answers, restarts and time."""
    run(100)


def permit(*_: Any) -> None:
    """Permit everything, as a guard."""


MUTANTS = {
    "kill_switch": (Limits(), "kill switch"),
    "mode": (Limits(mode="shadow"), "mode"),
    "maintenance": (Limits(), "maintenance"),
    "exclusion": (Limits(), "exclusion"),
    "evidence": (Limits(), "(weak|unknown|one-sided) evidence"),
    "freshness": (Limits(), "stale"),
    "inventory": (Limits(), "inventory"),
    "capacity": (Limits(), "floor|last plane"),
    "caps": (Limits(fabric_cap=2, pod_cap_ratio=0.1), "(relative )?cap"),
    "rate": (Limits(actions_per_hour=2), "hourly rate"),
    "budget": (Limits(isolation_budget=1), "budget"),
    "cool_down": (Limits(cool_down_s=600), "cool-down"),
    "job": (Limits(), "job"),
}
"""Guard -> the limits with which it matters most, and the violation that its absence is."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("guard", [guard.__name__ for guard in guards.GUARDS])
def test_the_machine_detects_a_guard_that_permits(monkeypatch: pytest.MonkeyPatch, guard: str) -> None:
    """One guard at a time is replaced; its own limit is then broken in some history."""
    limits, violation = MUTANTS[guard]
    monkeypatch.setattr(guards, "GUARDS", tuple(permit if own.__name__ == guard else own for own in guards.GUARDS))
    monkeypatch.setattr(guards, guard, permit)
    with pytest.raises(Violation, match=f"^({violation})"):
        run(400, limits)


@pytest.mark.filterwarnings("ignore")
def test_the_machine_detects_a_restore_without_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every target qualifies, whatever is read of it."""
    monkeypatch.setattr(FabricView, "qualifies", lambda *_: True)
    with pytest.raises(Violation, match=r"^(restore without proof|readings)"):
        run(400, Limits())


@pytest.mark.filterwarnings("ignore")
def test_the_machine_detects_an_answer_of_another_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result counts as one of the actor that accepted, or a target returns whose repair was not reported."""
    process = answers.process_result

    def forge(core: Core, result: RemediationResult) -> None:
        remedy = core.state.remedies.get(result.remediation_id)
        process(core, result if remedy is None else replace(result, actor=remedy.accepted_by or result.actor))

    monkeypatch.setattr(answers, "process_result", forge)
    with pytest.raises(Violation, match=r"^(a result of mallory|restore without a repair)"):
        run(400, Limits())


@pytest.mark.filterwarnings("ignore")
def test_the_machine_detects_that_planes_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without their floor one breaks; those of rails and pods hold in this fabric if those of all switches do."""
    count_groups = capacity._link_groups

    def without_planes(graph: Graph, is_fabric: Mask) -> tuple[Ints, list[capacity.Group], list[int]]:
        groups, names, sizes = count_groups(graph, is_fabric)
        planes = [number for number, name in enumerate(names) if name.kind == "plane"]
        return np.where(np.isin(groups, planes), ABSENT, groups), names, sizes

    monkeypatch.setattr(capacity, "_link_groups", without_planes)
    with pytest.raises(Violation, match=r"^floor of the plane"):
        run(400, Limits(capacity_floor=0.75))


@pytest.mark.filterwarnings("ignore")
def test_the_machine_detects_a_second_isolation_of_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person approves a cordon and a reboot of one host."""
    monkeypatch.setattr(Core, "holder", lambda *_: None)
    with pytest.raises(Violation, match=r"^another remediation of the target"):
        run(400, Limits())
