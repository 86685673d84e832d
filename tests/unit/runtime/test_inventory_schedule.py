"""Which version of the inventory a stage works with."""

from datetime import UTC, datetime

from streams.fabric.inventory import Device, Inventory, Job
from streams.fabric.topology import Topology
from streams.runtime.inventory_schedule import InventorySchedule
from streams.runtime.versions import Versions
from streams.wire import models
from streams.wire.stage import Output
from tests.fakes.stages import WindowStage
from tests.fixtures.runtime_bindings import OUT


def topology(name: str) -> Topology:
    return Topology(Inventory(devices=(Device(name=name, kind="switch", tier="T0"),)), name)


def versions(**effective_ns: int) -> Versions:
    made = Versions()
    for name, at in effective_ns.items():
        made.add(at, topology(name))
    return made


class Adopting(WindowStage):
    """Keeps what it adopted."""

    def __init__(self) -> None:
        super().__init__(OUT)
        self.topologies: list[Topology] = []

    def set_topology(self, topology: Topology) -> list[Output]:
        self.topologies.append(topology)
        return super().set_topology(topology)


def test_the_first_is_what_was_in_effect_at_the_first_event_else_the_earliest() -> None:
    """A log that begins before the second version is read under the first, one older than all under the earliest."""
    for time_ns, expected in ((15, "a"), (20, "b"), (5, "a"), (None, "b")):
        stage = Adopting()
        InventorySchedule(stage, versions(a=10, b=20)).begin(time_ns)
        assert stage.adopted == [expected], time_ns


def test_a_version_waits_for_the_stages_watermark() -> None:
    """A version takes effect when the watermark reaches its time, each of several in turn, and once."""
    stage = Adopting()
    effect = InventorySchedule(stage, versions(a=10, b=20, c=25, d=90))
    effect.begin(12)
    for watermark_ns, expected in ((19, "a"), (20, "ab"), (30, "abc"), (40, "abc")):
        stage.advance_watermark(watermark_ns)
        effect.due()
        assert "".join(stage.adopted) == expected
    assert effect.next_ns() == 90


def test_without_an_inventory_a_stage_is_told_so_and_takes_the_first_that_comes() -> None:
    """The first version of all is adopted when it comes, by the time that the stage has reached."""
    stage, known = Adopting(), Versions()
    effect = InventorySchedule(stage, known)
    effect.begin(12)
    assert stage.adopted == [""]
    known.add(10, topology("a"))
    known.add(50, topology("b"))
    effect.refresh()
    assert stage.adopted == ["", "a"]


def test_a_restored_stage_has_the_version_of_its_snapshot() -> None:
    """What the state was made under is adopted first, whatever is newer; `begin` then has nothing to do."""
    stage = Adopting()
    effect = InventorySchedule(stage, versions(a=10, b=20))
    effect.restore("a")
    effect.begin(99)
    assert stage.adopted == ["a"]
    assert effect.digest == "a"


def test_a_job_changes_the_jobs_and_nothing_else() -> None:
    """A job that is published is in the topology at once, beside those of the folder; one taken back is gone."""
    stage, known = Adopting(), versions(a=10)
    effect = InventorySchedule(stage, known)
    effect.begin(12)
    known.set_job("j/a", models.Job("j", "a", 5 * 10**9, 9 * 10**9))
    effect.refresh()
    effect.refresh()
    assert stage.topologies[-1].jobs_on(["a"], 6 * 10**9) == ("j",)
    assert stage.topologies[-1].jobs_on(["a"], 9 * 10**9) == ()
    assert stage.topologies[0].jobs == ()
    known.set_job("j/a", None)
    effect.refresh()
    assert stage.topologies[-1].jobs == ()
    assert stage.adopted == ["a", "a", "a"]


def test_a_published_job_replaces_the_folders_row_of_it() -> None:
    """The folder's row of a job on a device gives way to what was published of it."""
    known = Versions()
    row = Job(job="j", device="a", start=datetime(2026, 1, 1, tzinfo=UTC))
    devices = (Device(name="a", kind="host", tier="host"),)
    known.add(1, Topology(Inventory(devices=devices, jobs=(row,)), "x"))
    known.set_job("j/a", models.Job("j", "a", 5))
    found = known.at(2)
    assert found is not None and len(found[1].jobs) == 1


def test_the_same_version_published_again_moves_to_its_new_time() -> None:
    """One digest is one version: published with another effective time, the newer one holds."""
    known = versions(a=10, b=20)
    known.add(30, topology("a"))
    assert [found[1].digest for at in (25, 35) if (found := known.at(at))] == ["b", "a"]
