"""Runs external commands with a limit on their time."""

import asyncio

from railsight_automation.errors import DeviceError


async def run(command: list[str], timeout_s: float) -> str:
    """Return the output of a command; raise DeviceError if it fails or takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise DeviceError(f"{command[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise DeviceError(f"{command[0]}: no end within {timeout_s:g} s") from error
    text = output.decode(errors="replace").strip()
    if process.returncode:
        raise DeviceError(f"{command[0]}: exit status {process.returncode}: {text}")
    return text
