"""Reads the jobs and nodes of Slurm from its commands, or from slurmrestd at its unix socket. I/O only."""

import asyncio
import contextlib
import http.client
import socket
from pathlib import Path

from collectors.core.http_get import get
from collectors.jobs.params import SlurmParams
from streams.wire.errors import Misconfigured, Retry

MAX_BYTES = 512 << 20
"""The limit of an answer: a hundred thousand jobs, at about 4 kB each."""


async def read_jobs(params: SlurmParams) -> bytes:
    """Return the JSON of an answer.

    Raises Retry if there is no answer, and Misconfigured if the program is missing. The caller's timeout cancels it.
    """
    if params.slurmrestd is not None:
        return await asyncio.to_thread(_from_slurmrestd, params.slurmrestd, params.api, "jobs", params.deadline_s)
    return await _from_command(params.command)


async def read_nodes(params: SlurmParams) -> bytes | None:
    """Return the nodes with their states: JSON of slurmrestd, else a line `NAME STATE` for each.

    `sinfo` runs as `squeue` does in `command`; None if that is another program. Raises as `read_jobs`.
    """
    if params.slurmrestd is not None:
        return await asyncio.to_thread(_from_slurmrestd, params.slurmrestd, params.api, "nodes", params.deadline_s)
    names = [Path(part).name for part in params.command]
    if "squeue" not in names:
        return None
    place = names.index("squeue")
    program = params.command[place].removesuffix("squeue") + "sinfo"
    return await _from_command((*params.command[:place], program, "--all", "-h", "-N", "-o", "%N %t"))


async def _from_command(command: tuple[str, ...]) -> bytes:
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        raise Misconfigured(
            f"collect.jobs.slurm: {command[0]}: {error.strerror}; install Slurm's client, or set command or slurmrestd"
        ) from error
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise Retry(f"{command[0]}: {lines[0] if lines else f'exit code {process.returncode}'}")
    if len(output) > MAX_BYTES:
        raise Retry(f"{command[0]}: more than {MAX_BYTES >> 20} MiB of jobs")
    return output


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _from_slurmrestd(path: Path, api: str, what: str, timeout_s: float) -> bytes:
    url = f"/slurm/{api}/{what}"
    connection = _UnixConnection(path, timeout_s)
    return get(connection, url, "application/json", f"slurmrestd at {path}", timeout_s, MAX_BYTES)
