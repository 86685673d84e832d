"""One cause for many symptoms: what a person is called for when a switch, a plane, a pod, a host or a card goes.

Through all four stages and the notifier's rule, with devices read at their own moments, late and out of order.
"""

import random
from datetime import UTC, datetime
from functools import cache

import pytest

from streams.fabric.topology import Topology
from streams.simulation.clos import GenerateParams, generate
from streams.wire.models import Cause, Condition, Finding, Severity
from tests.worlds.observations import after
from tests.worlds.paging import PagedPipeline, PublishedFindings, arrivals
from tests.worlds.small_world import Seconds, SmallWorld

SINCE = datetime(1970, 1, 1, tzinfo=UTC)
ALWAYS = [(-1e9, 1e9)]
GONE = (150.0, 300.0)
UNTIL = 480.0


@cache
def one_plane() -> Topology:
    """64 busy hosts of 8 rails, each on a leaf of its own: a leaf has 64 ports down and 64 up."""
    return Topology(generate(GenerateParams(gpus=512, radix=128, jobs_start=SINCE)))


@cache
def two_planes() -> Topology:
    """64 busy hosts of 4 rails on two planes, in four pods, below three tiers."""
    params = GenerateParams(gpus=256, radix=16, planes=2, rails=4, gpus_per_host=4, jobs_start=SINCE)
    return Topology(generate(params))


def _heard(world: SmallWorld, seed: int, *, around: tuple[str, ...] = (), until: float = UNTIL) -> PublishedFindings:
    """What is said and who is paged; read are these devices and their neighbours, else all."""
    read = {end.device for own in around for c in world.topology.links_of[own] for end in (c.lower, c.upper)}
    return PagedPipeline(world.topology).run(arrivals(world, until, random.Random(seed), read), until)


def _reboot(top: Topology, device: str, seed: int, *, is_read: bool) -> SmallWorld:
    """A switch is away for 150 s; after it every port comes and goes four times before it stays."""
    chance = random.Random(seed)
    down: dict[str, list[Seconds]] = {}
    for cable in top.links_of[device]:
        own = cable.lower if cable.lower.device == device else cable.upper
        t, spans = GONE[1] + chance.uniform(0, 8), []
        for _ in range(4):
            lasting = chance.uniform(1, 4)
            spans.append((t, t + lasting))
            t += lasting + chance.uniform(1, 6)
        down[f"{device}/{own.port}"] = spans
    unread = {} if is_read else {device: list(ALWAYS)}
    return SmallWorld(topology=top, offline={device: [GONE]}, boots={device: GONE[1]}, down=down, not_polled=unread)


def _is_one_incident(heard: PublishedFindings, subject: str) -> Finding:
    """All that was found has one cause, and one person was called at most."""
    (root,) = heard.alone
    assert root.subject.id == subject
    assert len(heard.children(root)) == len(heard.last) - 1
    assert len(heard.pages) <= 1
    assert {f.id for f in heard.paged} <= {root.id}
    return root


@pytest.mark.parametrize(("is_read", "seed"), [(True, 1), (False, 2)], ids=["read", "nobody reads it"])
def test_a_leaf_that_restarts_is_one_incident(is_read: bool, seed: int) -> None:
    """128 links flap, 64 of them the only way of a busy host's rail: one finding explains all, one page at most."""
    leaf = "pod-01-t0-p0-r0-01"
    heard = _heard(_reboot(one_plane(), leaf, seed, is_read=is_read), seed)
    root = _is_one_incident(heard, f"device:{leaf}")
    assert (root.condition, root.cause) == (Condition.DEVICE_DOWN, Cause.REBOOT if is_read else Cause.UNKNOWN)
    links = [f for f in heard.last if f.condition in (Condition.LINK_DOWN, Condition.LINK_FLAP)]
    assert len({f.subject.id for f in links}) == 128
    assert any(f.severity is Severity.CRITICAL for f in links)
    assert root.blast_radius is not None
    assert (len(root.blast_radius.hosts), root.blast_radius.capacity_lost_ratio) == (64, 0.125)
    assert len(root.blast_radius.jobs) > 0


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "nobody reads it"])
def test_a_spine_that_restarts_is_one_incident_over_several_pods(is_read: bool) -> None:
    """Links of all four pods are its children."""
    spine = next(name for name, device in two_planes().devices.items() if device.tier == "T2")
    heard = _heard(_reboot(two_planes(), spine, 3, is_read=is_read), 3, around=(spine,))
    root = _is_one_incident(heard, f"device:{spine}")
    assert len({f.subject.pod for f in heard.children(root) if f.subject.z is not None}) == 4


def test_a_plane_that_is_lost_is_one_incident_and_degraded_not_down() -> None:
    """All 80 switches of plane 0 go: each host keeps half of its capacity and all of its rails."""
    top = two_planes()
    switches = [name for name, device in top.devices.items() if device.plane == 0 and device.kind == "switch"]
    world = SmallWorld(
        topology=top, offline={name: [GONE] for name in switches}, boots=dict.fromkeys(switches, GONE[1])
    )
    heard = _heard(world, 4)
    (root,) = heard.alone
    assert len(heard.pages) == 1
    assert root.id in heard.pages
    assert f"80 of {len(switches)} switches of plane 0 went down" in root.summary
    assert root.blast_radius is not None
    assert (len(root.blast_radius.hosts), root.blast_radius.capacity_lost_ratio) == (64, 0.5)
    (said,) = [e.statement for e in root.evidence if e.metric == "capacity"]
    assert said == (
        "64 hosts lose 50% of what they have, 50% of the fabric (100% of plane 0);"
        " every rail keeps a plane: degraded, not down"
    )


def test_a_pod_without_power_is_one_incident() -> None:
    """Its 48 devices are dark, and only what hangs on it from outside tells: one page."""
    top = two_planes()
    members = [name for name, device in top.devices.items() if device.pod == "pod-02"]
    heard = _heard(SmallWorld(topology=top, offline={name: [GONE] for name in members}), 5)
    (root,) = heard.alone
    assert set(heard.pages) == {root.id}
    assert f"{len(members)} of {len(members)} devices of pod pod-02" in root.summary
    assert (root.subject.pod, root.cause) == ("pod-02", Cause.POD)


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "nobody reads it"])
def test_a_host_that_is_lost_is_one_incident(is_read: bool) -> None:
    """Both planes of all its rails: eight links without another plane, and none of them calls a person."""
    host = "host-00007"
    unread = {} if is_read else {host: list(ALWAYS)}
    world = SmallWorld(topology=two_planes(), offline={host: [GONE]}, not_polled=unread)
    heard = _heard(world, 6, around=(host,))
    root = _is_one_incident(heard, f"device:{host}")
    assert heard.pages == {}
    assert sum(f.condition is Condition.LINK_DOWN for f in heard.children(root)) == 8
    (said,) = [e.statement for e in root.evidence if e.metric == "capacity"]
    assert said.endswith("4 of its rails keep no plane: down")


def test_a_leaf_that_goes_while_no_switch_is_read_is_told_by_its_hosts() -> None:
    """Half of its links end at spines that nobody reads either; it went with its links, not when reading ended."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    switches = [name for name, device in top.devices.items() if device.kind == "switch"]
    world = SmallWorld(
        topology=top, offline={leaf: [(330.0, 480.0)]}, not_polled={name: [(90.0, 1e9)] for name in switches}
    )
    heard = _heard(world, 8, around=(leaf,), until=660.0)
    (root,) = [f for f in heard.alone if f.condition is not Condition.TELEMETRY_STALE]
    assert (root.condition, root.subject.id) == (Condition.DEVICE_DOWN, f"device:{leaf}")
    assert after(root.started_at_ns) == pytest.approx(330, abs=10)
    assert len([f for f in heard.children(root) if f.condition is Condition.LINK_DOWN]) == 64
    assert "of 64 links" in root.evidence[0].statement


def test_a_line_card_is_one_incident_without_a_new_subject() -> None:
    """A quarter of a leaf's ports at once: the first of them stands for all, and the leaf is not called down."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    ports = [(c.lower if c.lower.device == leaf else c.upper).port for c in top.links_of[leaf]][:32]
    heard = _heard(SmallWorld(topology=top, down={f"{leaf}/{port}": [GONE] for port in ports}), 7)
    (root,) = heard.alone
    assert (root.condition, root.cause) == (Condition.LINK_DOWN, Cause.SWITCH)
    assert len(heard.children(root)) == 31
    assert len(heard.pages) == 1
    assert root.summary.startswith(f"32 of 128 links of {leaf} went down within")


def test_two_links_at_once_are_two_findings() -> None:
    """Chance may do that; each is looked at by itself."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    ports = [(c.lower if c.lower.device == leaf else c.upper).port for c in top.links_of[leaf]][:2]
    heard = _heard(SmallWorld(topology=top, down={f"{leaf}/{port}": [GONE] for port in ports}), 8, around=(leaf,))
    assert len(heard.alone) == len(heard.last) == 2


def test_a_link_that_stays_down_after_the_restart_is_called_for_later() -> None:
    """The leaf is back and one port is not: for 300 s it may still train, then it has a fault of its own."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    cable = top.links_of[leaf][0]
    own = cable.lower if cable.lower.device == leaf else cable.upper
    world = SmallWorld(
        topology=top, offline={leaf: [(150, 200)]}, boots={leaf: 200}, down={f"{leaf}/{own.port}": [(150, 1e9)]}
    )  # fmt: skip
    heard = _heard(world, 9, around=(leaf,), until=560)
    (stays,) = [f for f in heard.last if f.subject.id == cable.id and f.condition is Condition.LINK_DOWN]
    assert stays.parent_id == ""
    assert 500 < heard.pages[stays.id] < 540
    before = [f for f in heard.revisions if f.id == stays.id and f.parent_id]
    assert before, "until then the restart explains it"


def test_a_link_whose_far_end_nobody_reads_has_no_fault_of_its_own_yet() -> None:
    """The host told that its link went with the leaf, and was not read again until long after the leaf was back."""
    top, leaf = one_plane(), "pod-01-t0-p0-r0-01"
    cable = next(c for c in top.links_of[leaf] if c.lower.device != leaf)
    world = SmallWorld(
        topology=top, offline={leaf: [(150, 200)]}, boots={leaf: 200}, not_polled={cable.lower.device: [(170, 530)]}
    )
    heard = _heard(world, 10, around=(leaf,), until=545)
    (down,) = [f for f in heard.last if f.subject.id == cable.id and f.condition is Condition.LINK_DOWN]
    assert down.parent_id
    assert down.id not in heard.pages
