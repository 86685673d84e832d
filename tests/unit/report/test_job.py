"""The verdict on a job's network, from the tables."""

from typing import Any

import pytest

from streams.fabric.job_placement import JobAllocation
from streams.report.job.footprint import JobFootprint, job_coverage, job_footprint
from streams.report.job.impact import job_impacts
from streams.store.queries.job_history import LinkRow, SourceReadings
from streams.wire.models import BlastRadius, Condition, Endpoint, Finding, Severity, Subject
from tests.fixtures.findings import NS, finding

SPAN = (0, 1000 * NS)
HOME = LinkRow("link:h/n--leaf/1", "h", "n", "leaf", "1", 0, 0, "p1")
AWAY = LinkRow("link:i/n--leaf2/1", "i", "n", "leaf2", "1", 0, 0, "p2")
UPS = (
    LinkRow("link:leaf/9--spine/1", "leaf", "9", "spine", "1", None, 0, "p1"),
    LinkRow("link:leaf2/9--spine/2", "leaf2", "9", "spine", "2", None, 0, "p2"),
    LinkRow("link:spine/9--core/1", "spine", "9", "core", "1", None, 0, "p1"),
)


class _Links:
    """Answers which links devices have upwards."""

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> list[LinkRow]:
        assert parameters is not None and "inventory_links" in sql
        return [cable for cable in (HOME, AWAY, *UPS) if cable.lower in parameters["devices"]]


def _place(*hosts: str) -> JobFootprint:
    return job_footprint(_Links(), "train", SPAN, [JobAllocation("train", host, 0, 1000 * NS) for host in hosts])


def _of(identity: str, subject: Subject, begin: float = 100, **more: Any) -> Finding:
    over = {"resolved_at_ns": round((begin + 50) * NS)}
    return finding(identity, subject=subject, started_at_ns=round(begin * NS), **(over | more))


def _link(cable: LinkRow) -> Subject:
    return Subject(cable.id, Endpoint(cable.lower, cable.lower_port), Endpoint(cable.upper, cable.upper_port))


def test_the_paths_of_a_job_go_as_far_up_as_its_hosts_lie_apart() -> None:
    """One leaf: nothing above it; two pods: all above them."""
    assert _place("h").path_links == {HOME.id}
    assert _place("h", "i").path_links == {HOME.id, AWAY.id, *(cable.id for cable in UPS)}


@pytest.mark.parametrize(
    ("subject", "hosts", "hurts"),
    [
        (_link(HOME), ("h",), True),
        (_link(UPS[0]), ("h",), False),
        (_link(UPS[0]), ("h", "i"), True),
        (Subject("device:leaf", Endpoint("leaf")), ("h",), True),
        (Subject("device:core", Endpoint("core")), ("h",), False),
        (Subject("device:core", Endpoint("core")), ("h", "i"), True),
        (Subject("pod:p1", role="pod", pod="p1"), ("h",), True),
        (Subject("pod:p3", role="pod", pod="p3"), ("h",), False),
        (_link(AWAY), ("h",), False),
    ],
)
def test_what_is_on_no_path_of_a_job_does_not_hurt_it(subject: Subject, hosts: tuple[str, ...], hurts: bool) -> None:
    """Links, switches and pods, near and far."""
    assert bool(job_impacts(_place(*hosts), [_of("a", subject)])) is hurts


def test_what_stood_while_a_host_was_not_of_the_job_does_not_hurt_it() -> None:
    """The host joined later."""
    place = job_footprint(_Links(), "train", SPAN, [JobAllocation("train", "h", 500 * NS, 1000 * NS)])
    assert not job_impacts(place, [_of("a", _link(HOME), begin=400)])
    assert job_impacts(place, [_of("a", _link(HOME), begin=480)])


def test_a_parent_precedes_its_children_wherever_it_is() -> None:
    """A parent that is far from the job comes with the child that is not; the worst of a family decides its place."""
    far = _of("far", Subject("device:elsewhere", Endpoint("elsewhere")))
    child = _of("child", _link(HOME), parent_id="far", severity=Severity.CRITICAL)
    alone = _of("alone", _link(HOME), severity=Severity.WARNING)
    found = job_impacts(_place("h"), [alone, child, far])
    assert [impact.finding.id for impact in found] == ["far", "alone"]
    assert [impact.finding.id for impact in found[0].children] == ["child"]


def test_what_is_only_worth_noting_does_not_make_a_network_unclean() -> None:
    """INFO is listed and does not count; a job that is named in the blast radius is hit wherever that is."""
    (impact,) = job_impacts(_place("h"), [_of("a", _link(HOME), severity=Severity.INFO)])
    assert not impact.is_significant
    named = _of("b", _link(AWAY), blast_radius=BlastRadius(jobs=("train",)), condition=Condition.CONGESTION_INCAST)
    (impact,) = job_impacts(_place("h"), [named])
    assert impact.is_significant and impact.hosts == ()


def test_a_port_is_unseen_when_neither_end_reads_it() -> None:
    """The host's pause is covered by the switch until that ends too; another name of the port is the port."""
    reads = [
        SourceReadings("h", "nic", 60, 0, 1000 * NS, 30 * NS, ((300 * NS, 500 * NS),)),
        SourceReadings("leaf", "gnmi", 40, 0, 400 * NS, 30 * NS, ()),
    ]
    rows = {("h", "mlx5_0"): {"nic": 60}, ("leaf", "1"): {"gnmi": 40}}
    (port,) = job_coverage(_place("h"), reads, rows, {("h", "n"): {"n", "mlx5_0"}}).ports
    assert port.gaps == ((400 * NS, 500 * NS),)
    assert port.share == pytest.approx(0.9)
    assert [(by.source, by.share) for by in port.sources] == [("nic", 0.8), ("gnmi", pytest.approx(0.4))]
    (port,) = job_coverage(_place("h"), reads, {}, {}).ports
    assert (port.share, port.sources) == (0.0, ())
