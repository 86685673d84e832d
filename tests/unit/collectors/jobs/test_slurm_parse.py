"""Tests the parser of Slurm's jobs on the forms of every version."""

from typing import Any

import pytest

from collectors.jobs.ledger import Snapshot
from collectors.jobs.params import SlurmParams
from collectors.jobs.slurm_parse import FINAL, parse
from streams.wire.errors import Reject, Retry
from streams.wire.models import Job
from tests.fixtures.slurm_json import RELEASES, answer, job, meta

S = 10**9
START_NS = 1_700_000_000 * S
NOW_NS = START_NS + 100 * S


def parsed(*jobs: dict[str, Any], release: str = "22.05.8", **params: Any) -> Snapshot:
    """Return the snapshot of an answer."""
    return parse(answer(release, *jobs), SlurmParams(**params), NOW_NS)


@pytest.mark.parametrize("release", RELEASES)
def test_every_version_gives_the_same_jobs(release: str) -> None:
    """The estimated end of a running job and the estimated start of a waiting one are not used."""
    waiting = job(18, "PENDING", nodes="", gres_detail=[], start_time=1_700_050_000)
    task = job(19, "NODE_FAIL", array_job_id=16, array_task_id=3, end_time=1_700_000_050, restart_cnt=1, nodes="h2",
               gres_detail=["gpu:h100:2(IDX:0-1),nic:1"])  # fmt: skip
    found = parsed(job(17), waiting, task, release=release)
    assert found.unreadable == () and found.runs == {"17": 0, "18": 0, "16_3": 1}
    common: dict[str, Any] = {"name": "train", "user": "anna", "team": "ml", "scheduler": "slurm"}
    assert found.jobs == (
        Job("17", "h0", START_NS, None, gpus=8, state="RUNNING", scheduler_ids=("17",), **common),
        Job("17", "h1", START_NS, None, gpus=4, state="RUNNING", scheduler_ids=("17",), **common),
        Job(
            "16_3", "h2", START_NS, START_NS + 50 * S, gpus=2, run=1, state="NODE_FAIL", scheduler_ids=("19",),
            array_job="16", **common,
        ),
    )  # fmt: skip


@pytest.mark.parametrize("state", FINAL)
def test_every_final_state_ends_a_job(state: str) -> None:
    """A job that started and ended in one second has a moment; one that never started has no stay."""
    brief, never = job(1, state, end_time=1_700_000_000), job(2, state, start_time=0, nodes="")
    found = parsed(brief, never)
    assert [(stay.job, stay.end_ns) for stay in found.jobs] == [("1", START_NS + 1), ("1", START_NS + 1)]


def test_a_completing_job_has_ended_and_a_suspended_one_has_not() -> None:
    """The end of a completing job is in the past; that of a suspended one is an estimate."""
    found = parsed(job(1, "COMPLETING", end_time=1_700_000_060), job(2, "SUSPENDED"), job(3, "CONFIGURING"))
    assert {stay.job: stay.end_ns for stay in found.jobs} == {"1": START_NS + 60 * S, "2": None, "3": None}
    found = parsed(job(1, "COMPLETED,COMPLETING", end_time=1_700_000_060), release="24.11.5")
    assert {stay.end_ns for stay in found.jobs} == {START_NS + 60 * S}


def test_a_requeued_job_waits_with_its_next_run() -> None:
    """It has no hosts, whatever Slurm still lists."""
    assert parsed(job(1, "PENDING", restart_cnt=1)) == Snapshot((), {"1": 1})


def test_components_of_a_heterogeneous_job_are_one_job() -> None:
    """On a host that two of them share, its GPUs are added, and it ends with the last of them."""
    first = job(17, "COMPLETED", het_job_id=17, end_time=1_700_000_010)
    second = job(18, het_job_id=17, nodes="h[1-2]", gres_detail=["gpu:1(IDX:7)", "gpu:8(IDX:0-7)"])
    stays = {stay.device: stay for stay in parsed(first, second).jobs}
    assert {stay.job for stay in stays.values()} == {"17"}
    assert [(stays[host].gpus, stays[host].scheduler_ids) for host in ("h0", "h1", "h2")] == [
        (8, ("17",)), (5, ("17", "18")), (8, ("18",)),
    ]  # fmt: skip
    assert [stays[host].end_ns for host in ("h0", "h1", "h2")] == [START_NS + 10 * S, None, None]


def test_teams_tenants_and_hosts_are_named_by_the_settings() -> None:
    """Without accounting the team is the comment, or that of the user."""
    params: dict[str, Any] = {
        "nodes": {"gpu-0": "h0"},
        "tenants": {"vision": "blue"},
        "tenant": "shared",
        "prefix": "a-",
    }
    stays = parsed(job(1, account="", comment="vision"), team_by="comment", **params).jobs
    assert {(stay.job, stay.device, stay.team, stay.tenant) for stay in stays} == {
        ("a-1", "gpu-0", "vision", "blue"), ("a-1", "h1", "vision", "blue"),
    }  # fmt: skip
    (stay, _) = parsed(job(1, account=""), team_by="user", teams={"anna": "speech"}, **params).jobs
    assert (stay.team, stay.tenant) == ("speech", "shared")
    (stay, _) = parsed(job(1, account="")).jobs
    assert (stay.team, stay.tenant) == ("", "")


def test_gpus_are_unknown_where_slurm_does_not_list_them_by_host() -> None:
    """Absent is not zero."""
    assert [stay.gpus for stay in parsed(job(1, gres_detail=[])).jobs] == [None, None]
    assert [stay.gpus for stay in parsed(job(1, gres_detail=["nic:1", "gpu:4090:2"])).jobs] == [0, 2]


@pytest.mark.parametrize(
    "part", ["gpu:nvidia_h100_80gb_hbm3_1g.10gb:7(IDX:0-6)", "gpu:1g.10gb:2", "shard:h100:4(IDX:0)", "mps:100(IDX:0)"]
)
def test_parts_of_gpus_are_no_number_of_gpus(part: str) -> None:
    """A job with MIG instances, shards or MPS has GPUs, whose number is unknown, as a pod with such resources has."""
    jobs = parsed(job(1, gres_detail=[f"{part},nic:1", "gpu:h100:2(IDX:0,3),nic:1"])).jobs
    assert [stay.gpus for stay in jobs] == [None, 2]


def test_an_unreadable_job_is_named_and_the_others_are_read() -> None:
    """A wrong host list, an unknown form of a number or a state that is none."""
    broken = [job(2, nodes="h["), job(3, start_time={"set": True, "number": 5}), job(4, ""), job(5, restart_cnt=-1)]
    found = parsed(job(1), *broken)
    assert {stay.job for stay in found.jobs} == {"1"} and found.runs == {"1": 0}
    assert [reason.partition(":")[0] for reason in found.unreadable] == [f"job {number}" for number in (2, 3, 4, 5)]


def test_numbers_that_are_not_set_or_too_large_are_no_counts() -> None:
    """NO_VAL where a version writes plain numbers; a count or a time beyond the wire's bounds is unreadable."""
    found = parsed(
        job(1, array_task_id=0xFFFFFFFE, array_job_id=0), job(2, restart_cnt=2**31), job(3, start_time=10**10)
    )
    assert {stay.job for stay in found.jobs} == {"1"} and len(found.unreadable) == 2


def test_control_characters_and_long_names_are_cut_to_what_the_wire_accepts() -> None:
    """A job's name is its user's text."""
    (stay, _) = parsed(job(1, name="a\x1b[2J" + "x" * 300)).jobs
    assert len(stay.name) == 256 and stay.name.isprintable()


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (b"", Reject, "no JSON"),
        (b"[]", Reject, "no list of jobs"),
        (b'{"jobs": []}', Reject, "22.05 or later"),
        (b'{"jobs": [], "meta": {"Slurm": {"version": "23.02.3"}}}', Reject, "22.05 or later"),
        (b'{"jobs": [], "meta": {"plugin": [], "slurm": "23.02.3"}}', Reject, "22.05 or later"),
        (answer("24.11.5", errors=[{"description": "Zero Bytes were transmitted", "error_number": 1}]), Retry,
         "Zero Bytes"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_no_list_of_no_jobs(data: bytes, error: type[Exception], message: str) -> None:
    """Each raises an error with its reason."""
    with pytest.raises(error, match=message):
        parse(data, SlurmParams(), NOW_NS)


def test_the_form_is_that_of_the_data_parser_not_of_the_release() -> None:
    """Slurmrestd of 24.05 serves v0.0.39; without a parser's name the release decides, and an old one is refused."""
    older = answer("23.02.3", job(1), meta=meta("23.02.3") | {"Slurm": {"version": {"major": 24, "minor": 5}}})
    assert len(parse(older, SlurmParams(), NOW_NS).jobs) == 2
    for version, is_read in (({"major": "24", "minor": "05"}, True), ({"major": "21", "minor": "08"}, False)):
        data = answer("23.11.1", job(1), meta={"slurm": {"version": version, "release": "x"}})
        if is_read:
            assert len(parse(data, SlurmParams(), NOW_NS).jobs) == 2
        else:
            with pytest.raises(Reject, match="x is not supported"):
                parse(data, SlurmParams(), NOW_NS)
