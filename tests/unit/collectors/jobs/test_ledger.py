"""Tests what is published after each answer of a scheduler, and without one."""

from dataclasses import replace

from collectors.jobs.ledger import Ledger, Snapshot
from streams.wire.models import Job

S = 10**9
DAY_NS = 86_400 * S
A = Job("1", "h0", 100 * S, state="RUNNING", scheduler="slurm")
B = replace(A, device="h1")


def ledger(absent_s: float = 60, *known: Job) -> Ledger:
    """Return a ledger that has these jobs."""
    made = Ledger(round(absent_s * S), DAY_NS)
    made.restore(known)
    return made


def seen(*jobs: Job, **runs: int) -> Snapshot:
    """Return an answer with these jobs, and others by their run."""
    return Snapshot(
        jobs, {job.job: job.run for job in jobs} | {name.removeprefix("j"): run for name, run in runs.items()}
    )


def test_a_job_is_published_once_and_again_when_it_changes() -> None:
    """An answer without news publishes nothing; a restart of the collector neither."""
    made = ledger()
    assert made.observe(seen(A, B), 110 * S) == [A, B]
    assert made.observe(seen(A, B), 112 * S) == []
    assert ledger(60, A, B).observe(seen(A, B), 114 * S) == []
    ended = [replace(job, end_ns=120 * S, state="COMPLETED") for job in (A, B)]
    assert made.observe(seen(*ended), 121 * S) == ended
    assert made.running == []


def test_another_run_ends_the_one_before() -> None:
    """It waits for its hosts first; on the same host it is a stay of its own."""
    made = ledger(60, A, B)
    first = made.observe(seen(j1=1), 130 * S)
    assert first == [replace(job, end_ns=130 * S, state="REQUEUED") for job in (A, B)]
    again = replace(A, run=1, start_ns=250 * S)
    assert made.observe(seen(again), 251 * S) == [again]
    quick = ledger(60, A)
    assert quick.observe(seen(again), 300 * S) == [again, replace(A, end_ns=250 * S, state="REQUEUED")]


def test_a_host_that_a_job_goes_on_without_has_left_it() -> None:
    """The stay on the other host goes on."""
    assert ledger(60, A, B).observe(seen(A), 130 * S) == [replace(B, end_ns=130 * S, state="LEFT")]


def test_without_an_answer_nothing_ends_and_the_jobs_are_marked() -> None:
    """The mark is the time of the last answer, is published once, and goes with the next answer."""
    made = ledger(60, replace(B, end_ns=105 * S))
    made.observe(seen(A), 110 * S)
    stale = replace(A, stale_since_ns=110 * S)
    assert made.mark_stale(150 * S) == [stale]
    assert made.mark_stale(9_000 * S) == []
    assert made.observe(seen(A), 9_010 * S) == [A]


def test_after_a_restart_the_mark_begins_at_the_first_failure() -> None:
    """The last answer was that of another process."""
    assert ledger(60, A).mark_stale(150 * S) == [replace(A, stale_since_ns=150 * S)]


def test_a_job_that_complete_answers_do_not_have_ends_after_a_while() -> None:
    """A controller that lost its state: marked first, and its end is the last time at which it was reported."""
    made = ledger(60)
    made.observe(seen(A), 110 * S)
    assert made.observe(seen(), 112 * S) == [replace(A, stale_since_ns=110 * S)]
    assert made.observe(seen(), 169 * S) == []
    assert made.observe(seen(), 170 * S) == [replace(A, end_ns=110 * S, state="GONE")]


def test_a_job_on_an_allocated_host_is_hidden_and_has_not_ended() -> None:
    """PrivateData=jobs: the login is not shown the job, the node stays allocated; a free host shows the end."""
    made = ledger(60)
    made.observe(seen(A, B), 110 * S)
    only_b = frozenset({"h1"})
    assert made.is_missing(seen()) and not made.is_missing(seen(A))
    stale = [replace(job, stale_since_ns=110 * S) for job in (A, B)]
    assert made.observe(replace(seen(), allocated=only_b), 112 * S) == stale
    assert made.observe(replace(seen(), allocated=only_b), 400 * S) == [replace(A, end_ns=110 * S, state="GONE")]
    assert made.running == stale[1:]
    other = replace(B, job="2", start_ns=390 * S)
    assert made.observe(replace(seen(other), allocated=only_b), 410 * S) == [
        other, replace(B, end_ns=110 * S, state="GONE")
    ]  # fmt: skip


def test_an_end_that_the_scheduler_does_not_know_is_that_of_the_first_answer_with_it() -> None:
    """An evicted pod without times ends once, however often it is listed, and not before it was seen to run."""
    made = ledger(0, A)
    unknown = replace(A, end_ns=A.start_ns + 1, state="Failed (Evicted)")
    assert made.observe(seen(unknown), 130 * S) == [replace(unknown, end_ns=130 * S)]
    assert [made.observe(seen(unknown), at_s * S) for at_s in (430, 730)] == [[], []]
    assert ledger(0).observe(seen(unknown), 130 * S + DAY_NS) == []


def test_a_job_that_returns_within_that_time_has_not_ended() -> None:
    """The time begins again."""
    made = ledger(60)
    for at_s, answer in ((110, seen(A)), (112, seen()), (150, seen(A)), (152, seen()), (200, seen())):
        made.observe(answer, at_s * S)
    assert [job.end_ns for job in made.running] == [None]


def test_a_job_may_be_the_one_that_was_unreadable() -> None:
    """With an unreadable job in the answer, no job is missing."""
    made = ledger(0, A)
    assert made.observe(Snapshot((), {}, ("job 1: broken",)), 500 * S) == []


def test_where_a_missing_job_has_ended_for_certain_it_ends_at_once() -> None:
    """Kubernetes deletes pods; a restart of the collector in between makes no difference."""
    assert ledger(0, A).observe(seen(), 130 * S) == [replace(A, end_ns=130 * S, state="GONE")]


def test_the_start_of_a_stay_stays() -> None:
    """A pod of a job that is replaced on its host is no other stay; a job of the same name after the end is one."""
    made = ledger(0, A)
    assert made.observe(seen(replace(A, start_ns=200 * S)), 210 * S) == []
    ended = replace(A, start_ns=200 * S, end_ns=220 * S)
    assert made.observe(seen(ended), 221 * S) == [replace(ended, start_ns=100 * S)]
    again = replace(A, start_ns=300 * S)
    assert made.observe(seen(again), 301 * S) == [again]


def test_ended_jobs_are_deleted_after_their_time_and_do_not_return() -> None:
    """Slurm may show a finished job for longer."""
    old = replace(A, end_ns=200 * S)
    made = ledger(60, old, B)
    assert made.expire(200 * S + DAY_NS) == []
    assert made.expire(201 * S + DAY_NS) == [old]
    assert made.observe(seen(old, B), 202 * S + DAY_NS) == []
