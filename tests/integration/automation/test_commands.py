"""Tests the actions that a configured command carries out, with real commands and a scheduler in memory."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from railsight_automation.commands import run
from railsight_automation.config import load
from railsight_automation.errors import DeviceError, Misconfigured, Refused
from railsight_automation.host_commands import CommandParams, HostCommands
from railsight_automation.messages import Remediation
from railsight_automation.plan import Parts, Setting

from tests.fixtures.automation import Devices, Fuse, MemorySetting, RecordedAnswers, act, remediation

HOST = {"id": "device:host1", "a": {"device": "host1"}, "role": "device"}
PORT = {
    "id": "link:host1/e0--leaf1/e1", "a": {"device": "host1", "port": "e0"}, "z": {"device": "leaf1", "port": "e1"},
    "role": "host-link",
}  # fmt: skip
POD = {"id": "pod:p1", "role": "pod"}
DISRUPTIVE = [("REBOOT_HOST", HOST), ("RESET_NIC", PORT), ("UPGRADE_FIRMWARE", HOST)]


@dataclass
class MemoryHosts:
    """A scheduler with one host."""

    kind = "memory"
    actions = ("UNCORDON_HOST",)
    devices: Devices = field(default_factory=Devices)
    jobs: str = ""
    boot_id: str = "b1"

    def cordon(self, remediation: Remediation) -> Setting:
        return MemorySetting("memory:host1", self.devices, Fuse())

    def at(self, address: str) -> Setting:
        return MemorySetting(address, self.devices, Fuse())

    def plan(self, remediation: Remediation) -> Any:
        raise Refused("not in this test")

    async def why_busy(self, device: str) -> str:
        assert device == "host1" and self.devices.values["memory:host1"] == "out", "the cordon comes first"
        return self.jobs

    async def boot(self, device: str) -> str:
        assert device == "host1"
        return self.boot_id


@dataclass
class Automation:
    """An automation with commands in a folder."""

    folder: Path
    hosts: MemoryHosts | None = field(default_factory=MemoryHosts)
    sent: RecordedAnswers = field(default_factory=RecordedAnswers)

    def script(self, name: str, text: str) -> tuple[str, ...]:
        """Write a command that appends its name and arguments to `log`, and then runs a text."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\nprintf "%s\\n" "{name} $*" >> {self.folder}/log\n{text}\n')
        path.chmod(0o755)
        return (str(path),)

    @property
    def log(self) -> list[str]:
        """Return the commands that were run."""
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    async def act(
        self, action: str, target: Mapping[str, Any], identity: str = "r1", fuse: Fuse | None = None, **params: Any
    ) -> str:
        """Carry out a remediation in a process of its own; return its last outcome, or an empty text."""
        commands = HostCommands({action: CommandParams(**({"idle_s": 0.2, "verify_s": 2} | params))}, self.hosts)
        parts = Parts([commands, *([self.hosts] if self.hosts else [])])
        order = remediation(identity, action, target=target)
        outcomes = await act(self.folder / "journal.jsonl", parts, self.sent, order, fuse)
        assert outcomes[:1] == ["ACCEPTED"]
        return outcomes[-1]


@pytest.fixture
def automation(tmp_path: Path) -> Automation:
    """Return an automation with a scheduler."""
    return Automation(tmp_path)


@pytest.mark.parametrize(("action", "target"), DISRUPTIVE)
async def test_an_operation_runs_its_command_on_a_cordoned_idle_host(
    automation: Automation, action: str, target: Mapping[str, Any]
) -> None:
    """The target and its ends are arguments; the new state and the output are the detail; only a reboot stays out."""
    state = automation.script("state", f"cat {automation.folder}/state.txt 2>/dev/null || echo old")
    command = automation.script("act", f"echo new > {automation.folder}/state.txt; echo reset done")
    assert await automation.act(action, target, command=command, state_command=state) == "DONE"
    assert automation.sent.detail() == "old -> new; reset done"
    ends = "host1:e0 leaf1:e1" if target is PORT else "host1"
    assert automation.log == [f"{name} {target['id']} {ends}" for name in ("state", "act", "state")]
    assert automation.hosts is not None
    assert automation.hosts.devices.values == {"memory:host1": "out" if action == "REBOOT_HOST" else "in"}
    assert await automation.act(action, target, command=command, state_command=state) == "DONE"
    assert len(automation.log) == 3


@pytest.mark.parametrize(("action", "target"), DISRUPTIVE)
async def test_a_host_in_use_is_left_alone(automation: Automation, action: str, target: Mapping[str, Any]) -> None:
    """The command is not run, and the cordon is undone."""
    assert automation.hosts is not None
    automation.hosts.jobs = "node host1 runs job 7"
    command = automation.script("act", "true")
    assert await automation.act(action, target, command=command, state_command=command) == "FAILED"
    assert automation.sent.detail() == "not idle: node host1 runs job 7; every change was undone"
    assert automation.log == [] and automation.hosts.devices.values == {"memory:host1": "in"}


async def test_a_job_that_ends_in_time_is_waited_for(automation: Automation) -> None:
    """No new one begins, because the host is cordoned."""
    assert automation.hosts is not None
    automation.hosts.jobs = "node host1 runs job 7"
    asyncio.get_running_loop().call_later(0.1, setattr, automation.hosts, "jobs", "")
    assert await automation.act("RESET_NIC", PORT, command=automation.script("act", "true"), idle_s=20) == "DONE"


async def test_an_idle_command_replaces_the_scheduler(automation: Automation) -> None:
    """For a switch, or a scheduler that this automation does not know."""
    command, busy = automation.script("act", "true"), automation.script("idle", "echo 3 flows; exit 1")
    params: dict[str, Any] = {"command": command, "idle_command": busy}
    assert await automation.act("RESET_NIC", PORT, **params) == "FAILED"
    assert "exit status 1: 3 flows; nothing was changed" in automation.sent.detail()
    params["idle_command"] = automation.script("idle", "exit 0")
    assert await automation.act("RESET_NIC", PORT, "r2", **params) == "DONE"
    assert automation.hosts is not None and automation.hosts.devices.values == {}


async def test_congestion_is_tuned_without_a_precondition(automation: Automation) -> None:
    """Its target is a pod; no host is touched."""
    automation.hosts = None
    assert await automation.act("TUNE_CONGESTION", POD, command=automation.script("act", "echo ecn=80%")) == "DONE"
    assert automation.log == ["act pod:p1"] and automation.sent.detail() == "ecn=80%"


async def test_a_reboot_is_done_when_the_boot_id_is_another(automation: Automation) -> None:
    """The scheduler's boot id, where there is no command for it; one that remains is a failed reboot."""
    hosts = automation.hosts
    assert hosts is not None
    command = automation.script("act", "true")
    assert await automation.act("REBOOT_HOST", HOST, command=command, verify_s=0.2) == "FAILED"
    assert automation.sent.detail() == "no effect within 0.2 s: the state is still b1; every change was undone"
    asyncio.get_running_loop().call_later(0.1, setattr, hosts, "boot_id", "b2")
    assert await automation.act("REBOOT_HOST", HOST, "r2", command=command, verify_s=20) == "DONE"
    assert automation.sent.detail("r2") == "b1 -> b2" and hosts.devices.values == {"memory:host1": "out"}


async def test_a_host_that_does_not_answer_while_it_restarts_is_waited_for(automation: Automation) -> None:
    """Errors of the state's command count as no change."""
    folder = automation.folder
    state = automation.script(
        "state", f"[ $(wc -l < {folder}/log) -lt 5 ] || exec echo b2\n[ ! -e {folder}/off ] && echo b1"
    )
    command = automation.script("act", f"touch {folder}/off")
    assert await automation.act("REBOOT_HOST", HOST, command=command, state_command=state, verify_s=20) == "DONE"
    assert automation.sent.detail().startswith("b1 -> b2")


async def test_a_failed_command_is_the_detail(automation: Automation) -> None:
    """With its exit status and output; the host is in use again."""
    command = automation.script("act", "echo no such NIC; exit 3")
    assert await automation.act("RESET_NIC", PORT, command=command) == "FAILED"
    assert automation.sent.detail().endswith("act: exit status 3: no such NIC; every change was undone")


async def test_nothing_of_a_target_is_read_by_a_shell_or_taken_for_an_option(automation: Automation) -> None:
    """Names come from an inventory, and end as plain arguments."""
    command = automation.script("act", "true")
    name = "h; touch owned; $(touch owned) *"
    target = {"id": f"device:{name}", "a": {"device": name}}
    automation.hosts = None
    params: dict[str, Any] = {"command": command, "idle_command": ("true",)}
    assert await automation.act("RESET_NIC", target, **params) == "DONE"
    assert automation.log == [f"act device:{name} {name}"] and not list(automation.folder.glob("owned"))
    commands = HostCommands({"RESET_NIC": CommandParams(command)}, None)
    with pytest.raises(Refused, match="--all cannot be an argument of a command"):
        commands.plan(remediation("r2", "RESET_NIC", target={"id": "device:x", "a": {"device": "--all"}}))


async def test_output_is_bounded(automation: Automation) -> None:
    """A command that prints without end is read to its end, and its begin is retained."""
    output = await run(["sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x"], 60)
    assert len(output) == 65_536


async def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path: Path) -> None:
    """The children would hold its output open."""
    path = tmp_path / "child"
    began = time.monotonic()
    with pytest.raises(DeviceError, match=r"no end within 0\.5 s"):
        await run(["sh", "-c", f"sleep 300 & echo $! > {path}; wait"], 0.5)
    assert time.monotonic() - began < 30
    give_up = time.monotonic() + 10
    while is_running(int(path.read_text())):
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_a_command_needs_is_checked_at_the_start(tmp_path: Path) -> None:
    """Unknown is not permission: a precondition and, where it can be, a proof of the effect."""
    path = tmp_path / "automation.toml"
    path.write_text(
        'actor = "a"\n[reset_nic]\n[reboot_host]\ncommand = ["x"]\n[upgrade_firmware]\ncommand = ["x"]\n'
        '[tune_congestion]\ncommand = "x"\n'
    )
    with pytest.raises(Misconfigured) as refused:
        load(path)
    for problem in (
        "reset_nic.command: is required", "reset_nic.idle_command: is required without [slurm] or [kubernetes]",
        "reboot_host.idle_command: is required", "reboot_host.state_command: is required",
        "upgrade_firmware.state_command: is required", "tune_congestion.command: 'x' is of the wrong type",
    ):  # fmt: skip
        assert problem in str(refused.value)
    path.write_text('actor = "a"\n[slurm]\n[reboot_host]\ncommand = ["x"]\n')
    with pytest.raises(Misconfigured, match=r"reboot_host\.state_command: is required"):
        load(path)
    path.write_text('actor = "a"\n[slurm]\nreboot = true\n[reboot_host]\ncommand = ["x"]\n')
    with pytest.raises(Misconfigured, match=r"slurm.reboot and \[reboot_host\] are both there"):
        load(path)
    path.write_text(
        'actor = "a"\n[kubernetes]\n[reboot_host]\ncommand = ["x"]\n[tune_congestion]\ncommand = ["y", "z"]\n'
    )
    assert set(load(path).commands) == {"REBOOT_HOST", "TUNE_CONGESTION"}
