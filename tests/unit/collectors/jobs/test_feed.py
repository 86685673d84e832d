"""Tests the feed of one scheduler: what is on the topic while answers arrive, stop, and Kafka's buffer is full."""

from dataclasses import replace

from collectors.core.context import CollectorContext
from collectors.jobs.ledger import JobFeed, Ledger, Snapshot
from streams.wire.models import Job, SchedulerAnswer
from streams.wire.topics import JOBS
from tests.fakes.publisher import RecordingPublisher

S = 10**9
A = Job("1", "h0", 100 * S, scheduler="slurm")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at_ns = 100 * S

    def now_ns(self) -> int:
        return self.at_ns


class Feed:
    """A feed with its publisher and its clock."""

    def __init__(self) -> None:
        self.publisher, self.clock = RecordingPublisher(), Clock()
        self.context = CollectorContext(self.publisher, "jobs", clock=self.clock)
        self.feed = JobFeed("slurm", Ledger(60 * S, 3600 * S), self.context, 30 * S)

    def at(self, at_s: float) -> "Feed":
        """Set the time."""
        self.clock.at_ns = round(at_s * S)
        return self

    @property
    def jobs(self) -> list[Job]:
        return self.publisher.of(Job)


def test_jobs_are_stale_after_the_limit_and_not_before() -> None:
    """A short failure is no news to anybody."""
    made = Feed()
    made.at(110).feed.observe(Snapshot((A,), {"1": 0}))
    made.at(139).feed.failed("slurmctld: no answer")
    assert made.jobs == [A]
    made.at(141).feed.failed("slurmctld: no answer")
    assert made.jobs == [A, replace(A, stale_since_ns=110 * S)]
    made.at(200).feed.observe(Snapshot((A,), {"1": 0}))
    assert made.jobs[2:] == [A]


def test_what_the_buffer_refuses_is_offered_again_in_its_newest_form() -> None:
    """The ledger takes it as published, so nothing else would repeat it."""
    made = Feed()
    made.publisher.is_full = True
    made.at(110).feed.observe(Snapshot((A,), {"1": 0}))
    ended = replace(A, end_ns=115 * S)
    made.at(116).feed.observe(Snapshot((ended,), {"1": 0}))
    assert made.jobs == []
    made.publisher.is_full = False
    made.at(118).feed.observe(Snapshot((ended,), {"1": 0}))
    assert made.jobs == [ended]


def test_the_age_of_the_last_complete_answer_is_reported() -> None:
    """Every 30 s and when the problem changes; jobs that the answer does not show, and no answer, make it old."""
    made = Feed()
    made.at(105).feed.failed("slurmctld: no answer")
    assert made.publisher.of(SchedulerAnswer) == [], "no answer is known"
    whole, cut = Snapshot((A,), {"1": 0}), Snapshot((A,), {"1": 0}, unreadable=("job 7 has no id",))
    for at_s, snapshot in ((110, whole), (120, whole), (140, whole), (150, cut), (160, cut), (190, cut), (200, whole)):
        made.at(at_s).feed.observe(snapshot)
    made.at(220).feed.failed("slurmctld: no answer")
    assert [(one.age_ns // S, one.problem) for one in made.publisher.of(SchedulerAnswer)] == [
        (0, ""), (0, ""), (10, "job 7 has no id"), (50, "job 7 has no id"), (0, ""), (20, "slurmctld: no answer"),
    ]  # fmt: skip


def test_an_old_job_is_deleted_by_its_key() -> None:
    """A tombstone of the stay and run."""
    made = Feed()
    run = replace(A, run=2, end_ns=200 * S)
    made.at(201).feed.observe(Snapshot((run,), {"1": 2}))
    made.at(4_000).feed.observe(Snapshot((), {}))
    records = [record for record in made.publisher.records if record.topic is JOBS]
    assert [(record.topic, record.key, record.value is None) for record in records] == [
        (JOBS, b"1/h0/2", False), (JOBS, b"1/h0/2", True),
    ]  # fmt: skip


def test_allocated_hosts_without_a_job_are_reported_after_two_readings() -> None:
    """The login may not see all jobs; a job that starts between two commands is no problem."""
    made = Feed()
    health, metrics = made.context.health, made.context.metrics
    health.started()
    for at_s, hosts, hidden in ((110, {"h0", "h1"}, 0), (170, {"h0", "h1"}, 1), (230, {"h0"}, 0)):
        made.at(at_s).feed.observe(Snapshot((A,), {"1": 0}, allocated=frozenset(hosts)))
        health.beat()
        assert ("PrivateData" in health.readiness_problem()) is bool(hidden)
        assert [family.samples[0].value for family in metrics.collect() if family.name.endswith("hidden_hosts")] == [
            hidden
        ]
