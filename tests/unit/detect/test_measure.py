"""measure: which differences between two readings are notable, and which are not."""

from collections.abc import Sequence

import pytest

from streams.fabric.catalogue import Metric
from streams.wire.models import (
    IDLE_NS,
    Event,
    EventKind,
    Message,
    Progress,
    Symptom,
)
from streams.wire.symptoms import Restart
from tests.worlds.measure_stage import ADMIN, DOWNS, TURNS, UP, detected, stage, symptoms_of
from tests.worlds.observations import GNMI, SNMP, after, at, event, growth, samples

BriefSymptom = tuple[str, str, float | None, float | None, int]


def brief(symptoms: Sequence[Symptom]) -> list[BriefSymptom]:
    """(port, kind, at, since, count) of each."""
    return [
        (s.port, s.kind.name, after(s.at_ns), after(s.since_ns) if s.since_ns else None, growth(s)) for s in symptoms
    ]


QUIET: dict[str, list[Message]] = {
    "nothing changed": [samples("p1-l0", t, {UP: {"d1": 1, "d2": 1}, DOWNS: {"d1": 5}}) for t in (0, 10, 20)],
    "a counter met for the first time": [samples("p1-l0", 0, {DOWNS: {"d1": 500}})],
    "a counter that was reset": [samples("p1-l0", t, {DOWNS: {"d1": n}}) for t, n in ((0, 500), (10, 2))],
    "a counter that stands still": [samples("p1-l0", t, {DOWNS: {"d1": 500}}) for t in (0, 10)],
    "a counter that the device does not have": [samples("p1-l0", t, {DOWNS: {"d1": None}}) for t in (0, 10)],
    "a counter that is missing once": [
        samples("p1-l0", t, {DOWNS: {"d1": n}}) for t, n in ((0, 5), (10, None), (20, 5))],
    "an absent state": [samples("p1-l0", t, {UP: {"d1": n}}) for t, n in ((0, 1), (10, None), (20, 1))],
    "an unused port of no link, down at first sight": [samples("p1-l0", 0, {UP: {"spare": 0}})],
    "a single CRC error": [samples("p1-l0", t, {Metric.RX_FCS_ERRORS: {"d1": n}}) for t, n in ((0, 0), (10, 1))],
    "older readings without news": [
        samples("p1-l0", t, {UP: {"d1": 1}, DOWNS: {"d1": 5}}) for t in (20, 0, 10, 0)],
    "one that is older than the lateness": [
        samples("p1-l0", t, {UP: {"d1": n}}) for t, n in ((0, 1), (10, 1), (60, 1), (0, 0), (5, 0))],
    "the same message twice": [samples("p1-l0", 0, {UP: {"d1": 1}, DOWNS: {"d1": 5}})] * 2,
}  # fmt: skip


@pytest.mark.parametrize("messages", QUIET.values(), ids=QUIET)
def test_what_is_not_notable(messages: Sequence[Message]) -> None:
    """First readings, resets, absent values, late and repeated messages without news make no symptom."""
    assert symptoms_of(stage(), messages) == []


NOTABLE: dict[str, tuple[list[Message], list[BriefSymptom]]] = {
    "went down and came up": (
        [samples("p1-l0", t, {UP: {"d1": n, "d2": 1}}) for t, n in ((0, 1), (10, 0), (20, 0), (30, 1))],
        [("d1", "WENT_DOWN", 10, 0, 0), ("d1", "CAME_UP", 30, 20, 0)]),
    "down at first sight, on a known link": (
        [samples("p1-l0", 0, {UP: {"d1": 0}})], [("d1", "WENT_DOWN", 0, None, 0)]),
    "disabled at first sight, on any port": (
        [samples("p1-l0", 0, {ADMIN: {"spare": 0}})], [("spare", "ADMIN_DISABLED", 0, None, 0)]),
    "disabled and enabled": (
        [samples("p1-l0", t, {ADMIN: {"d1": n}}) for t, n in ((0, 1), (10, 0), (20, 1))],
        [("d1", "ADMIN_DISABLED", 10, 0, 0), ("d1", "ADMIN_ENABLED", 20, 10, 0)]),
    "counters grew": (
        [samples("p1-l0", t, {DOWNS: {"d1": n, "d2": 0}, TURNS: {"d1": 2 * n, "d2": 0}}) for t, n in ((0, 5), (10, 7))],
        [("d1", "DOWNS_COUNTED", 10, 0, 2), ("d1", "TRANSITIONS_COUNTED", 10, 0, 4)]),
    "a counter beyond what a double holds": (
        [samples("p1-l0", t, {DOWNS: {"d1": n}}) for t, n in ((0, 2**63), (10, 2**63 + 1))],
        [("d1", "DOWNS_COUNTED", 10, 0, 1)]),
    "absent in between": (
        [samples("p1-l0", t, {DOWNS: {"d1": n}}) for t, n in ((0, 5), (10, None), (20, 6))],
        [("d1", "DOWNS_COUNTED", 20, 0, 1)]),
    "after a reset it grows again": (
        [samples("p1-l0", t, {DOWNS: {"d1": n}}) for t, n in ((0, 500), (10, 2), (20, 3))],
        [("d1", "DOWNS_COUNTED", 20, 10, 1)]),
    "rows and columns in another order, some left out, some new": (
        [samples("p1-l0", 0, {UP: {"d1": 1, "d2": 1}, ADMIN: {"d1": 1, "d2": 1}}),
         samples("p1-l0", 10, {ADMIN: {"u0": 1, "d2": 0}}), samples("p1-l0", 20, {UP: {"d2": 1, "d1": 0}}),
         samples("p1-l0", 30, {DOWNS: {"d1": 1}, UP: {"u0": 1, "d2": 0, "d1": 0}})],
        [("d2", "ADMIN_DISABLED", 10, 0, 0), ("d1", "WENT_DOWN", 20, 0, 0), ("d2", "WENT_DOWN", 30, 20, 0)]),
    "two sources, each with its own last reading": (
        [samples("p1-l0", t, {DOWNS: {"d1": n}}, source=s)
         for t, n, s in ((0, 100, GNMI), (1, 5, SNMP), (10, 101, GNMI), (11, 6, SNMP))],
        [("d1", "DOWNS_COUNTED", 10, 0, 1), ("d1", "DOWNS_COUNTED", 11, 1, 1)]),
    "another name of the port": (
        [samples("p1-h1", t, {UP: {"mlx5_0": n}}) for t, n in ((0, 1), (10, 0))], [("e0", "WENT_DOWN", 10, 0, 0)]),
    "a row that was read later than the others": (
        [samples("p1-l0", t, {UP: {"d1": n, "d2": n}}, delays=(0, 500_000)) for t, n in ((0, 1), (10, 0))],
        [("d1", "WENT_DOWN", 10, 0, 0), ("d2", "WENT_DOWN", 10.5, 0, 0)]),
    "events, as they happen": (
        [event("p1-h1/mlx5_0", 1, EventKind.LINK_DOWN), event("p1-l0/d1", 2, EventKind.ADMIN_DOWN),
         event("p1-l0/d1", 3, EventKind.LOG), event("p1-l0", 4, EventKind.LINK_DOWN)],
        [("e0", "WENT_DOWN", 1, None, 0), ("d1", "ADMIN_DISABLED", 2, None, 0)]),
    "a new boot": (
        [samples("p1-l0", t, {DOWNS: {"d1": n}, UP: {"d1": 1}}, boot_id=b)
         for t, n, b in ((0, 500, 7), (10, 501, 7), (20, 900, 8), (30, 901, 8))],
        [("d1", "DOWNS_COUNTED", 10, 0, 1), ("", "RESTARTED", 20, 10, 0), ("d1", "DOWNS_COUNTED", 30, 20, 1)]),
    "a restart by event": (
        [samples("p1-l0", 0, {UP: {"d1": 1}}, boot_id=7), event("p1-l0", 5, EventKind.DEVICE_REBOOT)],
        [("", "RESTARTED", 5, 0, 0)]),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), NOTABLE.values(), ids=NOTABLE)
def test_what_is_notable(messages: Sequence[Message], expected: list[BriefSymptom]) -> None:
    """Each change is one symptom, dated by the reading that showed it and the one before."""
    assert brief(symptoms_of(stage(), messages)) == expected


def test_a_restart_is_named_by_the_life_that_ended() -> None:
    """By a reading and by an event alike, so that both make one finding."""
    own = stage()
    first = symptoms_of(
        own, [samples("p1-l0", 0, {UP: {"d1": 1}}, boot_id=7), event("p1-l0", 5, EventKind.DEVICE_REBOOT)]
    )
    again = symptoms_of(own, [samples("p1-l0", 20, {UP: {"d1": 1}}, boot_id=8)])
    assert [s.payload.ended_boot_id for s in (*first, *again) if isinstance(s.payload, Restart)] == [7, 7]


def test_symptoms_go_to_the_home_pods() -> None:
    """A link's to its lower end's pod, a restart to every pod that the device has links in, silence to its own."""
    own = stage()
    messages = [samples("s1", t, {UP: {"p2-l0": n}}, boot_id=b) for t, n, b in ((0, 1, 7), (10, 0, 8))]
    outputs = [output for message in messages for output in detected(own.process([message]))]
    keys = [(o.message.kind.name, o.key) for o in outputs if isinstance(o.message, Symptom)]
    assert keys == [("RESTARTED", "p1"), ("RESTARTED", "p2"), ("RESTARTED", "s1"), ("WENT_DOWN", "p2")]
    outputs = detected(own.advance_watermark(at(1000)))
    silent = [(o.message.kind.name, o.key) for o in outputs if isinstance(o.message, Symptom)]
    assert silent == [("SOURCE_SILENT", "s1")]


@pytest.mark.parametrize(("sampled", "dated"), [(1001, 1001), (1001.1, 1000), (5000, 1000)])
def test_a_clock_that_is_ahead_is_replaced_by_the_arrival(sampled: float, dated: float) -> None:
    """More than a second ahead of its arrival, a sample or an event is dated by it, and counted."""
    own = stage()
    symptoms_of(own, [samples("p1-l0", 990, {UP: {"d1": 1}})])
    (symptom,) = symptoms_of(own, [samples("p1-l0", sampled, {UP: {"d1": 0}}, received=1000)])
    assert after(symptom.at_ns) == dated
    by_event = Event("p1-l0", "d2", EventKind.LINK_DOWN, at(sampled), at(1000), GNMI)
    assert [after(s.at_ns) for s in symptoms_of(own, [by_event])] == [dated]
    assert own.counted["railsight_clock_ahead_total"] == (0 if sampled == dated else 2)


def test_a_clock_that_is_ahead_silences_no_device() -> None:
    """The arrival clock follows arrivals; another device's future does not make this one late."""
    own = stage()
    symptoms_of(own, [samples("p1-l0", 0, {UP: {"d1": 1}})])
    assert symptoms_of(own, [samples("p1-l1", 100_000, {UP: {"d1": 1}}, received=1)]) == []
    assert after(own.watermark_ns) == 0


def test_late_samples_are_counted() -> None:
    """Samples older than the floor of upstream are counted, and still compared."""
    own = stage()
    symptoms_of(own, [samples("p1-l0", 0, {UP: {"d1": 1}}), Progress("replay", 0, 1, at(100))])
    symptoms_of(own, [samples("p1-l0", 50, {UP: {"d1": 1}}), samples("p1-l0", 150, {UP: {"d1": 1}})])
    assert own.counted["railsight_late_messages_total"] == 1


def test_the_watermark_is_the_oldest_newest_time_of_what_is_live() -> None:
    """It waits for the slowest device, passes a silent one by, and never goes back."""
    own = stage()
    assert own.watermark_ns == IDLE_NS
    symptoms_of(own, [samples("p1-l0", 0, {UP: {"d1": 1}}), samples("p1-l1", 5, {UP: {"d1": 1}})])
    assert after(own.watermark_ns) == 0
    for t in range(10, 400, 10):
        symptoms_of(own, [samples("p1-l1", t, {UP: {"d1": 1}})])
    assert after(own.watermark_ns) == 390
    symptoms_of(own, [samples("p1-l0", 20, {UP: {"d1": 1}})])
    assert after(own.watermark_ns) == 390
