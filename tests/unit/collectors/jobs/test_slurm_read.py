"""Tests the reading of Slurm's jobs from a command and from a socket: what fails, and that nothing stays behind."""

import asyncio
import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from collectors.core.context import CollectorContext
from collectors.core.once import NullPublisher
from collectors.jobs.collector import slurm_snapshot
from collectors.jobs.params import SlurmParams
from collectors.jobs.slurm_read import read_jobs
from lab.constants import with_constants
from streams.wire.errors import Misconfigured, Retry
from tests.fixtures.slurm_json import answer, job


async def test_a_command_that_hangs_is_killed_at_the_deadline(tmp_path: Path) -> None:
    """`squeue` waits for slurmctld; no process of it stays behind."""
    command = ("sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 300")
    params = with_constants(SlurmParams, deadline_s=0.5)(command=command)
    with pytest.raises(Retry, match=r"does not answer within 0\.5 s"):
        await slurm_snapshot(params, CollectorContext(NullPublisher(), "jobs"))
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_the_first_line_of_an_error_is_the_reason() -> None:
    """A failed command has printed no jobs, whatever it printed."""
    command = ("sh", "-c", "echo 'slurm_load_jobs error: no controller' >&2; echo more >&2; echo '{}'; exit 1")
    with pytest.raises(Retry, match=r"^sh: slurm_load_jobs error: no controller$"):
        await read_jobs(SlurmParams(command=command))


async def test_a_missing_command_is_a_matter_of_the_configuration() -> None:
    """It is no outage, which would be retried for ever."""
    with pytest.raises(Misconfigured, match="no-such-squeue: No such file or directory; install"):
        await read_jobs(SlurmParams(command=("no-such-squeue",)))


@contextmanager
def slurmrestd(path: Path, status: int) -> Iterator[None]:
    """Serve the jobs of v0.0.38 at a unix socket."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = answer("22.05.8", job(17))
            self.send_response(status if self.path == "/slurm/v0.0.38/jobs" else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with socketserver.UnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


async def test_jobs_are_read_from_a_socket(tmp_path: Path) -> None:
    """An error of HTTP, and a socket without a server, are no list of no jobs."""
    path = tmp_path / "rest"
    params = SlurmParams(slurmrestd=path)
    context = CollectorContext(NullPublisher(), "jobs")
    with slurmrestd(path, 200):
        assert {stay.job for stay in (await slurm_snapshot(params, context)).jobs} == {"17"}
        with pytest.raises(Retry, match="404"):
            await read_jobs(params.model_copy(update={"api": "v0.0.99"}))
    path.unlink()
    with pytest.raises(Retry, match=f"slurmrestd at {path}"):
        await asyncio.wait_for(read_jobs(params), 5)
