"""Tests which guard denies an action, and the values that it reports."""

from streams.decide.first_guards import cool_down, surviving_capacity
from streams.decide.stage import Decide
from streams.fabric.inventory import Device, Inventory
from streams.fabric.topology import Topology
from streams.wire.models import (
    Action,
    Condition,
    Control,
    ControlKind,
    Status,
    Verdict,
)
from tests.fixtures.decide_stage import TOP, answer, deciding, decisions, ended, finding, remediations
from tests.worlds.observations import at
from tests.worlds.small_fabric import link


def test_capacity_of_a_switch_denies_with_its_values() -> None:
    """One of four paths is down: without another, half would remain, and the floor is three quarters."""
    stage = deciding()
    stage.process([finding("p1-l0/u1", Condition.LINK_DOWN)])
    stage.advance_watermark(at(10))
    (decision,) = decisions(stage, finding("p1-l0/u0", t=20), t=30)
    assert (decision.verdict, decision.constraint) == (Verdict.DENIED, "surviving-capacity")
    assert (decision.constraint_limit, decision.constraint_observed, decision.surviving_capacity_ratio) == (
        0.75,
        0.5,
        0.5,
    )


def test_capacity_counts_links_down_drained_and_decided() -> None:
    """Each of the three removes a path; a shadow decision and a closed finding do not."""
    uplink, other = TOP.uplinks_of["p1-l0"][:2]

    def verdict(stage: Decide) -> Verdict:
        example = finding(f"p1-l0/{uplink.lower.port}", t=100)
        (decision,) = [r for r in decisions(stage, example, t=110) if r.target == example.subject]
        return decision.verdict

    port = f"p1-l0/{other.lower.port}"
    down = deciding()
    down.process([finding(port, Condition.LINK_DOWN)])
    assert verdict(down) is Verdict.DENIED
    decided = deciding()
    assert [r.verdict for r in decisions(decided, finding(port))] == [Verdict.APPROVED]
    assert verdict(decided) is Verdict.DENIED
    drained = deciding()
    (decision,) = decisions(drained, finding(port))
    drained.process([answer(decision)])
    drained.advance_watermark(at(90))
    assert verdict(drained) is Verdict.DENIED
    spine_down = deciding()
    spine_down.process([finding("s2", Condition.DEVICE_DOWN)])
    assert verdict(spine_down) is Verdict.DENIED
    closed = deciding()
    closed.process([finding(port, Condition.LINK_DOWN, status=Status.RESOLVED, resolved_at_ns=at(5))])
    assert verdict(closed) is Verdict.APPROVED
    shadow = deciding("shadow")
    decisions(shadow, finding(port))
    assert verdict(shadow) is Verdict.SHADOW


def _planes() -> Topology:
    """Return two leaves of one pod and plane with two uplinks each."""
    devices = [Device(name=n, kind="switch", tier="T0", pod="p") for n in ("a", "b")]
    devices += [Device(name=n, kind="switch", tier="T1") for n in ("s", "t")]
    links = [link(f"{leaf}/{n}", f"{spine}/{leaf}{n}", plane=0) for leaf in "ab" for n, spine in enumerate("stst")]
    return Topology(Inventory(devices=tuple(devices), links=tuple(links)))


def test_capacity_of_a_plane_denies_what_the_switch_allows() -> None:
    """Leaf a would keep three of four paths, but its pod's plane only five of eight."""
    top = _planes()
    a, b = top.uplinks_of["a"], top.uplinks_of["b"]
    assert surviving_capacity(top, a[0], {b[0].id}, 0.75).verdict is None
    result = surviving_capacity(top, a[0], {b[0].id, b[1].id}, 0.75)
    assert (result.verdict, result.limit, result.observed) == (Verdict.DENIED, 0.75, 0.625)


def test_a_host_link_without_another_plane_needs_a_person() -> None:
    """With the other plane up the link may be drained; without it a person decides."""
    (approved,) = decisions(deciding(), finding("p1-h1/e0"))
    assert (approved.verdict, approved.surviving_capacity_ratio) == (Verdict.APPROVED, 0.5)
    stage = deciding()
    stage.process([finding("p1-h1/e1", Condition.LINK_DOWN)])
    (decision,) = [r for r in decisions(stage, finding("p1-h1/e0")) if r.action is Action.DRAIN_LINK]
    assert (decision.verdict, decision.constraint, decision.constraint_observed) == (
        Verdict.NEEDS_APPROVAL, "surviving-capacity", 0.0,
    )  # fmt: skip


def test_repairing_a_link_that_is_down_loses_nothing() -> None:
    """It carries no traffic, so the floor does not deny the repair, even if all links are down."""
    stage = deciding()
    decision = decisions(stage, *(finding(f"p1-l0/u{n}", Condition.LINK_DOWN) for n in range(4)))
    assert [r.verdict for r in decision] == [Verdict.APPROVED] * 4
    assert {r.action for r in decision} == {Action.REPAIR_LINK}


def test_a_target_cools_down_between_two_actions() -> None:
    """A second action within the cool-down is denied with both values; later it is approved."""
    stage = deciding(cool_down_s=1000)
    (first,) = decisions(stage, finding("p1-l0/u0"))
    (restore,) = remediations(stage.process([answer(first, t=50), ended(finding("p1-l0/u0"), final=True)]))
    stage.process([answer(restore, t=60)])
    (decision,) = [r for r in decisions(stage, finding("p1-l0/u0", t=500), t=520) if r.action is Action.DRAIN_LINK]
    assert (decision.verdict, decision.constraint, decision.constraint_limit) == (Verdict.DENIED, "cool-down", 1000)
    assert decision.constraint_observed == 460
    (later,) = decisions(stage, finding("p1-l0/u0", t=2000), t=2010)
    assert later.verdict is Verdict.APPROVED


def test_cool_down_reports_the_elapsed_time() -> None:
    """The cool-down is over after exactly its duration; a target without an action has none."""
    assert cool_down(None, at(5), 60).verdict is None
    assert cool_down(at(0), at(60), 60).verdict is None
    result = cool_down(at(0), at(59), 60)
    assert (result.verdict, result.limit, result.observed) == (Verdict.DENIED, 60, 59)


def test_a_revoked_action_leaves_no_cool_down() -> None:
    """The link was not changed, so the next finding on it may be acted on at once."""
    example = finding("p1-l0/u0")
    stage = deciding()
    decisions(stage, example)
    stage.process([ended(example, final=True)])
    (decision,) = decisions(stage, finding("p1-l0/u0", t=100), t=110)
    assert decision.verdict is Verdict.APPROVED


def test_the_kill_switch_denies_every_action_until_it_ends() -> None:
    """It is a constraint of its own; OBSERVE is not denied; it is inactive after its end."""
    stage = deciding()
    stage.process([Control("stop", ControlKind.KILL_SWITCH, until_ns=at(100))])
    (decision,) = decisions(stage, finding("p1-l0/u0"))
    assert (decision.verdict, decision.constraint) == (Verdict.DENIED, "kill-switch")
    (watch,) = decisions(stage, finding("p1-l1/u0", occurrences=1), t=20)
    assert (watch.action, watch.verdict) == (Action.OBSERVE, Verdict.APPROVED)
    (later,) = decisions(stage, finding("p2-l0/u0", t=100), t=110)
    assert later.verdict is Verdict.APPROVED


def test_a_kill_switch_without_an_end_is_ended_by_a_later_control() -> None:
    """The same id with an end in the past ends it."""
    stage = deciding()
    stage.process([Control("stop", ControlKind.KILL_SWITCH)])
    assert [r.verdict for r in decisions(stage, finding("p1-l0/u0"), t=1000)] == [Verdict.DENIED]
    stage.process([Control("stop", ControlKind.KILL_SWITCH, until_ns=at(0))])
    assert [r.verdict for r in decisions(stage, finding("p1-l1/u0"), t=1001)] == [Verdict.APPROVED]
