"""Runs external commands with limits on their time and on the retained output, and operations that consist of one.

A command is a list of arguments without a shell; an operation adds the target's id and its ends. If the changed state
is readable (a host's boot id, a NIC's firmware version), it is done when that state differs from the state before.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Sequence

from railsight_automation.errors import DeviceError, Refused
from railsight_automation.messages import Remediation
from railsight_automation.plan import Value

_RETAINED_BYTES = 65_536


async def run(command: Sequence[str], timeout_s: float) -> str:
    """Return the begin of a command's output; raise DeviceError if it fails or takes too long.

    Waits for the end of the process and of its output; kills a command that takes too long, with its children.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        raise DeviceError(f"{command[0]}: {getattr(error, 'strerror', None) or error}") from error
    assert process.stdout is not None
    try:
        async with asyncio.timeout(timeout_s):
            output = await _read(process.stdout)
            await process.wait()
    except TimeoutError as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        raise DeviceError(f"{command[0]}: no end within {timeout_s:g} s") from error
    text = output.decode(errors="replace").strip()
    if process.returncode:
        raise DeviceError(f"{command[0]}: exit status {process.returncode}: {text}")
    return text


async def _read(stream: asyncio.StreamReader) -> bytes:
    retained = bytearray()
    while chunk := await stream.read(_RETAINED_BYTES):
        retained += chunk[: _RETAINED_BYTES - len(retained)]
    return bytes(retained)


_POLL_S = 2.0

Read = Callable[[], Awaitable[str]]


class CommandOperation:
    """A command, its precondition, and a function that reads the state that it changes."""

    def __init__(
        self,
        command: Sequence[str],
        timeout_s: float,
        *,
        why_busy: Read | None = None,
        idle_s: float = 0.0,
        state: Read | None = None,
        verify_s: float = 0.0,
    ) -> None:
        self._command = list(command)
        self._timeout_s = timeout_s
        self._why_busy = why_busy
        """Returns why the target is in use; empty if it is idle."""
        self._idle_s = idle_s
        self._state = state
        self._verify_s = verify_s

    async def prepare(self) -> Value:
        """Wait until the target is idle and return the state before the command; raise Refused if it stays in use."""
        if self._why_busy is not None:
            await until_idle(self._why_busy, self._idle_s)
        return None if self._state is None else await self._state()

    async def run(self, before: Value) -> str:
        """Run the command, wait until the state differs, and return the command's output."""
        output = await run(self._command, self._timeout_s)
        if self._state is None:
            return output
        changed = await until_changed(self._state, before, self._verify_s)
        return f"{changed}; {output}" if output else changed

    async def settle(self, before: Value) -> str:
        """Return a text that states the change; raise ActionError if the state is unchanged or not readable."""
        if self._state is None:
            raise DeviceError("interrupted by a restart: the effect of the command is unknown; it is not repeated")
        return await until_changed(self._state, before, self._verify_s)


async def until_idle(why_busy: Read, within_s: float) -> None:
    """Wait until a target is idle; raise Refused if it is still in use after `within_s`."""
    deadline = asyncio.get_running_loop().time() + within_s
    while why := await why_busy():
        if asyncio.get_running_loop().time() >= deadline:
            raise Refused(f"not idle: {why}")
        await asyncio.sleep(min(_POLL_S, within_s / 10))


async def until_changed(state: Read, before: Value, within_s: float) -> str:
    """Wait until a state differs from `before`, and return both; raise DeviceError if it stays or is unreadable."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        try:
            now, why = await state(), f"the state is still {before}"
        except DeviceError as error:
            now, why = before, str(error)  # a host that restarts does not answer
        if now != before:
            return f"{before} -> {now}"
        if asyncio.get_running_loop().time() >= deadline:
            raise DeviceError(f"no effect within {within_s:g} s: {why}")
        await asyncio.sleep(min(_POLL_S, within_s / 10))


def arguments(remediation: Remediation) -> tuple[str, ...]:
    """Return the target's id and its ends (`device:port` or a device); raise Refused for a leading hyphen."""
    ends = [end for end in (remediation.a, remediation.z) if end is not None]
    found = (remediation.target_id, *(f"{end.device}:{end.port}" if end.port else end.device for end in ends))
    if wrong := next((one for one in found if one.startswith("-")), ""):
        raise Refused(f"{wrong} cannot be an argument of a command, because it begins with a hyphen")
    return found
