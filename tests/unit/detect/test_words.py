"""Events that are lost: what is read afterwards says what the next event would have said."""

import random
from collections.abc import Sequence

import pytest

from streams.wire.models import Condition, EventKind, Finding, Message, Source
from tests.worlds.late_readings import UP, Told, told
from tests.worlds.live_stages import final_findings, in_order, run
from tests.worlds.observations import GNMI, SNMP, after, event, growth, samples
from tests.worlds.small_fabric import topology

DOWN, RISEN = EventKind.LINK_DOWN, EventKind.LINK_UP
OFF = EventKind.ADMIN_DOWN


def read(t: float, up: float, source: Source = GNMI) -> Message:
    """One reading of p1-l0's d1."""
    return samples("p1-l0", t, {UP: {"d1": up}}, source=source)


def word(t: float, kind: EventKind = DOWN) -> Message:
    """One event of it."""
    return event("p1-l0/d1", t, kind)


def states(messages: Sequence[Message]) -> list[Told]:
    """What is told of readings, and not as it happened."""
    return [
        (s.kind.name, after(s.at_ns), after(s.since_ns) if s.since_ns else None, growth(s))
        for s in told(messages)
        if not s.by_event
    ]


CASES: dict[str, tuple[list[Message], list[Told]]] = {
    "the up was lost": (
        [read(0, 1), word(5), read(10, 1), read(20, 1), read(30, 1)], [("CAME_UP", 10, None, 0)]),
    "the down was lost": (
        [read(0, 0), word(5, RISEN), read(10, 0), read(20, 0)],
        [("WENT_DOWN", 0, None, 0), ("WENT_DOWN", 10, None, 0)]),
    "it is read as it was told": ([read(0, 1), word(5), read(10, 0), read(20, 0)], [("WENT_DOWN", 10, 0, 0)]),
    "it is read as it was told, and the up was lost": (
        [read(0, 1), word(5), read(10, 0), read(20, 1), read(30, 1)],
        [("WENT_DOWN", 10, 0, 0), ("CAME_UP", 20, 10, 0)]),
    "a reading that is older than its time": (
        [read(0, 1), word(5), read(6, 1), read(10, 0), read(20, 0)], [("WENT_DOWN", 10, 6, 0)]),
    "up for less than the time that it must hold": ([read(0, 1), word(5), read(6, 1), read(10.9, 1)], []),
    "both were told": (
        [read(0, 1), word(5), word(7, RISEN), read(10, 1), read(20, 1)], []),
    "the event comes after what was read since": (
        [read(0, 1), read(10, 1), read(20, 1), word(5)], [("CAME_UP", 10, None, 0)]),
    "the event comes after what was read since, and that was as it says": (
        [read(0, 1), read(10, 0), read(20, 1), read(30, 1), word(5)],
        [("WENT_DOWN", 10, 0, 0), ("CAME_UP", 20, 10, 0)]),
    "each source bears witness": (
        [read(0, 1), read(1, 1, SNMP), word(5), read(10, 1), read(11, 1, SNMP), read(20, 1), read(21, 1, SNMP)],
        [("CAME_UP", 10, None, 0), ("CAME_UP", 11, None, 0)]),
    "the first reading after it comes late": (
        [read(0, 1), word(5), read(20, 1), read(30, 1), read(10, 1)],
        [("CAME_UP", 20, None, 0), ("CAME_UP", 10, None, 0)]),
    "a device of which nothing is read": ([word(5)], []),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), CASES.values(), ids=CASES)
def test_what_is_read_after_an_event_is_compared_with_it(messages: Sequence[Message], expected: list[Told]) -> None:
    """What contradicts it for 5 s is told, from its first reading on; a step between readings says so by itself."""
    assert states(messages) == expected


def test_a_successor_goes_on_with_the_comparison() -> None:
    """Taken over after each message, it tells the same."""
    messages = CASES["the first reading after it comes late"][0]
    assert told(messages, killed=True) == told(messages)


def of_the_link(messages: Sequence[Message]) -> list[Finding]:
    """What all stages say of p1-l0's d1 in the end."""
    found = [one for one in final_findings(run(messages, topology())) if one.condition is Condition.LINK_DOWN]
    assert all(one.subject.a and one.subject.a.device == "p1-h1" for one in found)
    return found


def rounds(until: int = 300, up: float = 1) -> list[Message]:
    """Readings each 10 s."""
    return [read(t, up) for t in range(0, until, 10)]


def test_a_link_whose_up_was_lost_is_not_down_for_ever() -> None:
    """It was down until the first reading that says up; what is up by then was no failure."""
    lost = [*rounds(), word(5)]
    assert of_the_link(in_order(lost)) == []
    (one,) = of_the_link(in_order([*(m for m in rounds() if not after_s(m, 5, 100)), word(5)]))
    assert (after(one.started_at_ns), after(one.resolved_at_ns)) == (5, 100)


def after_s(message: Message, begin: float, end: float) -> bool:
    """Whether a reading lies there."""
    return begin <= (after(getattr(message, "sampled_at_ns", 0)) or 0) < end


def test_a_lost_word_of_a_person_hides_nothing_for_ever() -> None:
    """That the port was enabled again was lost: a failure long after that is told all the same."""
    admin = [samples("p1-l0", t, {UP: {"d1": float(t < 200)}, UP.ADMIN_UP: {"d1": 1.0}}) for t in range(0, 400, 10)]
    (one,) = of_the_link(in_order([*admin, word(5, OFF)]))
    assert after(one.started_at_ns) == 200


@pytest.mark.parametrize("seed", range(10))
def test_order_decides_nothing_of_it(seed: int) -> None:
    """Events and readings in any order within the lateness: the last revision is the same."""
    chance = random.Random(seed)
    messages = [*(m for m in rounds() if not after_s(m, 95, 150)), word(93), word(97, RISEN), word(99)]
    late = [(after(getattr(m, "sampled_at_ns", 0) or getattr(m, "at_ns", 0)) or 0, m) for m in messages]
    arrived = [m for _, m in sorted(((t + chance.uniform(0, 18), m) for t, m in late), key=lambda one: one[0])]
    assert of_the_link(arrived) == of_the_link(in_order(messages)) != []
