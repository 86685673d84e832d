"""link/down: negative cases first, then when it opens, what it reports, and how it ends."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.wire.models import Condition, Endpoint, Finding, Status, Symptom
from tests.worlds.observations import (
    HOST,
    LEAF,
    LINK,
    after,
    at,
    changed,
    correlated,
    counted,
    down,
    episodes,
    flaps,
    last,
    off,
    on,
    up,
)
from tests.worlds.small_fabric import begun, topology
from tests.worlds.small_world import SmallWorld, play, recorded

HOUR = 3600


def _downs(symptoms: Sequence[Symptom], until: float = HOUR) -> list[Finding]:
    return [f for f in correlated(symptoms, until) if f.condition is Condition.LINK_DOWN]


def seen_up(port: str, t: float) -> Symptom:
    """A reading shows the port up after an event reported it down."""
    return replace(up(port, t), by_event=False)


NOT_DOWN: dict[str, list[Symptom]] = {
    "back before 30 s": [down(HOST, 0), up(HOST, 29.9)],
    "each end down for less than 30 s, one after the other with the link up in between": [
        *flaps(HOST, 0, lasting=20), *flaps(LEAF, 26, lasting=20)],
    "disabled at the same end before": [off(HOST, -5), down(HOST, 0)],
    "disabled at the far end before": [off(LEAF, -5), down(HOST, 0), down(LEAF, 0)],
    "disabled long before": [off(LEAF, -40_000), down(HOST, -39_999)],
    "the administrative down of the far end is reported 30 s later": [down(HOST, 0), off(LEAF, 30, since=20)],
    "enabled again, and trains": [off(LEAF, -5), down(HOST, 0), on(LEAF, 100), up(HOST, 129)],
    "disabled, enabled and disabled": [off(LEAF, -5), down(HOST, 0), on(LEAF, 100), off(LEAF, 110)],
    "a port that was already up": [up(HOST, 0)],
    "a flap of which one end is polled: events of the far end date what its readings leave open": [
        *flaps(HOST, 0, 22, 44, lasting=14),
        *(s for t in (10, 30, 50) for s in (down(LEAF, t, since=t - 10), up(LEAF, t + 10, since=t)))],
    "a flap of which one end is polled so rarely that it is always down then": [
        *flaps(HOST, 0, 22, 44, lasting=14), down(LEAF, 10, since=-10), up(LEAF, 70, since=50)],
    "each poll shows it down, and the counter of transitions shows ups between them": [
        down(LEAF, 5, since=-5), changed(LEAF, 5, -5, 3), *(changed(LEAF, t, t - 10, 2) for t in (15, 25, 35)),
        changed(LEAF, 45, 35, 3), up(LEAF, 45, since=35)],
    "each poll shows it down, and the counter of downs shows ups between them": [
        down(LEAF, 5, since=-5), counted(LEAF, 5, -5, 1), *(counted(LEAF, t, t - 10, 1) for t in (15, 25, 35, 45)),
        up(LEAF, 55, since=45)],
    "each poll of both ends shows it down, and only the far end counts": [
        down(LEAF, 5, since=-5), up(LEAF, 55, since=45), down(HOST, 9, since=-1), up(HOST, 59, since=49),
        *(counted(LEAF, t, t - 10, 1) for t in (5, 15, 25, 35, 45))],
}  # fmt: skip


@pytest.mark.parametrize("symptoms", NOT_DOWN.values(), ids=NOT_DOWN)
def test_what_does_not_open(symptoms: Sequence[Symptom]) -> None:
    """A link that recovers soon or is administratively down is no failed link."""
    assert _downs(symptoms) == []


DOWN: dict[str, tuple[list[Symptom], float, float, float | None]] = {
    # what was observed; started, detected, resolved
    "reported by one end": ([down(HOST, 0)], 0, 30, None),
    "reported by both ends": ([down(LEAF, 0.2), down(HOST, 0)], 0, 30, None),
    "met down at first sight": ([down(HOST, 0, since=-1_000_000)], 0, 30, None),
    "the far end came up and this one did not": ([down(HOST, 0), down(LEAF, 0), up(LEAF, 20)], 0, 30, None),
    "both read up at last, each at its reading": (
        [down(HOST, 0), down(LEAF, 0), up(HOST, 60, since=50), up(LEAF, 55, since=45)],
        0,
        30,
        55,
    ),
    "up at the far end for longer than lies between two readings that show it down": (
        [down(LEAF, 10, since=0), *flaps(HOST, 5, lasting=15), *flaps(HOST, 50, lasting=5)],
        5,
        35,
        None,
    ),
    "up by a reading after an event, at an unknown time": ([down(HOST, 0), seen_up(HOST, 40)], 0, 30, 40),
    "up again": ([down(HOST, 0), up(HOST, 100)], 0, 30, 100),
    "for exactly 30 s": ([down(HOST, 0), up(HOST, 30)], 0, 30, 30),
    "up at one end only": ([down(HOST, 0), down(LEAF, 0), up(HOST, 100)], 0, 30, None),
    "up for 4.9 s in between": ([down(HOST, 0), up(HOST, 100), down(HOST, 104.9), up(HOST, 200)], 0, 30, 200),
    "both ends by turns, never up for 5 s": ([*flaps(HOST, 0, lasting=20), *flaps(LEAF, 24, lasting=20)], 0, 30, 44),
    "a person disables it later": ([down(HOST, 0), off(LEAF, 31)], 0, 30, 31),
    "disabled at once, enabled, and still down": ([down(HOST, 0), off(LEAF, 1), on(LEAF, 100)], 100, 130, None),
    "its counter is read late": ([down(LEAF, 10, since=0), changed(LEAF, 20, 10, 1)], 10, 40, None),
    "its counter shows an up between two readings, and then none": (
        [down(LEAF, 10, since=0), changed(LEAF, 10, 0, 1), changed(LEAF, 20, 10, 2)],
        20,
        50,
        None,
    ),
    "its counter shows an up between two readings that are less than 5 s apart": (
        [down(HOST, 10, since=9), counted(HOST, 10, 9, 1), counted(HOST, 20, 19, 1)],
        10,
        40,
        None,
    ),
    "down by an event, and its counter shows an up that the events do not": (
        [down(LEAF, 0), changed(LEAF, 20, 10, 2)],
        0,
        30,
        None,
    ),
    "on a port of no known link": ([down("p1-l0/spare", 0), up("p1-l0/spare", 60)], 0, 30, 60),
}


@pytest.mark.parametrize(("symptoms", "started", "detected", "resolved"), DOWN.values(), ids=DOWN)
def test_what_opens(symptoms: Sequence[Symptom], started: float, detected: float, resolved: float | None) -> None:
    """It begins with the first down, is known 30 s later, and ends with the first up that holds."""
    (final,) = last(_downs(symptoms))
    assert after(final.started_at_ns) == started
    assert after(final.detected_at_ns) == detected
    assert after(final.resolved_at_ns) == resolved
    assert (final.status, final.final) == ((Status.RESOLVED, True) if resolved else (final.status, False))
    if resolved is None:
        assert final.status in (Status.OPEN, Status.UPDATED)


def test_what_does_not_open_does_not_a_day_later_either() -> None:
    """As its observations are forgotten one by one: a port that was shut, and is enabled before the far end sees it."""
    shut = [off(HOST, -0.1), down(HOST, 0), down(LEAF, 0.3), up(HOST, 254), on(HOST, 254.01), up(LEAF, 254.3)]
    for symptoms in (shut, *NOT_DOWN.values()):
        edges = sorted({s.at_ns for s in symptoms})
        stage = begun(Correlate(DetectParams()))
        published = stage.process(symptoms)
        old_ns = DetectParams().shared.link_retention_ns
        for watermark_ns in (at(HOUR), *(edge_ns + old_ns + more_ns for edge_ns in edges for more_ns in (0, 1, 2))):
            published += stage.advance_watermark(watermark_ns)
        assert [f for f in episodes(published) if f.condition is Condition.LINK_DOWN] == []


def test_an_up_must_hold_for_five_seconds() -> None:
    """Up for exactly 5 s ends it; the next down is another one."""
    found = last(_downs([down(HOST, 0), up(HOST, 100), down(HOST, 105), up(HOST, 200)]))
    assert [(after(f.started_at_ns), after(f.resolved_at_ns)) for f in found] == [(0, 100), (105, 200)]


def test_it_opens_resolves_and_is_final_each_at_its_watermark() -> None:
    """OPEN at 30 s and not before; RESOLVED 5 s after the up; final another 30 s later."""
    symptoms = [down(HOST, 0), up(HOST, 100)]
    assert _downs(symptoms[:1], 29.9) == []
    published = {
        until: [(f.status.name, f.final) for f in _downs(symptoms, until)] for until in (100, 104.9, 105, 134.9, 135)
    }
    assert published == {
        100: [("OPEN", False)], 104.9: [("OPEN", False)], 105: [("OPEN", False), ("RESOLVED", False)],
        134.9: [("OPEN", False), ("RESOLVED", False)],
        135: [("OPEN", False), ("RESOLVED", False), ("RESOLVED", True)],
    }  # fmt: skip


def test_both_ends_are_its_evidence() -> None:
    """The evidence of each end has its begin and source; one end alone lowers the confidence and names the other."""
    (both,) = last(_downs([down(HOST, 0), down(LEAF, 4, since=-6)]))
    host, leaf = both.evidence
    assert both.subject.id == LINK
    assert (both.confidence, both.coverage and (both.coverage.seen, both.coverage.missing)) == (0.95, (2, ()))
    assert (host.at, leaf.at) == (Endpoint("p1-h1", "e0"), Endpoint("p1-l0", "d1"))
    assert host.statement == f"{HOST} reported down by an event"
    assert leaf.statement == f"{LEAF} reported down by its state"
    assert [(after(e.window_start_ns), after(e.window_end_ns), e.comparison) for e in both.evidence] == [
        (0, 30, "both-ends"), (4, 30, "both-ends"),
    ]  # fmt: skip
    (one,) = last(_downs([down(LEAF, 0)]))
    assert (one.confidence, one.coverage and one.coverage.missing) == (0.6, (HOST,))
    assert one.summary == "p1-h1/e0 -- p1-l0/d1 is down"


@pytest.mark.parametrize("silent", [(-100, 400), (95, 400), (-100, 1100)], ids=["before", "at the cut", "long"])
def test_an_end_that_is_read_again_raises_the_confidence(silent: tuple[float, float]) -> None:
    """The switch at the other end was silent when the cable was cut; with its next reading both ends show the link."""
    link = next(iter(topology().links.values()))
    world = SmallWorld(
        down={f"{link.lower.device}/{link.lower.port}": [(100, 2000)]}, not_polled={link.upper.device: [silent]}
    )
    found = [one for one in play(recorded(world, 1500)) if isinstance(one, Finding)]
    downs = [one for one in found if one.condition is Condition.LINK_DOWN]
    assert [one.confidence for one in downs] == [0.6, 0.95]
    assert [len(one.coverage.missing) if one.coverage else None for one in downs] == [1, 0]


def test_the_far_end_dates_an_up_of_which_the_event_was_lost() -> None:
    """A late reading shows it up; an event of the far end dates that to 14 s."""
    (taken_back,) = last(_downs([down(HOST, 0), seen_up(HOST, 40), *flaps(LEAF, 0, lasting=14)]))
    assert taken_back.status is Status.RETRACTED


def test_an_administrative_down_reported_late_retracts_it() -> None:
    """It had opened; then it becomes known that a person had disabled the far end: that was no failure."""
    stage = begun(Correlate(DetectParams()))
    stage.process([down(HOST, 0)])
    (opened,) = episodes(stage.advance_watermark(at(31)))
    (taken_back,) = episodes(stage.process([off(LEAF, 10)]))
    assert (opened.status, taken_back.status) == (Status.OPEN, Status.RETRACTED)
    assert (taken_back.id, taken_back.revision > opened.revision) == (opened.id, True)


def test_an_outage_seen_only_afterwards_opens_and_resolves() -> None:
    """Both transitions arrive late and together; each is published as it is read, however they were fetched."""
    for batches in ([[down(HOST, 0), up(HOST, 60)]], [[down(HOST, 0)], [up(HOST, 60)]]):
        stage = begun(Correlate(DetectParams()))
        stage.advance_watermark(at(100))
        opened, published = [finding for batch in batches for finding in episodes(stage.process(batch))]
        assert (opened.status, opened.final) == (Status.OPEN, False)
        assert (published.status, published.final, after(published.resolved_at_ns)) == (Status.RESOLVED, True, 60)


def test_what_comes_after_the_final_revision_changes_nothing() -> None:
    """An administrative down reported after the lateness is stored and counted; a final finding stays."""
    stage = begun(Correlate(DetectParams()))
    stage.process([down(HOST, 0), up(HOST, 60)])
    assert [f.final for f in episodes(stage.advance_watermark(at(95)))] == [False, False, True]
    assert list(episodes(stage.process([off(LEAF, 10)]))) == []


def test_time_may_jump_over_days() -> None:
    """A watermark that jumps gives the same as one in small steps: nothing is pruned before it is evaluated."""
    symptoms = [down(HOST, 0), up(HOST, 100)]
    walked = begun(Correlate(DetectParams()))
    walked.process(symptoms)
    steps = [f for t in range(1, 200) for f in episodes(walked.advance_watermark(at(t)))]
    jumped = begun(Correlate(DetectParams()))
    jumped.process(symptoms)
    assert list(episodes(jumped.advance_watermark(at(10 * 86_400)))) == steps


def test_a_down_that_lasts_for_days_stays_one_open_finding() -> None:
    """The observation that opened it is dropped after a day; the finding is not, and ends under the same id."""
    stage = begun(Correlate(DetectParams()))
    stage.process([down(HOST, 0)])
    published = [f for day in range(1, 5) for f in episodes(stage.advance_watermark(at(day * 86_400)))]
    stage.process([up(HOST, 5 * 86_400)])
    published += episodes(stage.advance_watermark(at(6 * 86_400)))
    assert len({f.id for f in published}) == 1
    assert {after(f.started_at_ns) for f in published} == {0}
    assert [f.status for f in published if f.is_closed] == [Status.RESOLVED, Status.RESOLVED]
    assert after(published[-1].resolved_at_ns) == 5 * 86_400


ONE_POLL = {
    "at a cadence of 30 s": [down(HOST, 30, since=0), up(HOST, 60.2, since=30)],
    "of each end, at a cadence of 60 s": [
        down(HOST, 60, since=0), down(LEAF, 72, since=12), up(HOST, 120, since=60), up(LEAF, 132, since=72)],
    "after one that showed it down before an up, by the counter of transitions": [
        down(LEAF, 60, since=0), changed(LEAF, 60, 0, 1), changed(LEAF, 120, 60, 2), changed(LEAF, 180, 120, 1),
        up(LEAF, 180, since=120)],
    "each of three, with ups between them by the counter of transitions": [
        down(LEAF, 60, since=0), changed(LEAF, 60, 0, 3), changed(LEAF, 120, 60, 8), changed(LEAF, 180, 120, 7),
        up(LEAF, 180, since=120)],
}  # fmt: skip


@pytest.mark.parametrize("case", ONE_POLL)
def test_one_poll_that_shows_it_down_is_a_moment(case: str) -> None:
    """The watermark waits for the next poll of the port, so that both are known when 30 s have passed."""
    stage = begun(Correlate(DetectParams()))
    outputs = [*stage.process(ONE_POLL[case]), *stage.advance_watermark(at(HOUR))]
    assert [f for f in episodes(outputs) if f.condition is Condition.LINK_DOWN] == []


BY_READINGS = {
    "two polls at a cadence of 30 s": [down(HOST, 30, since=0), up(HOST, 90, since=60)],
    "a source that sends only changes: its one reading lasts": [down(HOST, 5000, since=0), up(HOST, 5060, since=5000)],
    "one poll, and an event when it came up": [down(HOST, 60, since=0), up(HOST, 100)],
}


@pytest.mark.parametrize("case", BY_READINGS)
def test_readings_that_show_a_duration_open(case: str) -> None:
    """It began with the first reading that shows it, and ended by then at the latest."""
    symptoms = BY_READINGS[case]
    (found,) = last(_downs(symptoms, 10_000))
    begin, end = symptoms[0].at_ns, symptoms[-1].at_ns
    assert (found.status, found.started_at_ns, found.resolved_at_ns) == (Status.RESOLVED, begin, end)
