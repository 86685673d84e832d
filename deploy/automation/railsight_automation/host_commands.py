"""Plans RESET_NIC, REBOOT_HOST, UPGRADE_FIRMWARE and TUNE_CONGESTION by configured commands.

Before the first three the target must be idle. The scheduler cordons the host first, so that no job begins meanwhile,
and shows whether one runs; after a reset or an upgrade the cordon is undone, after a reboot it stays until the host has
qualified. With an `idle_command` the scheduler is not used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from railsight_automation.command_operation import CommandOperation, arguments
from railsight_automation.commands import run
from railsight_automation.errors import DeviceError, Refused
from railsight_automation.messages import Remediation
from railsight_automation.plan import Plan
from railsight_automation.settings import Setting

REBOOT, TUNE = "REBOOT_HOST", "TUNE_CONGESTION"
SECTIONS = {
    "RESET_NIC": "reset_nic", REBOOT: "reboot_host", "UPGRADE_FIRMWARE": "upgrade_firmware", TUNE: "tune_congestion",
}  # fmt: skip
"""Action -> the section of the configuration."""


@dataclass(frozen=True)
class CommandParams:
    """Settings of `[reset_nic]`, `[reboot_host]`, `[upgrade_firmware]` and `[tune_congestion]`."""

    command: tuple[str, ...] = ()
    """Gets the target's id and its ends as arguments; 0 is success."""
    state_command: tuple[str, ...] = ()
    """Prints what the action changes, such as a version: the action is done when it prints another text than before."""
    idle_command: tuple[str, ...] = ()
    """Exits with 0 if the target is out of use; replaces the scheduler, for a switch for example."""
    timeout_s: float = 300.0
    """Longest time of the command."""
    idle_s: float = 60.0
    """Longest wait for the end of the jobs of a cordoned host."""
    verify_s: float = 1800.0
    """Longest wait for the other state: a GPU host takes ten minutes and more to start (choice)."""


class Hosts(Protocol):
    """The hosts of a scheduler."""

    def cordon(self, remediation: Remediation) -> Setting:
        """Return the cordon of the target's host, which accepts one that is ours already; raise Refused."""

    async def why_busy(self, device: str) -> str:
        """Return what runs on a host; empty if nothing does."""

    async def boot(self, device: str) -> str:
        """Return what identifies the last start of a host."""


class HostCommands:
    """Plans the actions that have a command."""

    kind = "command"

    def __init__(self, params: Mapping[str, CommandParams], hosts: Hosts | None) -> None:
        self._params = params
        """By action."""
        self._hosts = hosts

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions with a command."""
        return tuple(self._params)

    def plan(self, remediation: Remediation) -> Plan:
        """Return the command of an action with its precondition, and the cordon that it needs."""
        action, params = remediation.action, self._params[remediation.action]
        target = arguments(remediation)
        hosts = None if params.idle_command or action == TUNE else self._hosts
        cordon = (hosts.cordon(remediation),) if hosts is not None else ()
        device = remediation.a.device if remediation.a is not None else ""

        async def why_busy() -> str:
            if hosts is not None:
                return await hosts.why_busy(device)
            try:
                await run((*params.idle_command, *target), params.timeout_s)
            except DeviceError as error:
                return str(error)
            return ""

        async def state() -> str:
            if not params.state_command and self._hosts is not None:
                return await self._hosts.boot(device)
            printed = await run((*params.state_command, *target), params.timeout_s)
            if not printed:
                raise DeviceError(f"{params.state_command[0]} printed no state")
            return printed

        operation = CommandOperation(
            (*params.command, *target), params.timeout_s, why_busy=None if action == TUNE else why_busy,
            idle_s=params.idle_s, state=state if params.state_command or action == REBOOT else None,
            verify_s=params.verify_s,
        )  # fmt: skip
        return Plan(cordon, operation=operation) if action == REBOOT else Plan(hold=cordon, operation=operation)

    def at(self, address: str) -> Setting:
        """Refuse: a command has no setting, and a cordon is its scheduler's."""
        raise Refused(f"{address} is no setting")


def problems(action: str, params: CommandParams, *, has_scheduler: bool, has_boot_id: bool) -> list[str]:
    """Return what an action lacks: unknown is not permission, and an operation is verified."""
    section, found = SECTIONS[action], []
    if not params.command:
        found.append(f"{section}.command: is required")
    if action != TUNE and not params.idle_command and not has_scheduler:
        found.append(f"{section}.idle_command: is required without [slurm] or [kubernetes]")
    if not params.state_command and (action == "UPGRADE_FIRMWARE" or (action == REBOOT and not has_boot_id)):
        found.append(f"{section}.state_command: is required, or nothing would show that it took effect")
    return found
