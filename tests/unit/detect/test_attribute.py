"""attribute: severities, who is hit, how often it came back, and what maintenance does to it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from streams.detect.attribute.stage import Attribute
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import (
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
from tests.worlds.link_windows import Values, minute, powers, told
from tests.worlds.observations import HOST, LEAF, after, at, correlated, down, flaps, last
from tests.worlds.small_fabric import inventory, job, topology
from tests.worlds.small_world import SmallWorld, findings, play

DAY = 86_400
JOBS = inventory(jobs=[job("train", "p1-h1", "1970-01-01T00:00:00+00:00")])


def _stage(top: Topology | None = None) -> Attribute:
    stage = Attribute(DetectParams())
    stage.start_epoch(1)
    stage.set_topology(top or topology())
    return stage


def _said(outputs: Sequence[Output]) -> list[Finding]:
    return [o.message for o in outputs if o.topic is FINDINGS and isinstance(o.message, Finding)]


def _attributed(own: Sequence[Finding], top: Topology | None = None) -> list[Finding]:
    stage = _stage(top)
    return last(_said([o for f in own for o in stage.process([Episode(f, (f.started_at_ns,))])]))


def _downs(*ports: str, top: Topology | None = None) -> list[Finding]:
    """The link/down findings of ports that are all down since T0."""
    said = last(f for p in ports for f in correlated([down(p, 0)], 40, top=top) if f.condition is Condition.LINK_DOWN)
    return _attributed(said, top)


def _flap(port: str, top: Topology | None = None) -> Finding:
    (found,) = _attributed(last(correlated(flaps(port, 0, 10, 20), 30, top=top)), top)
    return found


def _degrading(port: str, values: Values, top: Topology) -> Finding:
    (found,) = _attributed(last(told([minute(port, n, values) for n in range(4)], 6)), top)
    return found


@pytest.mark.parametrize(("told_s", "explained"), [(90, True), (19, False)])
def test_a_source_that_is_read_rarely_fell_silent_with_its_device(told_s: float, explained: bool) -> None:
    """It spoke last some time before the device went; one that was called silent before that was dead already."""
    (down_,) = _downs(HOST)
    gone = replace(
        down_, id="gone", condition=Condition.DEVICE_DOWN, subject=Subject("device:p1-l0", Endpoint("p1-l0")),
        started_at_ns=at(20), detected_at_ns=at(60), resolved_at_ns=at(140), status=Status.RESOLVED,
    )  # fmt: skip
    silence = replace(gone, id="silence", condition=Condition.TELEMETRY_STALE, started_at_ns=at(0))
    said = _attributed([gone, replace(silence, detected_at_ns=at(told_s))])
    assert {f.id: f.parent_id for f in said} == {"gone": "", "silence": "gone" if explained else ""}


def test_a_link_that_loses_frames_is_critical_where_a_job_feels_it() -> None:
    """On a host link under a running job; not for a BER that FEC corrects, nor between switches, nor without a job."""
    lost: Values = {Metric.RX_FCS_ERRORS: 5, Metric.RX_PACKETS: 1e6}
    assert _degrading(HOST, lost, topology(JOBS)).severity is Severity.CRITICAL
    assert _degrading(HOST, lost, topology()).severity is Severity.WARNING
    assert _degrading(HOST, {Metric.PRE_FEC_BER: 2e-5}, topology(JOBS)).severity is Severity.WARNING
    assert _degrading("p1-l0/u0", lost, topology(JOBS)).severity is Severity.WARNING


def _rail(start: float, end: float) -> Finding:
    """rail/degraded of p1-h1's rail 0, at its port e0."""
    (like,) = last(told([minute(HOST, n, {Metric.RX_FCS_ERRORS: 5}) for n in range(3)], 6))
    subject = replace(like.subject, id="rail:p1-h1/0", z=None, role="rail")
    return replace(
        like, id="r" * 32, condition=Condition.RAIL_DEGRADED, subject=subject, detector="rail/degraded",
        started_at_ns=at(start), resolved_at_ns=at(end), status=Status.RESOLVED,
    )  # fmt: skip


def test_a_slow_rail_is_critical_where_a_job_runs() -> None:
    """It slows the whole job; without one it is a warning."""
    assert _attributed([_rail(100, 400)], topology(JOBS))[0].severity is Severity.CRITICAL
    assert _attributed([_rail(100, 400)])[0].severity is Severity.WARNING


@pytest.mark.parametrize(("start", "end", "explained"), [(100, 400, True), (5000, 6000, False)])
def test_a_bad_link_explains_its_slow_rail(start: float, end: float, explained: bool) -> None:
    """At the same port and at the same time; the rail is its child."""
    cause = last(told([minute(HOST, n, {Metric.RX_FCS_ERRORS: 5 * (n < 5)}) for n in range(16)]))
    found = {f.condition: f for f in _attributed([*cause, _rail(start, end)])}
    parent = found[Condition.LINK_DEGRADING].id if explained else ""
    assert found[Condition.RAIL_DEGRADED].parent_id == parent


def test_light_that_fades_without_loss_is_for_information() -> None:
    """Whoever runs a job there: nothing is lost yet."""
    (found,) = _attributed(last(told(powers(HOST, -3.0, *[-6.5] * 5), 7)), topology(JOBS))
    assert found.severity is Severity.INFO


def test_a_host_link_is_critical_only_without_another_plane() -> None:
    """The host keeps plane 1 of rail 0: a warning. Both planes down: the second one is critical."""
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
    """A job and a second plane: warning. No job: warning. Neither plane nor mercy: critical. A fabric link never."""
    assert _flap(HOST, topology(JOBS)).severity is Severity.WARNING
    single = replace(JOBS, links=tuple(n for n in JOBS.links if n.z_port != "e1"))
    assert _flap(HOST, topology(single)).severity is Severity.CRITICAL
    idle = replace(single, jobs=())
    assert _flap(HOST, topology(idle)).severity is Severity.WARNING
    assert _flap("p1-l0/u0", topology(JOBS)).severity is Severity.WARNING


def test_a_port_of_no_known_link_is_a_warning_without_a_blast_radius() -> None:
    """Nobody knows who hangs on it; nothing is made up."""
    (found,) = _downs("ghost/e1")
    assert (found.severity, found.blast_radius, found.subject.pod) == (Severity.WARNING, None, "ghost")


def test_who_is_hit() -> None:
    """A host link hits its host and its jobs; a leaf's uplink those at the leaf, with what they lose on one plane."""
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
    """Whatever restarted: it is back."""
    (found,) = findings(play(SmallWorld(boots={kind: 100}).rounds(400)))
    assert (found.severity, found.subject.role) == (Severity.WARNING, "host" if kind == "p1-h1" else "switch")


def _nth(*days: float) -> list[int | None]:
    stage = _stage()
    out = []
    for day in days:
        (own,) = last(correlated([down(HOST, day * DAY)], day * DAY + 31))
        over = replace(
            own, revision=own.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(day * DAY + 60), final=True
        )
        said = _said([*stage.process([Episode(own)]), *stage.process([Episode(over)])])
        said += _said(stage.advance_watermark(at(day * DAY + 7_200)))
        out.append(said[-1].occurrences)
    return out


def test_occurrences_are_counted_over_28_days() -> None:
    """This one included; those of more than 28 days ago are not."""
    assert _nth(0, 1, 27.9) == [1, 2, 3]
    assert _nth(0, 1, 28.5, 29.5) == [1, 2, 2, 2]


def test_a_link_that_comes_back_a_third_time_is_called_a_repeat_offender() -> None:
    """Within 28 days; what happened before is no longer held against it."""
    stage = _stage()
    said = []
    for day in (0, 10, 20, 60):
        (own,) = last(correlated([down(HOST, day * DAY)], day * DAY + 31))
        said.append(_said(stage.process([Episode(own)]))[-1])
        over = replace(own, revision=own.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(day * DAY + 60))
        stage.process([Episode(replace(over, final=True))])
        stage.advance_watermark(at(day * DAY + 7_200))
    repeats = [[e.statement for e in f.evidence if e.metric == "occurrences"] for f in said]
    assert repeats == [[], [], ["a repeat offender: link/down here 3 times in 28 days"], []]


def test_state_of_what_is_over_is_let_go() -> None:
    """A hundred links that each failed once: an hour later no case is kept, and after 28 days no count of them."""
    stage = _stage()
    for number in range(100):
        (own,) = last(correlated([down(f"ghost{number}/e1", number)], number + 31))
        over = replace(own, status=Status.RESOLVED, resolved_at_ns=at(number + 60), final=True)
        stage.process([Episode(over)])

    def kept(second: float) -> list[int]:
        stage.advance_watermark(at(second))
        state = orjson.loads(stage.snapshot())
        return [len(state[name]) for name in ("cases", "occurrences", "changed", "to_reevaluate")]

    assert kept(300) == [100, 100, 0, 0]
    assert kept(5_000) == [0, 100, 0, 0]
    assert kept(30 * DAY) == [0, 0, 0, 0]


def test_a_link_becomes_critical_when_the_other_plane_is_lost_later() -> None:
    """It was a warning for a day; both are critical then, and stay so in what is said of them last."""
    stage = _stage()
    (first,) = last(correlated([down(HOST, 0)], 31))
    (second,) = last(correlated([down("p1-h1/e1", DAY)], DAY + 31))
    assert [f.severity for f in _said(stage.process([Episode(first)]))] == [Severity.WARNING]
    said = _said([*stage.process([Episode(second)]), *stage.advance_watermark(at(DAY + 32))])
    assert {f.id: f.severity for f in said} == {first.id: Severity.CRITICAL, second.id: Severity.CRITICAL}


def test_what_is_taken_back_is_final_once_nothing_can_bring_it_back() -> None:
    """The retraction at once, and its final revision after the lateness; a later word of it changes nothing."""
    stage = _stage()
    (own,) = last(correlated([down(HOST, 0)], 31))
    stage.process([Episode(own)])
    stage.advance_watermark(at(40))
    gone = replace(own, revision=own.revision + 1, status=Status.RETRACTED)
    assert [(f.status, f.final) for f in _said(stage.process([Episode(gone)]))] == [(Status.RETRACTED, False)]
    assert _said(stage.advance_watermark(at(69))) == []
    assert [(f.status, f.final) for f in _said(stage.advance_watermark(at(70)))] == [(Status.RETRACTED, True)]
    assert stage.process([Episode(replace(own, revision=own.revision + 2))]) == []


def test_jobs_are_those_that_ran_while_it_was_so() -> None:
    """One that ended before it and one that began after it are not hit; one that began in between is."""

    def when(second: float) -> str:
        return datetime.fromtimestamp(at(second) / 1e9, UTC).isoformat()

    jobs = [
        job("before", "p1-h1", when(-100), when(-1)), job("at", "p1-h1", when(-1), when(5)),
        job("during", "p1-h1", when(20), when(30)), job("after", "p1-h1", when(60), when(90)),
    ]  # fmt: skip
    stage = _stage(topology(inventory(jobs=jobs)))
    (own,) = last(correlated([down(HOST, 0)], 31))
    over = replace(own, status=Status.RESOLVED, resolved_at_ns=at(60))
    (found,) = _said(stage.process([Episode(over)]))
    assert found.blast_radius is not None
    assert found.blast_radius.jobs == ("at", "during")


def test_one_finding_that_is_dated_anew_is_one_occurrence() -> None:
    """A late observation moves its beginning: it did not come back for that. A retraction does not count."""
    stage = _stage()
    (own,) = last(correlated([down(HOST, 0)], 31))
    stage.process([Episode(own)])
    moved = replace(own, revision=own.revision + 1, started_at_ns=own.started_at_ns - 5)
    assert [f.occurrences for f in _said(stage.process([Episode(moved)]))] == [1]
    stage.process([Episode(replace(moved, revision=own.revision + 2, status=Status.RETRACTED))])
    (other,) = last(correlated([down(LEAF, 500)], 531))
    assert [f.occurrences for f in _said(stage.process([Episode(other)]))] == [1]


def test_maintenance_of_either_end_makes_a_finding_shadow() -> None:
    """What begins before its end is recorded, not paged, not acted on; what begins after is as ever."""
    busy = topology(inventory(maintenance=["p1-l0"], until="1970-01-12T13:46:41+00:00"))
    (shadow,) = _downs(HOST, top=busy)
    assert shadow.shadow is True
    over = topology(inventory(maintenance=["p1-l0"], until="1970-01-12T13:46:40+00:00"))
    assert [f.shadow for f in _downs(HOST, top=over)] == [None]
    assert [f.shadow for f in _downs("p1-l1/u0", top=busy)] == [None]


def test_open_findings_are_kept_until_they_are_over() -> None:
    """Each revision stands under its id; the one that ends it is followed by a tombstone."""
    stage = _stage()
    (own,) = last(correlated([down(HOST, 0)], 31))
    opened = stage.process([Episode(own)])
    assert [(o.topic, o.key) for o in opened] == [(FINDINGS, None), (FINDINGS_OPEN, own.id)]
    over = replace(own, revision=own.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(60))
    ended = stage.process([Episode(over)])
    assert [(o.topic, o.message is None) for o in ended] == [(FINDINGS, False), (FINDINGS_OPEN, True)]


def test_an_older_or_repeated_revision_says_nothing() -> None:
    """Of two revisions of one id the higher holds, whichever comes first."""
    stage = _stage()
    opened, over = last(correlated([down(HOST, 0)], 31))[0], None
    over = replace(opened, revision=opened.revision + 1, status=Status.RESOLVED, resolved_at_ns=at(60))
    messages: list[Message] = [Episode(over), Episode(opened), Episode(over)]
    assert [f.status for f in _said([o for m in messages for o in stage.process([m])])] == [Status.RESOLVED]


def test_what_was_never_said_is_not_taken_back() -> None:
    """A retraction of something unknown makes no finding."""
    stage = _stage()
    (own,) = last(correlated([down(HOST, 0)], 31))
    assert stage.process([Episode(replace(own, status=Status.RETRACTED))]) == []


def test_each_finding_names_its_runbook_and_its_versions() -> None:
    """The page of its detector, the thresholds and the inventory that it ran with."""
    (found,) = _downs(HOST)
    assert found.runbook_url == "docs/runbooks/link-down.md"
    assert found.inventory_digest == topology().digest[:12]
    assert (found.settings_digest, found.detector_version) == (DetectParams().digest, "1")
    assert after(found.detected_at_ns) == 30


def test_nothing_that_pages_is_said_of_a_reboots_children() -> None:
    """A spine restarts for two minutes: no revision of any child is CRITICAL without a parent for long."""
    world = SmallWorld(offline={"s1": [(100, 220)], "s2": [(100, 220)]}, boots={"s1": 220, "s2": 220})
    said = [f for f in play(world.rounds(600)) if isinstance(f, Finding)]
    orphans = [f for f in said if f.severity is Severity.CRITICAL and not f.parent_id and f.subject.z is not None]
    adopted = {f.id for f in said if f.parent_id}
    assert {f.id for f in orphans} <= adopted


@pytest.mark.parametrize("data", [b"", b"[]", b'{"cases": 5}'])
def test_a_snapshot_that_cannot_be_read_is_refused(data: bytes) -> None:
    """Whatever stands in the snapshot topic, the answer is Reject."""
    with pytest.raises(Reject, match="not a snapshot of attribute"):
        _stage().restore(data)


def test_a_subject_without_ends_is_no_trouble() -> None:
    """A rail or a pod has none; it is published as it is."""
    rail = Finding(
        "x", 1, False, Condition.RAIL_DEGRADED, Status.OPEN, Severity.WARNING, Subject("rail:p1-h1/0"), at(0), at(0),
        detector="rail/degraded",
    )  # fmt: skip
    (found,) = _said(_stage().process([Episode(rail)]))
    assert (found.subject.id, found.blast_radius, found.parent_id) == ("rail:p1-h1/0", None, "")
    assert Endpoint("a") == Endpoint("a", "")
