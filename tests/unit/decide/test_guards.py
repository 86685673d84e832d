"""decide: which guard forbids an action, and with which numbers."""

from streams.decide.guards import cool_down, surviving_capacity
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


def test_capacity_of_a_switch_denies_with_its_numbers() -> None:
    """Of four paths one is down: without another, half would be left, and the floor is three quarters."""
    stage = deciding()
    stage.process([finding("p1-l0/u1", Condition.LINK_DOWN)])
    stage.advance_watermark(at(10))
    (said,) = decisions(stage, finding("p1-l0/u0", t=20), t=30)
    assert (said.verdict, said.constraint) == (Verdict.DENIED, "surviving-capacity")
    assert (said.constraint_limit, said.constraint_observed, said.surviving_capacity_ratio) == (0.75, 0.5, 0.5)


def test_capacity_counts_what_is_down_drained_and_decided() -> None:
    """Each of the three takes a path away; a shadow decision does not, nor what is over."""
    cable, other = TOP.uplinks_of["p1-l0"][:2]

    def verdict(stage: Decide) -> Verdict:
        own = finding(f"p1-l0/{cable.lower.port}", t=100)
        (said,) = [r for r in decisions(stage, own, t=110) if r.target == own.subject]
        return said.verdict

    port = f"p1-l0/{other.lower.port}"
    down = deciding()
    down.process([finding(port, Condition.LINK_DOWN)])
    assert verdict(down) is Verdict.DENIED
    decided = deciding()
    assert [r.verdict for r in decisions(decided, finding(port))] == [Verdict.APPROVED]
    assert verdict(decided) is Verdict.DENIED
    drained = deciding()
    (said,) = decisions(drained, finding(port))
    drained.process([answer(said)])
    drained.advance_watermark(at(90))
    assert verdict(drained) is Verdict.DENIED
    gone = deciding()
    gone.process([finding("s2", Condition.DEVICE_DOWN)])
    assert verdict(gone) is Verdict.DENIED
    over = deciding()
    over.process([finding(port, Condition.LINK_DOWN, status=Status.RESOLVED, resolved_at_ns=at(5))])
    assert verdict(over) is Verdict.APPROVED
    shadow = deciding("shadow")
    decisions(shadow, finding(port))
    assert verdict(shadow) is Verdict.SHADOW


def _planes() -> Topology:
    """Two leaves of one pod and plane, two uplinks each."""
    devices = [Device(name=n, kind="switch", tier="T0", pod="p") for n in ("a", "b")]
    devices += [Device(name=n, kind="switch", tier="T1") for n in ("s", "t")]
    links = [link(f"{leaf}/{n}", f"{spine}/{leaf}{n}", plane=0) for leaf in "ab" for n, spine in enumerate("stst")]
    return Topology(Inventory(devices=tuple(devices), links=tuple(links)))


def test_capacity_of_a_plane_denies_what_a_switch_would_allow() -> None:
    """Leaf a keeps three of four, but its pod's plane would keep only five of eight."""
    top = _planes()
    a, b = top.uplinks_of["a"], top.uplinks_of["b"]
    assert surviving_capacity(top, a[0], {b[0].id}, 0.75).verdict is None
    ruling = surviving_capacity(top, a[0], {b[0].id, b[1].id}, 0.75)
    assert (ruling.verdict, ruling.limit, ruling.observed) == (Verdict.DENIED, 0.75, 0.625)


def test_a_host_link_without_another_plane_needs_a_person() -> None:
    """With the other plane up it may be drained; without it a person decides."""
    (fine,) = decisions(deciding(), finding("p1-h1/e0"))
    assert (fine.verdict, fine.surviving_capacity_ratio) == (Verdict.APPROVED, 0.5)
    stage = deciding()
    stage.process([finding("p1-h1/e1", Condition.LINK_DOWN)])
    (said,) = [r for r in decisions(stage, finding("p1-h1/e0")) if r.action is Action.DRAIN_LINK]
    assert (said.verdict, said.constraint, said.constraint_observed) == (
        Verdict.NEEDS_APPROVAL, "surviving-capacity", 0.0,
    )  # fmt: skip


def test_repairing_a_link_that_is_down_loses_nothing() -> None:
    """It carries nothing already: the floor does not forbid to mend it, even when all are down."""
    stage = deciding()
    said = decisions(stage, *(finding(f"p1-l0/u{n}", Condition.LINK_DOWN) for n in range(4)))
    assert [r.verdict for r in said] == [Verdict.APPROVED] * 4
    assert {r.action for r in said} == {Action.REPAIR_LINK}


def test_a_target_cools_down_between_two_actions() -> None:
    """A second action sooner than the cool-down is denied with both numbers; later it is approved."""
    stage = deciding(cool_down_s=1000)
    (first,) = decisions(stage, finding("p1-l0/u0"))
    (restore,) = remediations(stage.process([answer(first, t=50), ended(finding("p1-l0/u0"), final=True)]))
    stage.process([answer(restore, t=60)])
    (said,) = [r for r in decisions(stage, finding("p1-l0/u0", t=500), t=520) if r.action is Action.DRAIN_LINK]
    assert (said.verdict, said.constraint, said.constraint_limit) == (Verdict.DENIED, "cool-down", 1000)
    assert said.constraint_observed == 460
    (later,) = decisions(stage, finding("p1-l0/u0", t=2000), t=2010)
    assert later.verdict is Verdict.APPROVED


def test_cool_down_says_how_long_it_was_left_alone() -> None:
    """Exactly the cool-down is enough; never acted on is fine."""
    assert cool_down(None, at(5), 60).verdict is None
    assert cool_down(at(0), at(60), 60).verdict is None
    ruling = cool_down(at(0), at(59), 60)
    assert (ruling.verdict, ruling.limit, ruling.observed) == (Verdict.DENIED, 60, 59)


def test_a_revoked_action_leaves_no_cool_down() -> None:
    """Nobody touched the link: the next finding on it may be acted on at once."""
    own = finding("p1-l0/u0")
    stage = deciding()
    decisions(stage, own)
    stage.process([ended(own, final=True)])
    (said,) = decisions(stage, finding("p1-l0/u0", t=100), t=110)
    assert said.verdict is Verdict.APPROVED


def test_the_kill_switch_denies_every_action_until_it_ends() -> None:
    """It has a name of its own as constraint; observing goes on; with an end it ends."""
    stage = deciding()
    stage.process([Control("stop", ControlKind.KILL_SWITCH, until_ns=at(100))])
    (said,) = decisions(stage, finding("p1-l0/u0"))
    assert (said.verdict, said.constraint) == (Verdict.DENIED, "kill-switch")
    (watch,) = decisions(stage, finding("p1-l1/u0", occurrences=1), t=20)
    assert (watch.action, watch.verdict) == (Action.OBSERVE, Verdict.APPROVED)
    (later,) = decisions(stage, finding("p2-l0/u0", t=100), t=110)
    assert later.verdict is Verdict.APPROVED


def test_a_kill_switch_for_good_is_ended_by_a_later_control() -> None:
    """The same id with an end in the past lifts it."""
    stage = deciding()
    stage.process([Control("stop", ControlKind.KILL_SWITCH)])
    assert [r.verdict for r in decisions(stage, finding("p1-l0/u0"), t=1000)] == [Verdict.DENIED]
    stage.process([Control("stop", ControlKind.KILL_SWITCH, until_ns=at(0))])
    assert [r.verdict for r in decisions(stage, finding("p1-l1/u0"), t=1001)] == [Verdict.APPROVED]
