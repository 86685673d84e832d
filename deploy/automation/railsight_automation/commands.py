"""Runs external commands with limits on their time and on the retained output."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence

from railsight_automation.errors import DeviceError

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
