"""Tests the automation of hosts against a real Slurm on loopback (`make peers` installs it)."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from railsight_automation.plan import Parts
from railsight_automation.slurm import SlurmHosts, SlurmParams
from railsight_automation.slurm_reboot import SlurmReboot

from tests.fixtures.automation import Fuse, RecordedAnswers, act, process, remediation
from tests.fixtures.slurm import NODES, Slurm, cluster
from tests.fixtures.waiting import until

pytestmark = pytest.mark.timeout(240)
TARGET = {"id": "device:pod1-host1", "a": {"device": "pod1-host1"}, "role": "device"}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Yield a cluster for all tests of this module."""
    with cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


class Hosts:
    """The automation of hosts on a real cluster, with a journal of its own for each test."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self.slurm = slurm
        self.path = folder / "journal.jsonl"
        self.sent = RecordedAnswers()
        self.params = SlurmParams(nodes={"pod1-host1": "h1"}, timeout_s=20, idle_s=2, reboot_s=30)

    async def act(self, identity: str, action: str, fuse: Fuse | None = None, **more: Any) -> list[str]:
        """Carry out a remediation in a new process; return its outcomes."""
        order = remediation(identity, action, target=TARGET, **more)
        return await act(self.path, self.parts, self.sent, order, fuse)

    async def watch(self) -> list[tuple[str, str]]:
        """Read back in a new process; return the ids and outcomes that it sends."""
        before = len(self.sent.sent)
        with process(self.path, self.parts, self.sent) as engine:
            await engine.check_changes()
            await engine.check_changes()
        return [(identity, outcome) for identity, outcome, _ in self.sent.sent[before:]]

    @property
    def parts(self) -> Parts:
        """Return the parts of the automation."""
        hosts = SlurmHosts(self.params)
        return Parts([hosts, SlurmReboot(self.params, hosts, time.time_ns)])


@pytest.fixture
def hosts(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    """Yield an automation on a cluster whose nodes are idle, and resume them afterwards."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    yield Hosts(slurm, tmp_path)
    for node in NODES:
        if "DRAIN" in slurm.state(node):
            slurm.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        slurm.until(node, "IDLE")


async def test_a_cordoned_host_is_drained_with_our_reason_and_resumed(hosts: Hosts) -> None:
    """`sinfo -R` shows the remediation and its reason; the other node is untouched."""
    assert await hosts.act("r1", "CORDON_HOST", reason='GPU "off the bus"') == ["ACCEPTED", "DONE"]
    assert hosts.slurm.state("h1") == "IDLE+DRAIN" and hosts.slurm.state("h0") == "IDLE"
    assert hosts.slurm.reasons() == {"h1": "railsight r1 GPU off the bus"}
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]
    assert "DRAIN" not in hosts.slurm.state("h1") and hosts.slurm.reasons() == {}


async def test_a_job_on_a_cordoned_host_goes_on(hosts: Hosts) -> None:
    """The node is draining until the job ends."""
    job = hosts.slurm.run("sbatch", "--parsable", "-w", "h1", "-o", "/dev/null", "--wrap", "sleep 60")
    hosts.slurm.until("h1", "MIXED")
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    assert hosts.slurm.state("h1") == "MIXED+DRAIN"
    assert hosts.slurm.run("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"
    hosts.slurm.run("scancel", job)
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]


async def test_another_partys_drain_is_neither_taken_over_nor_undone(hosts: Hosts) -> None:
    """The reason of a person remains, before and after our own drain."""
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=DRAIN", "Reason=fan is loud")
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert hosts.sent.detail("r1") == "node h1 is drained already: fan is loud; nothing was changed"
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert hosts.slurm.reasons() == {"h1": "fan is loud"}
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=RESUME")
    hosts.slurm.until("h1", "IDLE")
    assert await hosts.act("r3", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=DRAIN", "Reason=I take over")
    assert await hosts.act("r4", "UNCORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert "remains out of use: not by a change of this automation" in hosts.sent.detail("r4")
    assert hosts.slurm.reasons() == {"h1": "I take over"}


async def test_a_node_that_failed_while_it_was_drained_is_not_brought_into_service(hosts: Hosts) -> None:
    """Only the drain is undone; that it is down is another party's decision."""
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=DOWN", "Reason=railsight r1 repeated flaps")
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=DRAIN", "Reason=railsight r1 repeated flaps")
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]
    assert hosts.slurm.state("h1").startswith("DOWN") and "DRAIN" not in hosts.slurm.state("h1")
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=RESUME")


async def test_an_unknown_node_fails(hosts: Hosts) -> None:
    """The detail names the setting."""
    hosts.params = SlurmParams()
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert "node pod1-host1 not found; name it in slurm.nodes" in hosts.sent.detail("r1")


async def restart(hosts: Hosts, count: int) -> None:
    """Restart node h1 as its reboot would, as soon as its RebootProgram has run for the nth time.

    As a real restart, it takes longer than the seconds by which Slurm's time of a start varies.
    """
    slurm = hosts.slurm
    await until(lambda: slurm.reboots.count("h1") >= count and slurm.reboot_age_s() >= 5, 60, 0.1)
    await asyncio.to_thread(hosts.slurm.stop_node, "h1")
    hosts.slurm.start_node("h1", "-b")


async def test_a_host_is_restarted_and_stays_drained_until_it_is_uncordoned(hosts: Hosts) -> None:
    """The cordon of a decision before it remains, with its reason; the restart is seen by the time of the start."""
    count = len(hosts.slurm.reboots)
    assert await hosts.act("r1", "CORDON_HOST", reason="GPU off the bus") == ["ACCEPTED", "DONE"]
    outcomes, _ = await asyncio.gather(hosts.act("r2", "REBOOT_HOST"), restart(hosts, count + 1))
    assert outcomes == ["ACCEPTED", "DONE"] and hosts.slurm.reboots[count:] == ["h1"]
    assert hosts.sent.detail("r2").startswith("node h1 restarted: 20")
    assert hosts.slurm.state("h1").startswith("IDLE+DRAIN")
    assert hosts.slurm.reasons()["h1"].startswith("railsight r1 GPU off the bus")
    assert await hosts.act("r3", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]
    assert "DRAIN" not in hosts.slurm.state("h1")


async def test_a_host_that_is_not_cordoned_is_cordoned_for_its_restart(hosts: Hosts) -> None:
    """A policy may restart a host at once; the cordon stays until the host qualified."""
    count = len(hosts.slurm.reboots)
    outcomes, _ = await asyncio.gather(hosts.act("r1", "REBOOT_HOST"), restart(hosts, count + 1))
    assert outcomes == ["ACCEPTED", "DONE"] and hosts.slurm.state("h1").startswith("IDLE+DRAIN")
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]


async def test_a_host_with_a_job_is_not_restarted(hosts: Hosts) -> None:
    """Its drain is undone, and the job goes on."""
    count = len(hosts.slurm.reboots)
    job = hosts.slurm.run("sbatch", "--parsable", "-w", "h1", "-o", "/dev/null", "--wrap", "sleep 60")
    hosts.slurm.until("h1", "MIXED")
    assert await hosts.act("r1", "REBOOT_HOST") == ["ACCEPTED", "FAILED"]
    assert hosts.sent.detail("r1") == "not idle: node h1 is DRAIN+MIXED; every change was undone"
    assert (
        hosts.slurm.state("h1").split("+")[0] == "MIXED"
        and "DRAIN" not in hosts.slurm.state("h1")
        and len(hosts.slurm.reboots) == count
    )
    assert hosts.slurm.run("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"
    hosts.slurm.run("scancel", job)


async def test_another_partys_drain_is_not_restarted(hosts: Hosts) -> None:
    """A person works on the host."""
    count = len(hosts.slurm.reboots)
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=DRAIN", "Reason=fan is loud")
    assert await hosts.act("r1", "REBOOT_HOST") == ["ACCEPTED", "FAILED"]
    assert hosts.sent.detail("r1") == "node h1 is drained already: fan is loud; nothing was changed"
    assert len(hosts.slurm.reboots) == count


async def test_a_node_that_does_not_come_back_is_a_failed_restart(hosts: Hosts) -> None:
    """Its state is the detail; Slurm has it down, and the end of the drain does not bring it into service."""
    hosts.params = replace(hosts.params, reboot_s=3)
    count = len(hosts.slurm.reboots)
    assert await hosts.act("r1", "REBOOT_HOST") == ["ACCEPTED", "FAILED"]
    assert hosts.slurm.reboots[count:] == ["h1"]
    assert "no restart within 3 s: node h1 is DOWN+DRAIN+REBOOT_ISSUED" in hosts.sent.detail("r1")
    assert hosts.slurm.state("h1").startswith("DOWN")
    await restart(hosts, count + 1)


async def test_a_crash_during_a_restart_restarts_once(hosts: Hosts) -> None:
    """Killed when Slurm has the order, and begun again while the node is away: the answer is that it is restarted."""
    count = len(hosts.slurm.reboots)
    killed = asyncio.create_task(hosts.act("r1", "REBOOT_HOST"))
    await until(lambda: len(hosts.slurm.reboots) > count, 60, 0.05)
    killed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killed
    outcomes, _ = await asyncio.gather(hosts.act("r1", "REBOOT_HOST"), restart(hosts, count + 1))
    assert outcomes == ["ACCEPTED", "DONE"] and hosts.slurm.reboots[count:] == ["h1"]
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]


@pytest.mark.parametrize("reason", ["railsight", "railsight r1 fan is broken", "railsight maintenance by anna"])
async def test_a_drain_of_a_person_gets_no_reboot_whatever_its_reason(hosts: Hosts, reason: str) -> None:
    """The journal has no drain of this node, so that the reason proves nothing."""
    count = len(hosts.slurm.reboots)
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=DRAIN", f"Reason={reason}")
    assert await hosts.act("r1", "REBOOT_HOST") == ["ACCEPTED", "FAILED"]
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert len(hosts.slurm.reboots) == count and hosts.slurm.reasons()["h1"] == reason


async def test_a_second_mark_of_a_person_wins(hosts: Hosts) -> None:
    """A person drains a node that is drained already: it is neither resumed nor reported as returned."""
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=DRAIN", "Reason=railsight r1 and the fan (anna)")
    assert await hosts.watch() == []
    assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "FAILED"]
    assert hosts.slurm.reasons()["h1"] == "railsight r1 and the fan (anna)"


async def test_a_node_that_a_person_resumes_is_reported(hosts: Hosts) -> None:
    """EXTERNAL, once; the next cordon is a new one."""
    assert await hosts.act("r1", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    hosts.slurm.run("scontrol", "update", "NodeName=h1", "State=RESUME")
    assert await hosts.watch() == [("r1", "EXTERNAL")]
    assert await hosts.watch() == []
    assert await hosts.act("r2", "CORDON_HOST") == ["ACCEPTED", "DONE"]
    assert hosts.slurm.reasons()["h1"].startswith("railsight r2")


async def test_an_idle_node_in_a_maintenance_reservation_is_idle(hosts: Hosts) -> None:
    """A reservation keeps jobs away, which is no use of the node."""
    count = len(hosts.slurm.reboots)
    hosts.slurm.run(
        "scontrol", "create", "reservation", "ReservationName=maint", "StartTime=now", "Duration=10", "Users=root",
        "Nodes=h1", "Flags=MAINT,IGNORE_JOBS",
    )  # fmt: skip
    try:
        outcomes, _ = await asyncio.gather(hosts.act("r1", "REBOOT_HOST"), restart(hosts, count + 1))
        assert outcomes == ["ACCEPTED", "DONE"], hosts.sent.detail("r1")
        assert await hosts.act("r2", "UNCORDON_HOST") == ["ACCEPTED", "DONE"]
    finally:
        hosts.slurm.run("scontrol", "delete", "ReservationName=maint")
