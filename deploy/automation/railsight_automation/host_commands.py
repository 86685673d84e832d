"""Plans RESET_NIC, REBOOT_HOST, UPGRADE_FIRMWARE and TUNE_CONGESTION by configured commands.

The target of the first three actions must be idle: the scheduler cordons the host, so that no job starts, and reports
running jobs. The cordon is undone after a reset or an upgrade; after a reboot it stays until the host has qualified.
With an `idle_command` the scheduler is not used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from railsight_automation.commands import CommandOperation, arguments, run
from railsight_automation.errors import DeviceError, Refused
from railsight_automation.messages import Remediation
from railsight_automation.plan import Plan, Setting

REBOOT, TUNE = "REBOOT_HOST", "TUNE_CONGESTION"
SECTIONS = {
    "RESET_NIC": "reset_nic", REBOOT: "reboot_host", "UPGRADE_FIRMWARE": "upgrade_firmware", TUNE: "tune_congestion",
}  # fmt: skip
"""Action -> the section of the configuration."""


@dataclass(frozen=True)
class CommandParams:
    """Settings of `[reset_nic]`, `[reboot_host]`, `[upgrade_firmware]` and `[tune_congestion]`."""

    command: tuple[str, ...] = ()
    """The command; its arguments are the target's id and ends, and exit status 0 is success."""
    state_command: tuple[str, ...] = ()
    """Prints the state that the action changes, such as a version; the action is done when the text has changed."""
    idle_command: tuple[str, ...] = ()
    """Exits with 0 if the target is not in use; replaces the scheduler, for example for a switch."""
    timeout_s: float = 300.0
    """Longest time of the command."""
    idle_s: float = 60.0
    """Longest wait for the end of a cordoned host's jobs."""
    verify_s: float = 1800.0
    """Longest wait for the changed state: a GPU host takes ten minutes or more to start (choice)."""


class Hosts(Protocol):
    """The hosts of a scheduler."""

    def cordon(self, remediation: Remediation) -> Setting:
        """Return the cordon of the target's host, which may already be an own one; raise Refused."""

    async def why_busy(self, device: str) -> str:
        """Return a text with the jobs on a host; empty without jobs."""

    async def boot(self, device: str) -> str:
        """Return an identifier of the host's last start."""


class HostCommands:
    """Plans the actions that have a command."""

    kind = "command"

    def __init__(self, params: Mapping[str, CommandParams], hosts: Hosts | None) -> None:
        self._params = params
        """Action -> its settings."""
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
        """Raise Refused: a command has no setting, and the scheduler has the cordon."""
        raise Refused(f"{address} is no setting")


def problems(action: str, params: CommandParams, *, has_scheduler: bool, has_boot_id: bool) -> list[str]:
    """Return the missing settings of an action: the check that the target is idle, and the state to verify."""
    section, found = SECTIONS[action], []
    if not params.command:
        found.append(f"{section}.command: is required")
    if action != TUNE and not params.idle_command and not has_scheduler:
        found.append(f"{section}.idle_command: is required without [slurm] or [kubernetes]")
    if not params.state_command and (action == "UPGRADE_FIRMWARE" or (action == REBOOT and not has_boot_id)):
        found.append(f"{section}.state_command: is required, or nothing would show that it took effect")
    return found
