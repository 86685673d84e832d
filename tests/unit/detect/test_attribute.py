"""attribute: severities, blast radius, occurrences, and maintenance."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from streams.detect.attribute.stage import Attribute
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import (
    UPLINKS,
    Condition,
    Endpoint,
    Episode,
    Finding,
    Message,
    Severity,
    Status,
    Subject,
)
from streams.wire.stage import Output
from streams.wire.topics import FINDINGS, FINDINGS_OPEN
from tests.worlds.link_windows import Values, degrading_findings, minute, powers
from tests.worlds.observations import HOST, LEAF, after, at, correlated, down, flaps, last
from tests.worlds.small_fabric import begun, inventory, job, topology
from tests.worlds.small_world import SmallWorld, findings, play

DAY = 86_400
JOBS = inventory(jobs=[job("train", "p1-h1", "1970-01-01T00:00:00+00:00")])


def _findings_of(outputs: Sequence[Output]) -> list[Finding]:
    return [o.message for o in outputs if o.topic is FINDINGS and isinstance(o.message, Finding)]


def _attribute(own: Sequence[Finding], top: Topology | None = None) -> list[Finding]:
    stage = begun(Attribute(DetectParams()), top)
    return last(_findings_of([o for f in own for o in stage.process([Episode(f, (f.started_at_ns,))])]))


def _downs(*ports: str, top: Topology | None = None) -> list[Finding]:
    """Return the link/down findings of ports that are all down since T0."""
    published = last(
        f for p in ports for f in correlated([down(p, 0)], 40, top=top) if f.condition is Condition.LINK_DOWN
    )
    return _attribute(published, top)


def _flap(port: str, top: Topology | None = None) -> Finding:
    (found,) = _attribute(last(correlated(flaps(port, 0, 10, 20), 30, top=top)), top)
    return found


def _degrading(port: str, values: Values, top: Topology) -> Finding:
    (found,) = _attribute(last(degrading_findings([minute(port, n, values) for n in range(4)], 6)), top)
    return found


@pytest.mark.parametrize(("detected_s", "explained"), [(90, True), (19, False)])
def test_a_source_with_a_long_cadence_became_silent_with_its_device(detected_s: float, explained: bool) -> None:
    """Its last sample is older than the outage. An outage does not explain a silence detected before it."""
    (down_,) = _downs(HOST)
    outage = replace(
        down_, id="outage", condition=Condition.DEVICE_DOWN, subject=Subject("device:p1-l0", Endpoint("p1-l0")),
        started_at_ns=at(20), detected_at_ns=at(60), resolved_at_ns=at(140), status=Status.RESOLVED,
    )  # fmt: skip
    silence = replace(outage, id="silence", condition=Condition.TELEMETRY_STALE, started_at_ns=at(0))
    published = _attribute([outage, replace(silence, detected_at_ns=at(detected_s))])
    assert {f.id: f.parent_id for f in published} == {"outage": "", "silence": "outage" if explained else ""}


def test_a_link_that_loses_frames_is_critical_under_a_job() -> None:
    """On a host link under a running job; not for a BER that FEC corrects, nor between switches, nor without a job."""
    lost: Values = {Metric.RX_FCS_ERRORS: 5, Metric.RX_PACKETS: 1e6}
    assert _degrading(HOST, lost, topology(JOBS)).severity is Severity.CRITICAL
    assert _degrading(HOST, lost, topology()).severity is Severity.WARNING
    assert _degrading(HOST, {Metric.PRE_FEC_BER: 2e-5}, topology(JOBS)).severity is Severity.WARNING
    assert _degrading("p1-l0/u0", lost, topology(JOBS)).severity is Severity.WARNING


@pytest.mark.parametrize(
    ("gbps", "per_min", "is_page"), [(100, 2, False), (100, 25, True), (400, 25, False), (400, 90, True)]
)
def test_symbol_errors_page_above_the_rate_that_infiniband_permits(gbps: int, per_min: int, is_page: bool) -> None:
    """1e-12 after every correction: 60 errors of EDR in ten minutes, 240 of NDR."""
    top = topology(replace(JOBS, links=tuple(one._replace(speed_bps=gbps * 10**9) for one in JOBS.links)))
    found = _degrading(HOST, {Metric.UNCORRECTED_SYMBOLS: per_min}, top)
    assert (found.severity is Severity.CRITICAL) is is_page


def _rail(start: float, end: float) -> Finding:
    """Return a rail/degraded finding of rail 0 of p1-h1, at its port e0."""
    (like,) = last(degrading_findings([minute(HOST, n, {Metric.RX_FCS_ERRORS: 5}) for n in range(3)], 6))
    subject = replace(like.subject, id="rail:p1-h1/0", z=None, role="rail")
    return replace(
        like, id="r" * 32, condition=Condition.RAIL_DEGRADED, subject=subject, detector="rail/degraded",
        started_at_ns=at(start), resolved_at_ns=at(end), status=Status.RESOLVED,
    )  # fmt: skip


def test_a_slow_rail_is_critical_under_a_job() -> None:
    """A slow rail slows the whole job; without a job it is a warning."""
    assert _attribute([_rail(100, 400)], topology(JOBS))[0].severity is Severity.CRITICAL
    assert _attribute([_rail(100, 400)])[0].severity is Severity.WARNING


@pytest.mark.parametrize(("start", "end", "explained"), [(100, 400, True), (5000, 6000, False)])
def test_a_bad_link_explains_its_slow_rail(start: float, end: float, explained: bool) -> None:
    """A link fault at the same port and time is the parent of the rail's finding."""
    cause = last(degrading_findings([minute(HOST, n, {Metric.RX_FCS_ERRORS: 5 * (n < 5)}) for n in range(16)]))
    found = {f.condition: f for f in _attribute([*cause, _rail(start, end)])}
    parent = found[Condition.LINK_DEGRADING].id if explained else ""
    assert found[Condition.RAIL_DEGRADED].parent_id == parent


def test_fading_light_without_frame_loss_is_info() -> None:
    """No frame is lost yet, so a running job changes nothing."""
    (found,) = _attribute(last(degrading_findings(powers(HOST, -3.0, *[-6.5] * 5), 7)), topology(JOBS))
    assert found.severity is Severity.INFO


def test_a_host_link_is_critical_only_without_another_plane() -> None:
    """The host has plane 1 of rail 0: a warning. With both planes down, the second is critical."""
    (alone,) = _downs(HOST)
    assert alone.severity is Severity.WARNING
    both = _downs(HOST, "p1-h1/e1")
    assert both[-1].severity is Severity.CRITICAL


def test_a_fabric_link_is_critical_only_below_the_floor() -> None:
    """Three of four paths are the floor: the first loss is a warning, the second is critical; other leaves' are not."""
    assert [f.severity for f in _downs("p1-l0/u0")] == [Severity.WARNING]
    assert [f.severity for f in _downs("p1-l0/u0", "p1-l0/u1")][-1] is Severity.CRITICAL
    assert {f.severity for f in _downs("p1-l0/u0", "p1-l1/u1", "p2-l0/u0")} == {Severity.WARNING}


def test_a_flap_is_critical_only_on_a_busy_host_without_another_plane() -> None:
    """A job and a second plane: warning. No job: warning. A job and no other plane: critical. A fabric link: never."""
    assert _flap(HOST, topology(JOBS)).severity is Severity.WARNING
    single = replace(JOBS, links=tuple(n for n in JOBS.links if n.z_port != "e1"))
    assert _flap(HOST, topology(single)).severity is Severity.CRITICAL
    idle = replace(single, jobs=())
    assert _flap(HOST, topology(idle)).severity is Severity.WARNING
    assert _flap("p1-l0/u0", topology(JOBS)).severity is Severity.WARNING


def test_a_port_of_no_known_link_is_a_warning_without_a_blast_radius() -> None:
    """The connected hosts are unknown: no blast radius is invented."""
    (found,) = _downs("ghost/e1")
    assert (found.severity, found.blast_radius, found.subject.pod) == (Severity.WARNING, None, "ghost")


def test_blast_radius() -> None:
    """A host link affects its host and its jobs; a leaf's uplink the hosts at the leaf, by their loss on one plane."""
    (host,) = _downs(HOST, top=topology(JOBS))
    assert host.blast_radius is not None
    assert (host.blast_radius.hosts, host.blast_radius.jobs, host.blast_radius.gpus) == (("p1-h1",), ("train",), 8)
    assert host.blast_radius.capacity_lost_ratio == 0.5
    (leaf,) = _downs("p1-l0/u0", top=topology(JOBS))
    assert leaf.blast_radius is not None
    assert (leaf.blast_radius.hosts, leaf.blast_radius.gpus) == (("p1-h1", "p1-h2"), 16)
    assert leaf.blast_radius.capacity_lost_ratio == 0.125


@pytest.mark.parametrize("kind", ["p1-l0", "s1", "p1-h1"])
def test_a_restart_that_is_over_is_a_warning(kind: str) -> None:
    """A resolved restart is a warning for hosts and switches alike."""
    (found,) = findings(play(SmallWorld(boots={kind: 100}).rounds(400)))
    assert (found.severity, found.subject.role) == (Severity.WARNING, "host" if kind == "p1-h1" else "switch")


def _nth(*days: float) -> list[int | None]:
    stage = begun(Attribute(DetectParams()))
    out = []
    for day in days:
        (own,) = last(correlated([down(HOST, day * DAY)], day * DAY + 31))
        resolved = replace(
            own, revision=own.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(day * DAY + 60), final=True
        )
        published = _findings_of([*stage.process([Episode(own)]), *stage.process([Episode(resolved)])])
        published += _findings_of(stage.advance_watermark(at(day * DAY + 7_200)))
        out.append(published[-1].occurrences)
    return out


def test_occurrences_are_counted_over_28_days() -> None:
    """The current one counts; those of more than 28 days ago do not."""
    assert _nth(0, 1, 27.9) == [1, 2, 3]
    assert _nth(0, 1, 28.5, 29.5) == [1, 2, 2, 2]


def test_a_third_occurrence_makes_a_link_a_repeat_offender() -> None:
    """Only occurrences within 28 days count."""
    stage = begun(Attribute(DetectParams()))
    published = []
    for day in (0, 10, 20, 60):
        (own,) = last(correlated([down(HOST, day * DAY)], day * DAY + 31))
        published.append(_findings_of(stage.process([Episode(own)]))[-1])
        resolved = replace(own, revision=own.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(day * DAY + 60))
        stage.process([Episode(replace(resolved, final=True))])
        stage.advance_watermark(at(day * DAY + 7_200))
    repeats = [[e.statement for e in f.evidence if e.metric == "occurrences"] for f in published]
    assert repeats == [[], [], ["a repeat offender: link/down here 3 times in 28 days"], []]


def test_closed_cases_are_evicted() -> None:
    """A hundred links failed once each: no case is retained after an hour, and no occurrence after 28 days."""
    stage = begun(Attribute(DetectParams()))
    for number in range(100):
        (own,) = last(correlated([down(f"ghost{number}/e1", number)], number + 31))
        resolved = replace(own, status=Status.RESOLVED, resolved_at_ns=at(number + 60), final=True)
        stage.process([Episode(resolved)])

    def retained(second: float) -> list[int]:
        stage.advance_watermark(at(second))
        state = orjson.loads(stage.snapshot())
        return [len(state[name]) for name in ("cases", "occurrences", "changed", "to_reevaluate")]

    assert retained(300) == [100, 100, 0, 0]
    assert retained(5_000) == [0, 100, 0, 0]
    assert retained(30 * DAY) == [0, 0, 0, 0]


def test_a_link_becomes_critical_when_the_other_plane_is_lost_later() -> None:
    """It was a warning for a day; then both are critical."""
    stage = begun(Attribute(DetectParams()))
    (first,) = last(correlated([down(HOST, 0)], 31))
    (second,) = last(correlated([down("p1-h1/e1", DAY)], DAY + 31))
    assert [f.severity for f in _findings_of(stage.process([Episode(first)]))] == [Severity.WARNING]
    published = _findings_of([*stage.process([Episode(second)]), *stage.advance_watermark(at(DAY + 32))])
    assert {f.id: f.severity for f in published} == {first.id: Severity.CRITICAL, second.id: Severity.CRITICAL}


def test_a_retraction_is_final_after_the_lateness() -> None:
    """The retraction is published at once, its final revision after the lateness; a later revision has no effect."""
    stage = begun(Attribute(DetectParams()))
    (own,) = last(correlated([down(HOST, 0)], 31))
    stage.process([Episode(own)])
    stage.advance_watermark(at(40))
    outage = replace(own, revision=own.revision + 1, status=Status.RETRACTED)
    assert [(f.status, f.final) for f in _findings_of(stage.process([Episode(outage)]))] == [(Status.RETRACTED, False)]
    assert _findings_of(stage.advance_watermark(at(69))) == []
    assert [(f.status, f.final) for f in _findings_of(stage.advance_watermark(at(70)))] == [(Status.RETRACTED, True)]
    assert stage.process([Episode(replace(own, revision=own.revision + 2))]) == []


def test_affected_jobs_are_those_that_ran_while_the_finding_was_open() -> None:
    """A job that ended before, or started after, is not affected; one that started in between is."""

    def when(second: float) -> str:
        return datetime.fromtimestamp(at(second) / 1e9, UTC).isoformat()

    jobs = [
        job("before", "p1-h1", when(-100), when(-1)), job("at", "p1-h1", when(-1), when(5)),
        job("during", "p1-h1", when(20), when(30)), job("after", "p1-h1", when(60), when(90)),
    ]  # fmt: skip
    stage = begun(Attribute(DetectParams()), topology(inventory(jobs=jobs)))
    (own,) = last(correlated([down(HOST, 0)], 31))
    resolved = replace(own, status=Status.RESOLVED, resolved_at_ns=at(60))
    (found,) = _findings_of(stage.process([Episode(resolved)]))
    assert found.blast_radius is not None
    assert found.blast_radius.jobs == ("at", "during")


def test_a_finding_with_a_moved_start_is_one_occurrence() -> None:
    """A late observation moves the start, which is no new occurrence. A retraction does not count."""
    stage = begun(Attribute(DetectParams()))
    (own,) = last(correlated([down(HOST, 0)], 31))
    stage.process([Episode(own)])
    moved = replace(own, revision=own.revision + 1, started_at_ns=own.started_at_ns - 5)
    assert [f.occurrences for f in _findings_of(stage.process([Episode(moved)]))] == [1]
    stage.process([Episode(replace(moved, revision=own.revision + 2, status=Status.RETRACTED))])
    (other,) = last(correlated([down(LEAF, 500)], 531))
    assert [f.occurrences for f in _findings_of(stage.process([Episode(other)]))] == [1]


def test_maintenance_of_either_end_makes_a_finding_shadow() -> None:
    """A finding that starts before the end of maintenance is recorded, not paged and not acted on; a later one is."""
    busy = topology(inventory(maintenance=["p1-l0"], until="1970-01-12T13:46:41+00:00"))
    (shadow,) = _downs(HOST, top=busy)
    assert shadow.shadow is True
    ended = topology(inventory(maintenance=["p1-l0"], until="1970-01-12T13:46:40+00:00"))
    assert [f.shadow for f in _downs(HOST, top=ended)] == [None]
    assert [f.shadow for f in _downs("p1-l1/u0", top=busy)] == [None]


@pytest.mark.parametrize("resolved_s", [None, 59, 60])
def test_a_loss_that_outlasts_its_maintenance_is_paged(resolved_s: float | None) -> None:
    """It is shadow for ever if it ended in the maintenance, which may be known three minutes after its end."""
    stage = begun(Attribute(DetectParams()), topology(inventory(maintenance=["p1-l0"], until="1970-01-12T13:47:40Z")))
    (own,) = last(correlated([down(HOST, 0)], 31))
    assert [f.shadow for f in _findings_of(stage.process([Episode(own)]))] == [True]
    assert _findings_of([*stage.advance_watermark(at(60)), *stage.advance_watermark(at(239.9))]) == []
    outputs: list[Output] = []
    if resolved_s is not None:
        resolved = replace(own, revision=own.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(resolved_s))
        outputs += stage.process([Episode(resolved)])
    found = last(_findings_of([*outputs, *stage.advance_watermark(at(240)), *stage.advance_watermark(at(300))]))
    assert [f.shadow for f in found] == [True if resolved_s == 59 else None]


def test_a_flap_of_a_maintenance_is_not_paged_before_it_would_have_ended() -> None:
    """It is open for ten minutes after its last down, which was in the maintenance."""
    stage = begun(Attribute(DetectParams()), topology(inventory(maintenance=["p1-l0"], until="1970-01-12T13:47:40Z")))
    (own,) = last(correlated(flaps(HOST, 0, 10, 20), 30))
    outputs = [*stage.process([Episode(own)]), *stage.advance_watermark(at(959.9))]
    assert {f.shadow for f in _findings_of(outputs)} == {True}
    assert [f.shadow for f in _findings_of(stage.advance_watermark(at(960)))] == [None]


def test_open_findings_are_published_until_they_are_resolved() -> None:
    """Each revision has the id as its key; a tombstone follows the last."""
    stage = begun(Attribute(DetectParams()))
    (own,) = last(correlated([down(HOST, 0)], 31))
    opened = stage.process([Episode(own)])
    assert [(o.topic, o.key) for o in opened] == [(FINDINGS, None), (FINDINGS_OPEN, own.id)]
    resolved = replace(own, revision=own.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(60))
    ended = stage.process([Episode(resolved)])
    assert [(o.topic, o.message is None) for o in ended] == [(FINDINGS, False), (FINDINGS_OPEN, True)]


def test_an_older_or_repeated_revision_is_ignored() -> None:
    """Of two revisions of one id the higher is valid, in any order of arrival."""
    stage = begun(Attribute(DetectParams()))
    (opened,) = last(correlated([down(HOST, 0)], 31))
    resolved = replace(opened, revision=opened.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(60))
    messages: list[Message] = [Episode(resolved), Episode(opened), Episode(resolved)]
    assert [f.status for f in _findings_of([o for m in messages for o in stage.process([m])])] == [Status.RESOLVED]


def test_an_unpublished_finding_is_not_retracted() -> None:
    """The retraction of an unknown episode publishes nothing."""
    stage = begun(Attribute(DetectParams()))
    (own,) = last(correlated([down(HOST, 0)], 31))
    assert stage.process([Episode(replace(own, status=Status.RETRACTED))]) == []


def test_each_finding_names_its_runbook_and_its_versions() -> None:
    """A finding has the page of its detector, and the digests of the thresholds and the inventory."""
    (found,) = _downs(HOST)
    assert found.runbook_url == "docs/runbooks/link-down.md"
    assert found.inventory_digest == topology().digest[:12]
    assert (found.settings_digest, found.detector_version) == (DetectParams().digest, "1")
    assert after(found.detected_at_ns) == 30


def _lost(port: str, start: float, end: float | None = None) -> Finding:
    """Return the link/down finding of a port that is down for a time, or for ever."""
    (one,) = last(f for f in correlated([down(port, start)], start + 31) if f.condition is Condition.LINK_DOWN)
    return one if end is None else replace(one, revision=2, status=Status.RESOLVED, resolved_at_ns=at(end))


def test_the_root_of_a_group_is_critical_only_with_a_child_that_is() -> None:
    """Three links of a spine; one of them is CRITICAL, and belongs to the larger group of its leaf, which explains it.

    p1-l0 lost two of four uplinks. The group of s1 has two warnings besides.
    """
    stage = begun(Attribute(DetectParams()))
    ports = {"p1-l1/u0": 0, "p2-l0/u0": 1, "p1-l0/d1": 2, "p1-l0/d2": 3, "p1-l0/u0": 4, "p1-l0/u1": 5}
    own = [_lost(port, start) for port, start in ports.items()]
    outputs = [output for finding in own for output in stage.process([Episode(finding)])]
    found = {f.id: f for f in last(_findings_of([*outputs, *stage.advance_watermark(at(60))]))}
    of_spine, of_pod_2, of_leaf, host, critical, second = (found[finding.id] for finding in own)
    assert (of_spine.parent_id, of_pod_2.parent_id) == ("", of_spine.id)
    assert {f.parent_id for f in (host, critical, second)} == {of_leaf.id}
    assert critical.severity is second.severity is Severity.CRITICAL
    assert (of_spine.severity, of_leaf.severity) == (Severity.WARNING, Severity.CRITICAL)


def test_the_next_root_of_a_group_is_critical_with_a_child_that_is() -> None:
    """The first lost link of a leaf comes back; the next root is a warning, its children do not page."""
    stage = begun(Attribute(DetectParams()))
    own = [_lost("p1-l0/d1", 0, 40), _lost("p1-l0/d2", 1), _lost("p1-l0/u0", 2), _lost("p1-l0/u1", 3)]
    outputs = [output for finding in own for output in stage.process([Episode(finding)])]
    for second in (60, 90, 91):
        outputs += stage.advance_watermark(at(second))
    found = {f.id: f for f in last(_findings_of(outputs))}
    _, root, *children = (found[finding.id] for finding in own)
    assert (root.parent_id, {child.parent_id for child in children}) == ("", {root.id})
    assert {one.severity for one in (root, *children)} == {Severity.CRITICAL}


def test_a_critical_uplink_has_the_number_of_lost_uplinks_of_its_switch() -> None:
    """It counts those that are down now, and at the end the most that were; a warning has none."""
    stage = begun(Attribute(DetectParams()))
    own = [_lost("p1-l0/u0", 0), _lost("p1-l0/u1", 400), _lost("p1-l0/u2", 800)]

    def statements(*changed: Finding, second: float) -> list[str]:
        outputs = [output for finding in changed for output in stage.process([Episode(finding)])]
        newest = last(_findings_of([*outputs, *stage.advance_watermark(at(second))]))
        return sorted({one.statement for found in newest for one in found.evidence if one.metric == UPLINKS})

    def ended(finding: Finding, second: float) -> Finding:
        return replace(finding, revision=finding.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(second))

    assert statements(own[0], second=40) == []
    assert statements(own[1], second=440) == ["2 of the 4 uplinks of p1-l0 are down"]
    assert statements(own[2], second=840) == ["3 of the 4 uplinks of p1-l0 are down"]
    assert statements(ended(own[2], 1000), second=1010) == [
        "2 of the 4 uplinks of p1-l0 are down", "3 of the 4 uplinks of p1-l0 were down"
    ]  # fmt: skip
    assert statements(ended(own[0], 1100), ended(own[1], 1100), second=1110) == [
        "3 of the 4 uplinks of p1-l0 were down"
    ]


@pytest.mark.parametrize(
    ("ports", "statement"),
    [
        ((HOST, "p1-h1/e1"), "all 2 links of p1-h1 are down"),
        (("p1-l0/u0", "p1-l0/u1"), "2 of the 4 uplinks of p1-l0 are down"),
    ],
)
def test_a_critical_link_has_the_number_of_lost_links_of_its_lower_end(ports: tuple[str, ...], statement: str) -> None:
    """The number of links that are left decides between a repair at once and one in the morning."""
    found = _downs(*ports)
    lost = [one for finding in found for one in finding.evidence if one.metric == UPLINKS]
    assert {(one.statement, one.observed, one.peers) for one in lost} == {
        (statement, 2.0, len(topology().uplinks_of[ports[0].partition("/")[0]]))
    }


@pytest.mark.parametrize(
    ("start", "end", "expires"),
    [(0, 40, 40 + 35), (0, 7, 7 + 10), (0, 1000, 1000 + 300)],
    ids=["as long as both were down", "at least links_s", "at most outlive_s"],
)
def test_a_short_loss_does_not_hide_an_outage(start: float, end: float, expires: float) -> None:
    """Two links of a leaf come back, a third stays down: it has a root cause of its own soon after."""
    stage = begun(Attribute(DetectParams()))
    own = [_lost("p1-l0/u0", start, end), _lost("p1-l0/u1", 2, end + 1), _lost("p1-l0/u2", 5)]
    outputs = [output for finding in own for output in stage.process([Episode(finding)])]
    (outage,) = [f for f in last(_findings_of([*outputs, *stage.advance_watermark(at(expires))])) if f.id == own[2].id]
    assert outage.parent_id == own[0].id
    (after_,) = [f for f in _findings_of(stage.advance_watermark(at(expires + 1))) if f.id == own[2].id]
    assert after_.parent_id == ""


def test_a_subject_without_ends_is_published() -> None:
    """A rail or a pod may have no ends; the finding is published unchanged."""
    rail = Finding(
        "x", 1, False, Condition.RAIL_DEGRADED, Status.OPEN, Severity.WARNING, Subject("rail:p1-h1/0"), at(0), at(0),
        detector="rail/degraded",
    )  # fmt: skip
    (found,) = _findings_of(begun(Attribute(DetectParams())).process([Episode(rail)]))
    assert (found.subject.id, found.blast_radius, found.parent_id) == ("rail:p1-h1/0", None, "")
    assert Endpoint("a") == Endpoint("a", "")
