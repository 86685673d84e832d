"""Tests live jobs of a real Slurm: from `sbatch` through the collector, Kafka and ClickHouse to `railsight job`."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.constants import command_with
from streams.cli.main import main
from streams.report.job.summary import JobSummary, summaries
from streams.store.queries.jobs import query_stays
from tests.fixtures.slurm import Slurm, cluster, end_process
from tests.integration.store.rig import Database, Rig

pytestmark = pytest.mark.timeout(240)

CONFIG = """[kafka]
bootstrap = "{bootstrap}"
[collect.jobs.slurm]
command = ["env", "SLURM_CONF={conf}", "squeue", "--json", "--states=all"]
cadence_s = 0.5
team_by = "user"
teams = {{root = "ml"}}
tenants = {{ml = "blue"}}
[collect.jobs.slurm.nodes]
pod1-host1 = "h1"
"""

CONSTANTS = {"collect.jobs.stale_s": 2, "collect.jobs.slurm.deadline_s": 3, "collect.jobs.slurm.absent_s": 3}


@dataclass
class LiveJobs:
    """A cluster, and the tables that its jobs reach."""

    slurm: Slurm
    database: Database
    config: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start_collector(self) -> None:
        """Run `railsight collect jobs`."""
        with self.log.open("ab") as output:
            command = command_with(CONSTANTS, "collect", "jobs", "--config", str(self.config))
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def stop_collector(self) -> None:
        """End it."""
        if self.process is not None:
            end_process(self.process)

    def submit(self, *options: str, seconds: int = 300) -> str:
        """Submit a job; return its id."""
        command = ("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", f"sleep {seconds}")
        return self.slurm.run(*command)

    def find(self, job: str) -> JobSummary | None:
        """Return a job as the tables have it."""
        return next(iter(summaries(query_stays(self.database.client, 0, time.time_ns(), job))), None)

    def until(self, job: str, holds: Callable[[JobSummary], bool], within_s: float = 30) -> JobSummary:
        """Wait for a job in a state."""
        give_up = time.monotonic() + within_s
        while (found := self.find(job)) is None or not holds(found):
            assert time.monotonic() < give_up, f"{found}\n{self.log.read_text()[-3000:]}"
            time.sleep(0.1)
        return found


@pytest.fixture(scope="module")
def live(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveJobs]:
    """Yield the whole chain."""
    folder = tmp_path_factory.mktemp("live")
    database = rig.database()
    with cluster(folder / "slurm") as slurm:
        config, log = folder / "railsight.toml", folder / "jobs.log"
        config.write_text(CONFIG.format(bootstrap=rig.kafka.bootstrap, conf=slurm.conf))
        database.start_sink()
        chain = LiveJobs(slurm, database, config, log)
        chain.start_collector()
        try:
            # Both processes have started when the first job is there.
            chain.until(chain.submit(seconds=1), has_ended, 60)
            yield chain
            slurm.run("scancel", "-u", "root")
        finally:
            chain.stop_collector()
            database.end()


def is_running(found: JobSummary) -> bool:
    """Return whether a job has no end, and its scheduler answers."""
    return found.end_ns is None and found.stale_since_ns is None


def has_ended(found: JobSummary) -> bool:
    """Return whether a job has an end."""
    return found.end_ns is not None


def test_a_submitted_job_appears_and_ends_when_it_ends(
    live: LiveJobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its user, team, tenant, hosts and GPUs; the command lists it, for its tenant only where that is asked."""
    submitted_s = time.time()
    job = live.submit("-J", "train", "-N", "2", "--gres=gpu:2")
    found = live.until(job, is_running)
    assert (found.name, found.user, found.team, found.tenant, found.gpus) == ("train", "root", "ml", "blue", 4)
    assert found.hosts == ("h0", "pod1-host1") and found.state == "RUNNING" and found.requeues == 0
    assert found.start_ns / 1e9 > submitted_s - 2
    live.database.configure(monkeypatch)
    assert job in _lines(capsys, "job") and job in _lines(capsys, "job", "--tenant", "blue")
    assert job not in _lines(capsys, "job", "--tenant", "red")
    assert "name train, user root, team ml, tenant blue; 4 GPUs; slurm: RUNNING" in _output(capsys, "job", job)
    assert f"has no job {job} of tenant red" in _output(capsys, "job", job, "--tenant", "red")
    live.slurm.run("scancel", job)
    found = live.until(job, lambda found: found.state == "CANCELLED")
    assert found.end_ns is not None and found.end_ns > found.start_ns


def _output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with contextlib.suppress(SystemExit):
        main([*arguments])
    captured = capsys.readouterr()
    return captured.out + captured.err


def _lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Return the jobs that the command lists."""
    return [json.loads(line)["job"] for line in _output(capsys, *arguments, "--json").splitlines() if "{" in line]


def test_an_array_is_its_tasks_and_a_heterogeneous_job_is_one(live: LiveJobs) -> None:
    """Tasks have the id that Slurm prints; the components share the first one's."""
    array = live.submit("--array=1-2", "-w", "h0")
    tasks = [live.until(f"{array}_{task}", is_running) for task in (1, 2)]
    assert [task.array_job for task in tasks] == [array, array] and live.find(array) is None
    live.slurm.run("scancel", array)
    het = live.submit("-w", "h0", ":", "-w", "h1")
    found = live.until(het, lambda found: len(found.hosts) == 2)
    assert found.hosts == ("h0", "pod1-host1") and found.gpus is None
    live.slurm.run("scancel", het)
    live.until(het, has_ended)


def test_a_job_without_gpus_has_its_hosts_and_no_number_of_gpus(live: LiveJobs) -> None:
    """`-c` alone: Slurm lists no GPUs by host, which is unknown and not none."""
    job = live.submit("-c", "1", "-w", "h0")
    found = live.until(job, is_running)
    assert found.hosts == ("h0",) and found.gpus is None
    live.slurm.run("scancel", job)
    live.until(job, has_ended)


def test_a_requeued_job_is_the_same_job_in_another_run(live: LiveJobs) -> None:
    """The first run ends when the second one waits; Slurm lets it wait for 120 s, which a release ends."""
    job = live.submit("-w", "h0", "--requeue")
    first = live.until(job, is_running)
    live.slurm.run("scontrol", "requeue", job)
    ended = live.until(job, has_ended)
    assert ended.start_ns == first.start_ns
    _start_now(live, job)
    again = live.until(job, lambda found: is_running(found) and found.requeues == 1)
    assert again.start_ns == first.start_ns and again.hosts == ("h0",)
    assert live.database.rows(f"SELECT end IS NULL FROM job_hosts WHERE job = '{job}' ORDER BY start") == [(0,), (1,)]
    live.slurm.run("scancel", job)
    live.until(job, has_ended)


def _start_now(live: LiveJobs, job: str) -> None:
    """Set a requeued job's begin to now, as soon as it is no longer completing."""
    give_up = time.monotonic() + 30
    while True:
        with contextlib.suppress(AssertionError):
            live.slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now")
            return
        assert time.monotonic() < give_up
        time.sleep(0.2)


def test_a_job_ends_with_the_failure_of_its_node(live: LiveJobs) -> None:
    """Without a requeue its state is NODE_FAIL, on both hosts. The node returns by itself (ReturnToService)."""
    job = live.submit("-N", "2", "--no-requeue")
    live.until(job, is_running)
    live.slurm.run("scontrol", "update", "NodeName=h1", "State=DOWN", "Reason=test")
    live.until(job, lambda found: has_ended(found) and found.state == "NODE_FAIL")
    live.slurm.until("h1", "IDLE")


def test_a_controller_that_is_away_and_restarts_ends_no_job(live: LiveJobs) -> None:
    """The job is marked stale while nothing answers, and is not when the controller is back with its state."""
    job = live.submit("-w", "h1")
    live.until(job, is_running)
    live.slurm.stop_controller()
    stale = live.until(job, lambda found: found.stale_since_ns is not None)
    assert stale.end_ns is None
    live.slurm.start_controller()
    assert live.until(job, is_running).start_ns == stale.start_ns
    live.slurm.run("scancel", job)
    live.until(job, has_ended)


def test_a_job_that_ends_while_the_collector_does_not_run_ends_afterwards(live: LiveJobs) -> None:
    """The next process reads back what the first one published, and has the end of Slurm."""
    job = live.submit("-w", "h0")
    live.until(job, is_running)
    live.stop_collector()
    live.slurm.run("scancel", job)
    cancelled_s = time.time()
    live.start_collector()
    found = live.until(job, lambda found: found.state == "CANCELLED")
    assert found.end_ns is not None and found.end_ns / 1e9 < cancelled_s + 2


def test_a_job_that_slurm_has_no_longer_ends_as_gone(live: LiveJobs) -> None:
    """The controller starts again without its state: `absent_s` later the job has ended when it was last reported."""
    job = live.submit("-w", "h0")
    running = live.until(job, is_running)
    live.slurm.stop_controller()
    live.slurm.start_controller("-c")
    found = live.until(job, lambda found: found.state == "GONE", 60)
    assert found.end_ns is not None and running.start_ns < found.end_ns < time.time_ns()
    assert found.stale_since_ns is None
