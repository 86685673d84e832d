"""A restart of railsight, or of its collectors, invents no fault of a device and hides no real one."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from streams.replay.driver import event_time
from streams.wire.models import Cause, Condition, Finding, Message, Severity, Status
from tests.worlds.live_stages import in_order
from tests.worlds.observations import after
from tests.worlds.paging import PagedPipeline
from tests.worlds.small_fabric import topology
from tests.worlds.small_world import SmallWorld, findings, play, status, statuses

TOP = topology()
EVERYTHING = tuple(TOP.links_of)
GAP = (400, 607)
"""The sources are silent for 3 min 27 s."""
CUT = ("p1-l0/u0", "p1-l0/u1")


def world(cut_s: float, gap: tuple[float, float] = GAP) -> SmallWorld:
    """Return a fabric in which two uplinks of a leaf are cut, and no device is polled for a time."""
    return SmallWorld(down={port: [(cut_s, 1e9)] for port in CUT}, not_polled={device: [gap] for device in EVERYTHING})


def without_status(_: SmallWorld, __: float) -> Iterator[Message]:
    """Yield no status, as in a recording of samples alone."""
    return iter(())


def killed(own: SmallWorld, until: float) -> Iterator[Message]:
    """Yield the statuses of a collector that is killed at the begin of the gap and started again at its end."""
    return (one for one in statuses(own, until) if not GAP[0] <= (after(one.at_ns) or 0) < GAP[1])


def stopped(own: SmallWorld, until: float) -> Iterator[Message]:
    """Yield the same of a collector that reports its end in order."""
    yield from killed(own, until)
    yield from (replace(status(device, GAP[0] - 1), ended=True) for device in EVERYTHING)


STATUSES = {"no status": without_status, "killed": killed, "stopped": stopped}


def of(found: Iterable[Finding], condition: Condition) -> list[Finding]:
    """Return the findings of a condition that were not retracted."""
    return [one for one in found if one.condition is condition and one.status is not Status.RETRACTED]


def check(found: list[Finding], every: Iterable[Finding]) -> None:
    """Check the findings at the end, and that no revision states that a device was down."""
    assert [one for one in every if one.condition is Condition.DEVICE_DOWN] == []
    downs = of(found, Condition.LINK_DOWN)
    assert [(f"{one.subject.a.device}/{one.subject.a.port}", one.parent_id) for one in downs if one.subject.a] == [
        (port, "") for port in CUT
    ]
    assert {one.severity for one in downs} == {Severity.CRITICAL}
    assert {one.confidence for one in downs} == {0.95}
    stale = of(found, Condition.TELEMETRY_STALE)
    (root,) = [one for one in stale if not one.parent_id]
    assert {one.parent_id for one in stale if one is not root} == {root.id}
    assert {one.cause for one in stale} == {Cause.COLLECTOR}
    assert {(after(one.started_at_ns), after(one.resolved_at_ns)) for one in stale} == {(390, 610)}
    assert len(stale) == len(EVERYTHING)


@pytest.mark.parametrize("kind", STATUSES)
@pytest.mark.parametrize("cut_s", [300, 395, 500], ids=["cut before", "cut at the begin", "cut meanwhile"])
def test_a_restart_is_one_finding_about_the_collector(kind: str, cut_s: float) -> None:
    """A recording in which all sources are silent together: the two links are down, and no device is."""
    own = world(cut_s)
    published = play(in_order([*own.rounds(1_200), *STATUSES[kind](own, 1_200)]))
    check(findings(published), [one for one in published if isinstance(one, Finding)])


@pytest.mark.parametrize("is_paused", [True, False], ids=["railsight was down", "its collectors were down"])
@pytest.mark.parametrize("kind", STATUSES)
@pytest.mark.parametrize("cut_s", [300, 500], ids=["cut before", "cut meanwhile"])
def test_the_page_of_a_real_fault_is_sent(kind: str, cut_s: float, is_paused: bool) -> None:
    """Live, with the clock of arrival: the second cut link pages, whether or not the stages ran meanwhile."""
    own = world(cut_s)
    sent = [*own.rounds(1_200), *STATUSES[kind](own, 1_200)]
    messages = [((after(event_time(one)[0]) or 0) + 0.2, one) for one in sent]
    pipeline = PagedPipeline(TOP)
    published = pipeline.run(messages, 1_200, paused=GAP if is_paused else (0, 0))
    check(sorted(published.last, key=lambda f: (f.started_at_ns, f.subject.id)), published.revisions)
    paged = of(published.paged, Condition.LINK_DOWN)
    assert paged
    assert all(published.pages[one.id] < max(cut_s, GAP[1]) + 90 for one in paged)
    assert len(of(published.paged, Condition.TELEMETRY_STALE)) <= 1
