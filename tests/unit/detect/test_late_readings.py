"""Readings out of order: the same symptoms remain as when all come in order."""

import random
from collections.abc import Sequence

import pytest

from streams.detect.evidence.link_history import LinkHistory
from streams.wire.models import Endpoint, Message, Subject, Symptom
from streams.wire.symptoms import Restart
from tests.worlds.late_readings import DOWNS, UP, BriefSymptom, stage, symptoms_of
from tests.worlds.measure_stage import detected, snapshot_head
from tests.worlds.observations import HOST, LEAF, SNMP, after, counted, down, growth, samples


def remaining(symptoms: Sequence[Symptom]) -> list[BriefSymptom]:
    """Return (kind, at, since, growth) of the symptoms that a link's history retains."""
    history = LinkHistory(Subject("link", Endpoint("p1-h1", "e0"), Endpoint("p1-l0", "d1")))
    for symptom in symptoms:
        history.add(symptom)
    return [
        (s.kind.name, after(s.at_ns), after(s.since_ns) if s.since_ns else None, growth(s)) for s in history.symptoms
    ]


def read(t: float, up: float, downs: float = 0, delay_us: int = 0) -> Message:
    """One reading of a leaf's port, among others that are well."""
    ports = {UP: {"d1": up, "d2": 1.0}, DOWNS: {"d1": downs, "d2": 7.0}}
    return samples("p1-l0", t, {m: dict(cells) for m, cells in ports.items()}, delays=(delay_us, 0) if delay_us else ())


LATE: dict[str, tuple[list[Message], list[BriefSymptom]]] = {
    "down earlier than it seemed": (
        [read(0, 1), read(20, 0), read(10, 0)], [("WENT_DOWN", 10, 0, 0)]),
    "down later than it seemed": (
        [read(0, 1), read(20, 0), read(10, 1)], [("WENT_DOWN", 20, 10, 0)]),
    "down between two readings that it was up": (
        [read(0, 1), read(10, 1), read(30, 1), read(20, 0)], [("WENT_DOWN", 20, 10, 0), ("CAME_UP", 30, 20, 0)]),
    "up between two readings that it was down": (
        [read(0, 0), read(10, 0), read(30, 0), read(20, 1)],
        [("WENT_DOWN", 0, None, 0), ("CAME_UP", 20, 10, 0), ("WENT_DOWN", 30, 20, 0)]),
    "the first reading of all": (
        [read(10, 0), read(0, 1)], [("WENT_DOWN", 10, 0, 0)]),
    "the first reading of all, and it was down": (
        [read(10, 1), read(0, 0)], [("WENT_DOWN", 0, None, 0), ("CAME_UP", 10, 0, 0)]),
    "a part of the growth": (
        [read(0, 1, 5), read(20, 1, 9), read(10, 1, 6)],
        [("DOWNS_COUNTED", 10, 0, 1), ("DOWNS_COUNTED", 20, 10, 3)]),
    "all of the growth": (
        [read(0, 1, 5), read(20, 1, 9), read(10, 1, 9)], [("DOWNS_COUNTED", 10, 0, 4)]),
    "before a reset": (
        [read(0, 1, 5), read(20, 1, 2), read(10, 1, 6)], [("DOWNS_COUNTED", 10, 0, 1)]),
    "a row that is read later than the others": (
        [read(0, 1, delay_us=500_000), read(20, 0, delay_us=500_000), read(10, 1, delay_us=500_000)],
        [("WENT_DOWN", 20.5, 10, 0)]),
    "a repetition": (
        [read(0, 1), read(10, 0), read(20, 1), read(10, 0)], [("WENT_DOWN", 10, 0, 0), ("CAME_UP", 20, 10, 0)]),
    "a repetition of the newest reading": (
        [read(0, 1, 5), read(20, 1, 9), read(20, 1, 9)], [("DOWNS_COUNTED", 20, 0, 4)]),
    "too late": (
        [read(0, 1), read(10, 1), read(20, 1), read(60, 1), read(10, 0), read(5, 0)], []),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), LATE.values(), ids=LATE)
def test_a_late_reading_is_compared_with_those_around_it(
    messages: Sequence[Message], expected: list[BriefSymptom]
) -> None:
    """The symptoms that remain are those of the readings in order, whatever was emitted in between."""
    assert remaining(symptoms_of(messages)) == expected


def test_a_reading_from_in_between_dates_a_restart_better() -> None:
    """It is a reading of the boot that ended or of the new one, and the restart lies in the rest of the interval."""
    boots = ((0, 7), (40, 8), (20, 7), (30, 8), (10, 7))
    own, found = stage(), []
    for t, boot in boots:
        message = samples("p1-l0", t, {UP: {"d1": 1}}, boot_id=boot)
        outputs = detected(own.process([message]))
        found += [o.message for o in outputs if isinstance(o.message, Symptom) and not o.message.port]
        state, own = own.snapshot(), stage()
        own.restore(state)
    spans = [
        (s.kind.name, after(s.since_ns), after(s.at_ns), s.payload.ended_boot_id)
        for s in found
        if isinstance(s.payload, Restart)
    ]
    assert spans == [("RESTARTED", 0, 40, 7), ("RESTARTED", 20, 40, 7), ("RESTARTED", 20, 30, 7)]


@pytest.mark.parametrize("seed", range(20))
def test_order_within_the_lateness_changes_nothing(seed: int) -> None:
    """In any order, once or twice, and with a successor after each message: the same symptoms remain."""
    chance = random.Random(seed)
    downs, messages = 0, []
    for t in range(0, 200, 10):
        downs += chance.choice([0, 0, 1, 2])
        messages.append(read(t, chance.choice([0.0, 1.0, 1.0]), downs))
    late = [(10 * place + chance.uniform(0, 25), message) for place, message in enumerate(messages)]
    late += [(at + chance.uniform(0, 10), message) for at, message in late if chance.random() < 0.2]
    arrived = [message for _, message in sorted(late, key=lambda one: one[0])]
    assert arrived != messages
    expected = remaining(symptoms_of(messages))
    assert remaining(symptoms_of(arrived)) == remaining(symptoms_of(arrived, killed=True)) == expected != []


def test_a_history_retains_the_smallest_transitions_in_any_order() -> None:
    """The smaller of two transitions that include each other remains; events and those of other sources stay."""
    wide, fine, equal = (counted(LEAF, 20, since, n) for since, n in ((0, 4), (10, 3), (10, 2)))
    others = [counted(LEAF, 20, 0, 4, SNMP), counted(HOST, 20, 0, 4), down(LEAF, 12), down(LEAF, 20, since=0)]
    steps = [wide, fine, equal, *others]
    found = {tuple(remaining(order)) for order in (steps, steps[::-1], [fine, *others, wide, equal, wide, fine])}
    assert len(found) == 1
    assert sorted(found.pop()) == sorted(remaining([fine, equal, *others]))
    assert len(remaining(steps)) == len(steps) - 1


def test_a_healthy_port_retains_no_transitions() -> None:
    """Transitions are retained of ports that changed, and pruned at the next change."""
    own = stage()
    for t in range(0, 600, 10):
        own.process([read(t, 1, 5)])
    history = snapshot_head(own)["readings"]["history"]
    assert not history["transitions"] and history["reads"] <= 6
    for t in range(600, 1200, 10):
        own.process([read(t, t // 10 % 2, 5)])
    assert sum(len(steps) for *_, steps in snapshot_head(own)["readings"]["history"]["transitions"]) <= 6
