"""Lost events: readings after an event take the place of the event that never came."""

import random
from collections.abc import Sequence

import pytest

from streams.wire.models import Condition, EventKind, Finding, Message, Source
from tests.worlds.late_readings import UP, BriefSymptom, symptoms_of
from tests.worlds.live_stages import final_findings, in_order, run
from tests.worlds.observations import GNMI, SNMP, after, event, growth, samples
from tests.worlds.small_fabric import topology

DOWN, RISEN = EventKind.LINK_DOWN, EventKind.LINK_UP
OFF = EventKind.ADMIN_DOWN


def read(t: float, up: float, source: Source = GNMI) -> Message:
    """One reading of p1-l0's d1."""
    return samples("p1-l0", t, {UP: {"d1": up}}, source=source)


def reported(t: float, kind: EventKind = DOWN) -> Message:
    return event("p1-l0/d1", t, kind)


def states(messages: Sequence[Message]) -> list[BriefSymptom]:
    """Return the symptoms that follow from readings, not from events."""
    return [
        (s.kind.name, after(s.at_ns), after(s.since_ns) if s.since_ns else None, growth(s))
        for s in symptoms_of(messages)
        if not s.by_event
    ]


CASES: dict[str, tuple[list[Message], list[BriefSymptom]]] = {
    "the up was lost": (
        [read(0, 1), reported(5), read(10, 1), read(20, 1), read(30, 1)], [("CAME_UP", 10, None, 0)]),
    "the down was lost": (
        [read(0, 0), reported(5, RISEN), read(10, 0), read(20, 0)],
        [("WENT_DOWN", 0, None, 0), ("WENT_DOWN", 10, None, 0)]),
    "readings confirm it": ([read(0, 1), reported(5), read(10, 0), read(20, 0)], [("WENT_DOWN", 10, 0, 0)]),
    "readings confirm it, and the up was lost": (
        [read(0, 1), reported(5), read(10, 0), read(20, 1), read(30, 1)],
        [("WENT_DOWN", 10, 0, 0), ("CAME_UP", 20, 10, 0)]),
    "a reading that is older than its time": (
        [read(0, 1), reported(5), read(6, 1), read(10, 0), read(20, 0)], [("WENT_DOWN", 10, 6, 0)]),
    "up for less than the time that it must hold": ([read(0, 1), reported(5), read(6, 1), read(10.9, 1)], []),
    "both events came": (
        [read(0, 1), reported(5), reported(7, RISEN), read(10, 1), read(20, 1)], []),
    "the event comes after the readings since": (
        [read(0, 1), read(10, 1), read(20, 1), reported(5)], [("CAME_UP", 10, None, 0)]),
    "the event comes after readings since that confirm it": (
        [read(0, 1), read(10, 0), read(20, 1), read(30, 1), reported(5)],
        [("WENT_DOWN", 10, 0, 0), ("CAME_UP", 20, 10, 0)]),
    "each source is compared": (
        [read(0, 1), read(1, 1, SNMP), reported(5), read(10, 1), read(11, 1, SNMP), read(20, 1), read(21, 1, SNMP)],
        [("CAME_UP", 10, None, 0), ("CAME_UP", 11, None, 0)]),
    "the first reading after it comes late": (
        [read(0, 1), reported(5), read(20, 1), read(30, 1), read(10, 1)],
        [("CAME_UP", 20, None, 0), ("CAME_UP", 10, None, 0)]),
    "a device of which nothing is read": ([reported(5)], []),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), CASES.values(), ids=CASES)
def test_readings_after_an_event_are_compared_with_it(
    messages: Sequence[Message], expected: list[BriefSymptom]
) -> None:
    """A contradiction that lasts 5 s is reported as of its first reading; a change between readings always is."""
    assert states(messages) == expected


def of_the_link(messages: Sequence[Message]) -> list[Finding]:
    """Return the final findings of link/down at p1-l0's d1."""
    found = [one for one in final_findings(run(messages, topology())) if one.condition is Condition.LINK_DOWN]
    assert all(one.subject.a and one.subject.a.device == "p1-h1" for one in found)
    return found


def rounds(until: int = 300, up: float = 1) -> list[Message]:
    """Readings each 10 s."""
    return [read(t, up) for t in range(0, until, 10)]


def test_a_link_with_a_lost_up_event_is_not_down_for_ever() -> None:
    """It was down until the first reading that it is up; if it is up in time, there was no failure."""
    lost = [*rounds(), reported(5)]
    assert of_the_link(in_order(lost)) == []
    (one,) = of_the_link(in_order([*(m for m in rounds() if not after_s(m, 5, 100)), reported(5)]))
    assert (after(one.started_at_ns), after(one.resolved_at_ns)) == (5, 100)


def after_s(message: Message, begin: float, end: float) -> bool:
    """Return whether a reading lies in this interval."""
    return begin <= (after(getattr(message, "sampled_at_ns", 0)) or 0) < end


def test_a_lost_administrative_event_hides_no_later_failure() -> None:
    """The event that enabled the port was lost: a failure long after it is found all the same."""
    admin = [samples("p1-l0", t, {UP: {"d1": float(t < 200)}, UP.ADMIN_UP: {"d1": 1.0}}) for t in range(0, 400, 10)]
    (one,) = of_the_link(in_order([*admin, reported(5, OFF)]))
    assert after(one.started_at_ns) == 200


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_arrival_changes_nothing(seed: int) -> None:
    """Events and readings in any order within the lateness: the last revision is the same."""
    chance = random.Random(seed)
    messages = [*(m for m in rounds() if not after_s(m, 95, 150)), reported(93), reported(97, RISEN), reported(99)]
    late = [(after(getattr(m, "sampled_at_ns", 0) or getattr(m, "at_ns", 0)) or 0, m) for m in messages]
    arrived = [m for _, m in sorted(((t + chance.uniform(0, 18), m) for t, m in late), key=lambda one: one[0])]
    assert of_the_link(arrived) == of_the_link(in_order(messages)) != []
