"""One root cause for many symptoms: findings and pages when a switch, plane, pod, host or line card fails.

Runs all four stages and the notifier's rule; devices are read at different times, late and out of order.
"""

import random
from datetime import UTC, datetime
from functools import cache

import pytest

from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Finding, Severity
from tests.worlds.observations import after
from tests.worlds.paging import PagedPipeline, PublishedFindings, arrivals
from tests.worlds.small_world import Seconds, SmallWorld

SINCE = datetime(1970, 1, 1, tzinfo=UTC)
ALWAYS = [(-1e9, 1e9)]
OUTAGE = (150.0, 300.0)
UNTIL = 480.0


@cache
def one_plane() -> Topology:
    """Return 64 busy hosts of 8 rails, each rail on its own leaf: a leaf has 64 ports down and 64 up."""
    return Topology(generate(GenerateParams(gpus=512, radix=128, jobs_start=SINCE)))


@cache
def two_planes() -> Topology:
    """Return 64 busy hosts of 4 rails on two planes, in four pods, below three tiers."""
    params = GenerateParams(gpus=256, radix=16, planes=2, rails=4, gpus_per_host=4, jobs_start=SINCE)
    return Topology(generate(params))


def _run(world: SmallWorld, seed: int, *, around: tuple[str, ...] = (), until: float = UNTIL) -> PublishedFindings:
    """Return the findings and pages; `around` limits reading to these devices and their neighbors."""
    read = {end.device for own in around for c in world.topology.links_of[own] for end in (c.lower, c.upper)}
    return PagedPipeline(world.topology).run(arrivals(world, until, random.Random(seed), read), until)


def _reboot(top: Topology, device: str, seed: int, *, is_read: bool) -> SmallWorld:
    """Return a world in which a switch is down for 150 s, and each port then flaps four times before it stays up."""
    chance = random.Random(seed)
    down: dict[str, list[Seconds]] = {}
    for link in top.links_of[device]:
        own = link.lower if link.lower.device == device else link.upper
        t, spans = OUTAGE[1] + chance.uniform(0, 8), []
        for _ in range(4):
            lasting = chance.uniform(1, 4)
            spans.append((t, t + lasting))
            t += lasting + chance.uniform(1, 6)
        down[f"{device}/{own.port}"] = spans
    unread = {} if is_read else {device: list(ALWAYS)}
    return SmallWorld(topology=top, offline={device: [OUTAGE]}, boots={device: OUTAGE[1]}, down=down, not_polled=unread)


def _is_one_incident(published: PublishedFindings, subject: str) -> Finding:
    """Assert that all findings have one root, and that at most one page was sent; return the root."""
    (root,) = published.roots
    assert root.subject.id == subject
    assert len(published.children(root)) == len(published.last) - 1
    assert len(published.pages) <= 1
    assert {f.id for f in published.paged} <= {root.id}
    return root


@pytest.mark.parametrize(("is_read", "seed"), [(True, 1), (False, 2)], ids=["read", "unread"])
def test_a_leaf_that_restarts_is_one_incident(is_read: bool, seed: int) -> None:
    """128 links flap, 64 of them the only link of a busy host's rail: one root finding, and one page at most."""
    leaf = "pod-01-t0-p0-r0-01"
    published = _run(_reboot(one_plane(), leaf, seed, is_read=is_read), seed)
    root = _is_one_incident(published, f"device:{leaf}")
    assert (root.condition, root.cause) == (Condition.DEVICE_DOWN, Cause.REBOOT if is_read else Cause.UNKNOWN)
    links = [f for f in published.last if f.condition in (Condition.LINK_DOWN, Condition.LINK_FLAP)]
    assert len({f.subject.id for f in links}) == 128
    assert any(f.severity is Severity.CRITICAL for f in links)
    assert root.blast_radius is not None
    assert (len(root.blast_radius.hosts), root.blast_radius.capacity_lost_ratio) == (64, 0.125)
    assert len(root.blast_radius.jobs) > 0


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unread"])
def test_a_spine_that_restarts_is_one_incident_over_several_pods(is_read: bool) -> None:
    """The findings of links of all four pods are its children."""
    spine = next(name for name, device in two_planes().devices.items() if device.tier == "T2")
    published = _run(_reboot(two_planes(), spine, 3, is_read=is_read), 3, around=(spine,))
    root = _is_one_incident(published, f"device:{spine}")
    assert len({f.subject.pod for f in published.children(root) if f.subject.z is not None}) == 4


def test_a_plane_that_is_lost_is_one_incident_and_degraded_not_down() -> None:
    """All 80 switches of plane 0 go down: each host keeps half of its capacity and all of its rails."""
    top = two_planes()
    switches = [name for name, device in top.devices.items() if device.plane == 0 and device.kind == "switch"]
    world = SmallWorld(
        topology=top, offline={name: [OUTAGE] for name in switches}, boots=dict.fromkeys(switches, OUTAGE[1])
    )
    published = _run(world, 4)
    (root,) = published.roots
    assert len(published.pages) == 1
    assert root.id in published.pages
    assert f"80 of {len(switches)} switches of plane 0 went down" in root.summary
    assert root.blast_radius is not None
    assert (len(root.blast_radius.hosts), root.blast_radius.capacity_lost_ratio) == (64, 0.5)
    (statement,) = [e.statement for e in root.evidence if e.metric == "capacity"]
    assert statement == (
        "64 hosts lose 50% of what they have, 50% of the fabric (100% of plane 0);"
        " every rail keeps a plane: degraded, not down"
    )


def test_a_pod_without_power_is_one_incident() -> None:
    """Its 48 devices are off, and only devices that are connected to it report that: one page."""
    top = two_planes()
    members = [name for name, device in top.devices.items() if device.pod == "pod-02"]
    published = _run(SmallWorld(topology=top, offline={name: [OUTAGE] for name in members}), 5)
    (root,) = published.roots
    assert set(published.pages) == {root.id}
    assert f"{len(members)} of {len(members)} devices of pod pod-02" in root.summary
    assert (root.subject.pod, root.cause) == ("pod-02", Cause.POD)


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "unread"])
def test_a_host_that_is_lost_is_one_incident(is_read: bool) -> None:
    """Both planes of all its rails are lost: eight links without another plane, and none of them pages."""
    host = "host-00007"
    unread = {} if is_read else {host: list(ALWAYS)}
    world = SmallWorld(topology=two_planes(), offline={host: [OUTAGE]}, not_polled=unread)
    published = _run(world, 6, around=(host,))
    root = _is_one_incident(published, f"device:{host}")
    assert published.pages == {}
    assert sum(f.condition is Condition.LINK_DOWN for f in published.children(root)) == 8
    (statement,) = [e.statement for e in root.evidence if e.metric == "capacity"]
    assert statement.endswith("4 of its rails keep no plane: down")


def test_hosts_report_a_leaf_down_while_no_switch_is_read() -> None:
    """Half of its links end at spines that are not read; the outage starts with its links, not with the silence."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    switches = [name for name, device in top.devices.items() if device.kind == "switch"]
    world = SmallWorld(
        topology=top, offline={leaf: [(330.0, 480.0)]}, not_polled={name: [(90.0, 1e9)] for name in switches}
    )
    published = _run(world, 8, around=(leaf,), until=660.0)
    (root,) = [f for f in published.roots if f.condition is not Condition.TELEMETRY_STALE]
    assert (root.condition, root.subject.id) == (Condition.DEVICE_DOWN, f"device:{leaf}")
    assert after(root.started_at_ns) == pytest.approx(330, abs=10)
    assert len([f for f in published.children(root) if f.condition is Condition.LINK_DOWN]) == 64
    assert "of 64 links" in root.evidence[0].statement


def test_a_line_card_is_one_incident_without_a_new_subject() -> None:
    """A quarter of a leaf's ports go down at once: the first is the root, and the leaf is not reported down."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    ports = [(c.lower if c.lower.device == leaf else c.upper).port for c in top.links_of[leaf]][:32]
    published = _run(SmallWorld(topology=top, down={f"{leaf}/{port}": [OUTAGE] for port in ports}), 7)
    (root,) = published.roots
    assert (root.condition, root.cause) == (Condition.LINK_DOWN, Cause.SWITCH)
    assert len(published.children(root)) == 31
    assert len(published.pages) == 1
    assert root.summary.startswith(f"32 of 128 links of {leaf} went down within")


def test_two_links_at_once_are_two_findings() -> None:
    """Two losses may be independent: each is a finding of its own."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    ports = [(c.lower if c.lower.device == leaf else c.upper).port for c in top.links_of[leaf]][:2]
    published = _run(SmallWorld(topology=top, down={f"{leaf}/{port}": [OUTAGE] for port in ports}), 8, around=(leaf,))
    assert len(published.roots) == len(published.last) == 2


def test_a_link_that_stays_down_after_the_restart_pages_later() -> None:
    """The leaf is up and one port is not: it may train for 300 s, then it has a fault of its own."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    link = top.links_of[leaf][0]
    own = link.lower if link.lower.device == leaf else link.upper
    world = SmallWorld(
        topology=top, offline={leaf: [(150, 200)]}, boots={leaf: 200}, down={f"{leaf}/{own.port}": [(150, 1e9)]}
    )  # fmt: skip
    published = _run(world, 9, around=(leaf,), until=560)
    (remaining,) = [f for f in published.last if f.subject.id == link.id and f.condition is Condition.LINK_DOWN]
    assert remaining.parent_id == ""
    assert 500 < published.pages[remaining.id] < 540
    explained = [f for f in published.revisions if f.id == remaining.id and f.parent_id]
    assert explained, "the restart explains it until then"


def test_a_link_with_an_unread_end_keeps_its_parent() -> None:
    """The host reported its link down with the leaf, and was not read again until long after the leaf was up."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    link = next(c for c in top.links_of[leaf] if c.lower.device != leaf)
    world = SmallWorld(
        topology=top, offline={leaf: [(150, 200)]}, boots={leaf: 200}, not_polled={link.lower.device: [(170, 530)]}
    )
    published = _run(world, 10, around=(leaf,), until=545)
    (down,) = [f for f in published.last if f.subject.id == link.id and f.condition is Condition.LINK_DOWN]
    assert down.parent_id
    assert down.id not in published.pages
