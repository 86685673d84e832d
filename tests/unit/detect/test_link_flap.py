"""link/flap: negative cases first, then when it opens, what it reports, and when it resolves."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from streams.detect.detectors.link_flap import FlapParams
from streams.detect.params import DetectParams
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Finding, Status, Symptom
from tests.worlds.observations import (
    HOST,
    LEAF,
    LINK,
    NIC,
    SNMP,
    after,
    at,
    changed,
    correlated,
    counted,
    down,
    flaps,
    last,
    off,
    on,
    restarted,
    up,
)
from tests.worlds.small_fabric import begun, inventory, topology

HOUR, DAY = 3600, 86_400


def _flaps(
    symptoms: Sequence[Symptom], until: float = 2 * DAY, presets: tuple[str, ...] = (), top: Topology | None = None
) -> list[Finding]:
    params = DetectParams(flap=FlapParams(presets=presets)) if presets else DetectParams()
    return [f for f in correlated(symptoms, until, params, top) if f.condition is Condition.LINK_FLAP]


THREE = flaps(HOST, 0, 100, 200)
NO_FLAPS: dict[str, list[Symptom]] = {
    "one transient": flaps(HOST, 0),
    "two in ten minutes": flaps(HOST, 0, 300),
    "three that take longer than ten minutes": flaps(HOST, 0, 301, 602),
    "four in a day": flaps(HOST, 0, HOUR, 2 * HOUR, 3 * HOUR),
    "a port that stays down": [down(HOST, 0), down(LEAF, 1)],
    "a port that is read as down twice": [down(HOST, 0, since=-10), down(HOST, 10, since=0)],
    "ports met down at first sight": [down(p, t, since=-1_000_000, source=s)
                                      for t, s in ((0, NIC), (1, SNMP)) for p in (HOST, LEAF)],
    "both ends telling the same two downs": flaps(HOST, 0, 100) + flaps(LEAF, 0.1, 100.1),
    "two downs by events, states and counters of two sources": [
        *flaps(HOST, 0, 100), counted(HOST, 5, -5, 1), counted(HOST, 105, 95, 1), changed(HOST, 5, -5, 2),
        changed(HOST, 105, 95, 2), down(HOST, 5, -5), up(HOST, 15, 5), down(HOST, 105, 95, SNMP),
        counted(HOST, 6, -4, 1, SNMP), counted(HOST, 106, 96, 1, SNMP),
    ],
    "four transitions, which are two downs": [changed(HOST, 10, 0, 4)],
    "five transitions of a port whose first report is an up": [up(HOST, 2), changed(HOST, 10, 0, 5)],
    "five transitions of a port that was down before them": [down(HOST, -30, -40), changed(HOST, 10, 0, 5)],
    "disabled by a person before": [off(HOST, -10), *THREE],
    "disabled at the far end": [off(LEAF, -10), *THREE],
    "disabled just after the first of them": [off(LEAF, 29, since=19), *THREE],
    "enabled again just before the last of them": [off(LEAF, -1), on(LEAF, 175), *THREE],
    "a device that restarted and trains its ports": [restarted("p1-l0", 20, -10), *flaps(HOST, 0, 40, 79)],
    "the other device restarted": [restarted("p1-h1", 20, -10), *flaps(HOST, 0, 40, 79)],
    "counters read over a restart": [restarted("p1-l0", 20, -10), counted(LEAF, 90, 70, 9)],
}  # fmt: skip


@pytest.mark.parametrize("symptoms", NO_FLAPS.values(), ids=NO_FLAPS)
def test_what_is_no_flap(symptoms: Sequence[Symptom]) -> None:
    """Transients, one cause in many reports, maintenance and restarts open nothing."""
    assert _flaps(symptoms) == []


FLAPS: dict[str, tuple[list[Symptom], float, float, float]] = {
    # what was observed; started, detected, resolved
    "three in ten minutes": (THREE, 0, 200, 202),
    "three in exactly under ten minutes": (flaps(HOST, 0, 300, 599.9), 0, 599.9, 601.9),
    "five in a day": (flaps(HOST, 0, 4 * HOUR, 8 * HOUR, 12 * HOUR, 16 * HOUR), 0, 16 * HOUR, 16 * HOUR + 2),
    "the larger of two ends": (flaps(HOST, 0, 100) + flaps(LEAF, 0.5, 50, 100.5), 0.5, 100.5, 102.5),
    "a counter that shows what readings missed": ([counted(HOST, 10, 0, 3)], 10, 10, 10),
    "five transitions, rounded up to three downs": ([changed(HOST, 10, 0, 5)], 10, 10, 10),
    "transitions at two readings, halved together": ([changed(HOST, 10, 0, 3), changed(HOST, 20, 10, 2)], 10, 20, 20),
    "a person came long after": ([*THREE, off(HOST, 300)], 0, 200, 202),
    "a restart long before": ([restarted("p1-l0", -100, -130), *THREE], 0, 200, 202),
    "a restart of another device": ([restarted("p1-l1", 0, -30), *THREE], 0, 200, 202),
    "on a port that the inventory does not know": (flaps("p1-l0/spare", 0, 100, 200), 0, 200, 202),
}


@pytest.mark.parametrize(("symptoms", "started", "detected", "resolved"), FLAPS.values(), ids=FLAPS)
def test_what_is_a_flap(symptoms: Sequence[Symptom], started: float, detected: float, resolved: float) -> None:
    """One episode, dated by the first down that counts, the one that met a preset, and the last transition."""
    (final,) = last(_flaps(symptoms))
    assert (after(final.started_at_ns), after(final.detected_at_ns), after(final.resolved_at_ns)) == pytest.approx(
        (started, detected, resolved)
    )
    assert (final.status, final.final, final.detector) == (Status.RESOLVED, True, "link/flap")


def test_a_flap_opens_with_its_third_down_is_updated_and_ends_after_ten_quiet_minutes() -> None:
    """Each revision adds to the last: OPEN, UPDATED by each further down, RESOLVED, final after the lateness."""
    emitted = _flaps([*THREE, *flaps(HOST, 300)], 300 + 2 + 599)
    assert [f.status for f in emitted] == [Status.OPEN] + [Status.UPDATED] * (len(emitted) - 1)
    assert len({f.id for f in emitted}) == 1
    more = _flaps([*THREE, *flaps(HOST, 300)], 302 + 600)
    assert (more[-1].status, more[-1].final, after(more[-1].resolved_at_ns)) == (Status.RESOLVED, False, 302)
    assert _flaps([*THREE, *flaps(HOST, 300)], 302 + 629)[-1].final is False
    assert _flaps([*THREE, *flaps(HOST, 300)], 302 + 630)[-1].final is True


def test_after_the_quiet_it_is_another_episode() -> None:
    """Three more an hour later are a second finding with an id of its own."""
    found = last(_flaps([*THREE, *flaps(HOST, HOUR, HOUR + 100, HOUR + 200)]))
    assert len(found) == 2
    assert len({f.subject.id for f in found}) == 1


def test_what_people_did_at_a_host_is_no_history_of_its_links() -> None:
    """Four downs while it was in maintenance do not make a fifth one hours later a flap; five of them then were one."""
    own = inventory()
    until = datetime.fromtimestamp(at(3.5 * HOUR) / 1e9, UTC)
    devices = tuple(d._replace(maintenance_until=until if d.name == "p1-h1" else None) for d in own.devices)
    worked_on = topology(Inventory(devices, own.links, own.ports, own.jobs))
    pulled = flaps(HOST, 0, HOUR, 2 * HOUR, 3 * HOUR)
    fifth = [*pulled, *flaps(HOST, 5 * HOUR)]
    assert _flaps(fifth) != []
    assert _flaps(fifth, top=worked_on) == []
    assert _flaps([*pulled, *flaps(HOST, 3.4 * HOUR)], top=worked_on) != []
    assert _flaps([*fifth, *flaps(HOST, 5 * HOUR + 60, 5 * HOUR + 120)], top=worked_on) != []


def test_evidence_of_both_ends_makes_it_certain() -> None:
    """The evidence of each end has the count and its source; one end alone lowers the confidence."""
    (both,) = last(_flaps([*THREE, counted(LEAF, 150, 140, 2, SNMP)]))
    assert both.subject.id == LINK
    assert [(e.at and f"{e.at.device}/{e.at.port}", e.observed, e.comparison) for e in both.evidence] == [
        (HOST, 3.0, "threshold"), (LEAF, None, "both-ends"),
    ]  # fmt: skip
    assert both.evidence[0].statement == f"{HOST} went down 3 times in 600 s by its events (preset burst)"
    assert (both.evidence[0].metric, both.evidence[0].expected) == ("oper_up", 3.0)
    assert (after(both.evidence[0].window_start_ns), after(both.evidence[0].window_end_ns)) == (0, 200)
    assert (both.confidence, both.coverage and both.coverage.seen) == (0.95, 2)
    (one,) = last(_flaps(THREE))
    assert one.coverage is not None
    assert (one.confidence, one.coverage.seen, one.coverage.expected, one.coverage.missing) == (0.6, 1, 2, (LEAF,))
    (lone,) = last(_flaps(flaps("p1-l0/spare", 0, 100, 200)))
    assert lone.subject.id == "port:p1-l0/spare"
    assert lone.coverage is not None
    assert (lone.coverage.seen, lone.coverage.expected, lone.coverage.missing) == (1, 2, ("far end",))


def test_a_late_administrative_down_takes_it_back() -> None:
    """An administrative down, and a late observation, retract an early finding."""
    from streams.detect.correlate.stage import Correlate
    from tests.worlds.observations import at, episodes

    stage = begun(Correlate(DetectParams()))
    (opened,) = list(episodes(stage.process(flaps(HOST, 0, 10, 20))))
    (gone,) = list(episodes(stage.process([off(LEAF, -5)])))
    assert (opened.status, gone.status, gone.id) == (Status.OPEN, Status.RETRACTED, opened.id)
    assert gone.revision > opened.revision
    assert list(episodes(stage.advance_watermark(at(HOUR)))) == []


PRESETS: dict[str, tuple[str, list[Symptom], list[Symptom]]] = {
    # preset; just not, just so
    "switch-errdisable": (
        "switch-errdisable", flaps(HOST, 0, 2, 4, 6, 10, lasting=1), flaps(HOST, 0, 2, 4, 6, 9.9, lasting=1)
    ),
    "health-validation": ("health-validation", flaps(HOST, 0, lasting=29.9), flaps(HOST, 0, lasting=30)),
    "recoveries": (
        "recoveries",
        [*flaps(HOST, 0, 100, lasting=25), down(HOST, 200)],
        flaps(HOST, 0, 100, 200, lasting=25),
    ),
    "recoveries, too short": (
        "recoveries", [*flaps(HOST, 0, 100, lasting=25), *flaps(HOST, 200, lasting=24)],
        flaps(HOST, 0, 100, 40_000, lasting=26),
    ),
    "daily": ("daily", flaps(HOST, 0, 1, 2, 3, 86_401), flaps(HOST, 0, 1, 2, 3, 86_399)),
    "any": (
        "any", [restarted("p1-l0", -30, -60), *flaps(HOST, 1_769)], [restarted("p1-l0", -30, -60), *flaps(HOST, 1_770)]
    ),
    "burst": ("burst", flaps(HOST, 0, 1, 601), flaps(HOST, 0, 1, 599)),
}  # fmt: skip


@pytest.mark.parametrize(("preset", "not_yet", "just"), PRESETS.values(), ids=PRESETS)
def test_each_preset_opens_at_its_own_limit(preset: str, not_yet: list[Symptom], just: list[Symptom]) -> None:
    """One down, one second or one recovery less is not enough."""
    assert _flaps(not_yet, presets=(preset,)) == []
    (found,) = last(_flaps(just, presets=(preset,)))
    assert found.evidence[0].statement.endswith(f"(preset {preset})")


def test_an_outage_that_still_lasts_counts_when_it_has_lasted() -> None:
    """NVIDIA's rule needs no recovery: the outage is known once 30 s have passed."""
    (open_one,) = _flaps([down(HOST, 0)], 31, ("health-validation",))
    assert (open_one.status, after(open_one.detected_at_ns)) == (Status.OPEN, 30)
    assert _flaps([down(HOST, 0)], 29, ("health-validation",)) == []


def test_unknown_presets_are_refused_by_name() -> None:
    """The error names a preset that is not in the table, and an empty choice."""
    with pytest.raises(ValueError, match="no such preset: bursts"):
        FlapParams(presets=("bursts",))
    with pytest.raises(ValueError, match="at least one preset"):
        FlapParams(presets=())


def test_changes_that_a_trap_and_a_poll_both_show_are_counted_once() -> None:
    """Evidence of the end that met no preset: four changes, not eight."""
    polled = [s for t in (0, 100) for s in (down(LEAF, t + 1, t - 9), up(LEAF, t + 3, t - 7))]
    (found,) = last(_flaps([*flaps(HOST, 0, 100, 200), *flaps(LEAF, 0, 100), *polled], presets=("burst",)))
    texts = [one.statement for one in found.evidence if one.at is not None and one.at.device == "p1-l0"]
    assert texts == ["p1-l0/d1 changed state or counted changes 4 times"]
