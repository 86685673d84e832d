"""The schedule sets the version of the inventory of a stage by event time."""

from datetime import UTC, datetime

import pytest

from streams.fabric.inventory import Device, Inventory, Job
from streams.fabric.topology import Topology
from streams.runtime.inventory_versions import InventorySchedule, Versions
from streams.wire import models
from streams.wire.stage import Output
from tests.fakes.stages import WindowStage
from tests.fixtures.runtime_bindings import OUT


def topology(name: str) -> Topology:
    return Topology(Inventory(devices=(Device(name=name, kind="switch", tier="T0"),)), name)


def versions(**effective_ns: int) -> Versions:
    versions = Versions()
    for name, at in effective_ns.items():
        versions.add(at, topology(name))
    return versions


class TopologyStage(WindowStage):
    """Records the topologies that are set."""

    def __init__(self) -> None:
        super().__init__(OUT)
        self.topologies: list[Topology] = []

    def set_topology(self, topology: Topology) -> list[Output]:
        self.topologies.append(topology)
        return super().set_topology(topology)


def test_the_first_version_is_the_one_in_effect_at_the_first_event_else_the_earliest() -> None:
    """Events before the second version use the first one; events before all versions use the earliest."""
    for time_ns, expected in ((15, "a"), (20, "b"), (5, "a"), (None, "b")):
        stage = TopologyStage()
        InventorySchedule(stage, versions(a=10, b=20)).begin(time_ns)
        assert stage.topology_digests == [expected], time_ns


def test_a_version_takes_effect_at_the_watermark_of_the_stage() -> None:
    """Each of several versions takes effect once, in order, when the watermark reaches its time."""
    stage = TopologyStage()
    schedule = InventorySchedule(stage, versions(a=10, b=20, c=25, d=90))
    schedule.begin(12)
    for watermark_ns, expected in ((19, "a"), (20, "ab"), (30, "abc"), (40, "abc")):
        stage.advance_watermark(watermark_ns)
        schedule.due()
        assert "".join(stage.topology_digests) == expected
    assert schedule.next_ns() == 90


def test_without_an_inventory_a_stage_has_an_empty_one_until_the_first_version() -> None:
    """The first version is set when it arrives, by the watermark of the stage."""
    stage, published = TopologyStage(), Versions()
    schedule = InventorySchedule(stage, published)
    schedule.begin(12)
    assert stage.topology_digests == [""]
    published.add(10, topology("a"))
    published.add(50, topology("b"))
    schedule.refresh()
    assert stage.topology_digests == ["", "a"]


def test_a_restored_stage_uses_the_version_of_its_snapshot() -> None:
    """The version of the state is set first, also if newer ones exist; `begin` then changes nothing."""
    stage = TopologyStage()
    schedule = InventorySchedule(stage, versions(a=10, b=20))
    schedule.restore("a")
    schedule.begin(99)
    assert stage.topology_digests == ["a"]
    assert schedule.digest == "a"


def test_a_job_changes_only_the_jobs_of_the_topology() -> None:
    """A published job is in the topology at once, besides those of the folder; a removed job is not in it."""
    stage, published = TopologyStage(), versions(a=10)
    schedule = InventorySchedule(stage, published)
    schedule.begin(12)
    published.set_job("j/a", models.Job("j", "a", 5 * 10**9, 9 * 10**9))
    schedule.refresh()
    schedule.refresh()
    assert stage.topologies[-1].jobs_on(["a"], 6 * 10**9) == ("j",)
    assert stage.topologies[-1].jobs_on(["a"], 9 * 10**9) == ()
    assert stage.topologies[0].jobs == ()
    published.set_job("j/a", None)
    schedule.refresh()
    assert stage.topologies[-1].jobs == ()
    assert stage.topology_digests == ["a", "a", "a"]


def test_a_published_job_replaces_its_row_in_the_folder() -> None:
    """The folder's row of a job on a device is ignored if the job is published."""
    published = Versions()
    row = Job(job="j", device="a", start=datetime(2026, 1, 1, tzinfo=UTC))
    devices = (Device(name="a", kind="host", tier="host"),)
    published.add(1, Topology(Inventory(devices=devices, jobs=(row,)), "x"))
    published.set_job("j/a", models.Job("j", "a", 5))
    found = published.at(2)
    assert found is not None and len(found[1].jobs) == 1


@pytest.mark.parametrize(
    ("node", "host"),
    [
        ("P1-H1.dc.example.net", "p1-h1"), ("p1-h1", "p1-h1"), ("GPU-A", "gpu-a.dc.example.net"),
        ("twin", "twin"), ("slinky-0", "slinky-0"),
    ],
)  # fmt: skip
def test_a_name_of_a_node_may_differ_in_case_and_domain(node: str, host: str) -> None:
    """A name that fits no host, or two, is an unknown host while a job runs there."""
    published = Versions()
    names = ("p1-h1", "gpu-a.dc.example.net", "twin.a", "twin.b")
    devices = tuple(Device(name=name, kind="host", tier="host") for name in names)
    published.add(1, Topology(Inventory(devices=devices), "x"))
    published.set_job(f"j/{node}", models.Job("j", node, 5))
    published.set_job("k/old-host", models.Job("k", "old-host", 5, 6))
    found = published.at(2)
    assert found is not None
    assert found[1].jobs_on([host], 10) == ("j",)
    assert found[1].jobs_on_unknown_hosts(10) == (() if host in names else ("j",))


def test_jobs_on_unknown_hosts_are_logged_once_for_each_version(caplog: pytest.LogCaptureFixture) -> None:
    """Two versions are joined in turn with each change of a job; only another unknown host is news."""
    published = versions(a=1, b=5)
    for n, hosts in enumerate((["x"], ["x"], ["x", "y"])):
        for host in hosts:
            published.set_job(f"j{n}/{host}", models.Job(f"j{n}", host, 5))
        for at in (2, 6):
            assert published.at(at) is not None
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "jobs run on 1 hosts that the inventory lacks (x)", "jobs run on 1 hosts that the inventory lacks (x)",
        "jobs run on 2 hosts that the inventory lacks (x, y)", "jobs run on 2 hosts that the inventory lacks (x, y)",
    ]  # fmt: skip


def test_the_same_version_published_again_moves_to_its_new_time() -> None:
    """One digest is one version: if it is published again, the newer effective time counts."""
    published = versions(a=10, b=20)
    published.add(30, topology("a"))
    assert [found[1].digest for at in (25, 35) if (found := published.at(at))] == ["b", "a"]
