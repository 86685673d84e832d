"""Tests the reading of Slurm's jobs from a command and from a socket: what fails, and that nothing stays behind."""

import asyncio
import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import orjson
import pytest

from collectors.core.context import CollectorContext
from collectors.core.once import NullPublisher
from collectors.jobs.collector import follow_slurm, slurm_snapshot, with_nodes
from collectors.jobs.ledger import JobFeed, Ledger
from collectors.jobs.params import SlurmParams
from collectors.jobs.slurm_parse import allocated_hosts
from collectors.jobs.slurm_read import read_jobs
from lab.constants import with_constants
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.models import Job
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.running_task import run_beside
from tests.fixtures.slurm_json import answer, job
from tests.fixtures.waiting import until


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


def program(folder: Path, name: str, text: str) -> str:
    """Write a program of Slurm that prints a text."""
    (folder / f"{name}.out").write_text(text)
    (folder / name).write_text(f"#!/bin/sh\nexec cat {folder}/{name}.out\n")
    (folder / name).chmod(0o755)
    return str(folder / name)


NODES = "h0 alloc\nh1 mix*\nh1 mix*\nh2 idle\nh3 drng\nh4 drain\nh5 resv\nh6 down*\ncpu-1 alloc\n"


async def test_the_allocated_hosts_are_read_with_the_login_of_the_jobs(tmp_path: Path) -> None:
    """`sinfo` is beside `squeue`, behind the same wrapper; another command than squeue has no nodes."""
    squeue = program(tmp_path, "squeue", answer("22.05.8").decode())
    program(tmp_path, "sinfo", NODES)
    params = SlurmParams(command=("env", "A=1", squeue, "--json"), nodes={"p1-h0": "h0"}, exclude=("cpu-*",))
    context = CollectorContext(NullPublisher(), "jobs")
    found = await with_nodes(await slurm_snapshot(params, context), params)
    assert found.allocated == frozenset({"p1-h0", "h1", "h3"}) == found.hidden()
    other = params.model_copy(update={"command": ("cat", f"{tmp_path}/squeue.out")})
    assert (await with_nodes(found, other)) is found


def test_the_nodes_of_slurmrestd_have_their_state_in_any_version() -> None:
    """A text with flags, or a list."""
    states = ("allocated", "mixed+DRAIN", "idle", ["MIXED", "DRAIN"], ["IDLE", "MAINTENANCE"])
    data = orjson.dumps({"nodes": [{"name": f"h{n}", "state": state} for n, state in enumerate(states)]})
    assert allocated_hosts(data, SlurmParams()) == {"h0", "h1", "h3"}
    with pytest.raises(Reject, match="no list of nodes"):
        allocated_hosts(b"{}", SlurmParams())


async def test_a_missing_job_ends_no_sooner_than_the_nodes_are_known(tmp_path: Path) -> None:
    """While sinfo fails, the scheduler counts as away: nothing ends; then the job on a free node ends."""
    squeue = program(tmp_path, "squeue", answer("22.05.8", job(17), job(18, nodes="h2", gres_detail=[])).decode())
    program(tmp_path, "sinfo", NODES)
    params = with_constants(SlurmParams, absent_s=0)(command=(squeue,), cadence_s=0.5)
    publisher = RecordingPublisher()
    context = CollectorContext(publisher, "jobs")
    feed = JobFeed("slurm", Ledger(1, 10**18), context, 10**18)
    async with run_beside(follow_slurm(params, feed, context)):
        await publisher.until(lambda: len(publisher.of(Job)) == 3)
        (tmp_path / "sinfo").write_text(f"#!/bin/sh\necho x >> {tmp_path}/calls\nexit 1\n")
        (tmp_path / "squeue.out").write_bytes(answer("22.05.8"))
        calls = tmp_path / "calls"
        await until(lambda: calls.exists() and len(calls.read_text()) >= 4)
        assert all(job.end_ns is None for job in publisher.of(Job))
        program(tmp_path, "sinfo", NODES)
        await publisher.until(lambda: any(job.state == "GONE" for job in publisher.of(Job)))
    newest = {(one.job, one.device): one.end_ns is None for one in publisher.of(Job)}
    assert newest == {("17", "h0"): True, ("17", "h1"): True, ("18", "h2"): False}


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
