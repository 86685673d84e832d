"""Collective benchmarks on a job's hosts: against their peers, with their rails, and what they do to the verdict."""

from collections.abc import Sequence
from dataclasses import replace

from streams.report.job.footprint import Coverage, JobFootprint, PortCoverage
from streams.report.job.impact import Impact
from streams.report.job.render_verdict import verdict_lines
from streams.report.job.verdict import Conclusion, Verdict
from streams.report.job.witness import CollectiveReport, collective_reports
from streams.store.queries.job_history import CollectiveResult, LinkRow
from streams.wire.models import Condition, Endpoint, Subject
from tests.fixtures.findings import NS, finding

LINKS = tuple(
    LinkRow(f"link:{host}/n{rail}--leaf{rail}/1", host, f"n{rail}", f"leaf{rail}", "1", rail, 0, "p1")
    for host in ("h0", "h1")
    for rail in range(4)
)
PLACE = JobFootprint("train", (0, 1000 * NS), {"h0": [(100 * NS, 500 * NS)], "h1": [(100 * NS, 500 * NS)]}, LINKS,
                     frozenset(link.id for link in LINKS), frozenset({"h0", "h1"}), frozenset({"p1"}))  # fmt: skip
SMALL, LARGE = 1 << 10, 1 << 33
PEERS = (365.0, 370.0, 372.0, 371.0)
GPUS = tuple(f"0000:1{number}:00.0" for number in range(8))


def results(
    at_s: int, gbps: float, hosts: Sequence[str] = ("h0", "h1"), *, small: float = 0.01
) -> list[CollectiveResult]:
    """Return a benchmark of two sizes."""
    return [
        CollectiveResult(at_s * NS, f"all_reduce/float/sum/-1/{size}", 0, tuple(hosts), size, 16.0, bus * 1e9, 0.0)
        for size, bus in ((SMALL, small), (LARGE, gbps))
    ]  # fmt: skip


def reports(
    own: Sequence[CollectiveResult], peers: Sequence[float] = PEERS, gpus: Sequence[str] = GPUS
) -> tuple[CollectiveReport, ...]:
    """Return the reports about own benchmarks with peers of other hosts an hour before."""
    others = [one for number, gbps in enumerate(peers) for one in results(-3600 - number, gbps, ("h8", "h9"))]
    used = {one.at_ns: dict.fromkeys(one.hosts, tuple(gpus)) for one in [*others, *own]}
    return collective_reports(PLACE, [*others, *own], used, {})


def verdict(found: tuple[CollectiveReport, ...], *impacts: Impact) -> Verdict:
    """Return the verdict of a job that was observed."""
    return Verdict(PLACE, impacts, (), Coverage((PortCoverage(LINKS[0], (), 1.0, ()),)), 0.95, collectives=found)


def test_a_benchmark_far_below_its_peers_is_a_witness() -> None:
    """The verdict is unknown until a finding explains it."""
    (found,) = reports(results(200, 210))
    assert found.is_witness and (found.ranks, found.rails) == (16, (0, 1, 2, 3))
    (slow,) = found.slow
    assert (slow.size_bytes, slow.bus_bytes_per_s, slow.peer_bytes_per_s, slow.peers) == (LARGE, 210e9, 370.5e9, 4)
    own = verdict((found,))
    assert own.conclusion is Conclusion.UNKNOWN and own.is_clean
    lines = list(verdict_lines(own))
    assert "NOT KNOWN: no finding explains slow or wrong results of nccl-tests (1)" in lines
    assert (
        "    far below its peers: all_reduce/float/sum/-1/8589934592 210.00 GB/s, 57% of 370.50 GB/s (median of 4)"
        in lines
    )
    assert own.as_dict()["collectives"][0]["slow"][0]["peers"] == 4
    flap = finding("x", condition=Condition.LINK_FLAP, subject=Subject("device:h0", Endpoint("h0"), role="host"))
    assert verdict((found,), Impact(flap, 1, ("h0",))).conclusion is Conclusion.NETWORK


def test_what_is_near_its_peers_or_has_too_few_is_none() -> None:
    """A tenth below is within the limit; two peers are no median; peers that differ widely prove nothing."""
    for own, peers in (
        (results(200, 340), PEERS),
        (results(200, 100), PEERS[:2]),
        (results(200, 100), (90, 370, 200, 300)),
    ):
        (found,) = reports(own, peers)
        assert not found.slow, found
        assert verdict((found,)).conclusion is Conclusion.CLEAN
    assert any(line.startswith("nccl-tests") for line in verdict_lines(verdict(reports(results(200, 370)))))


def test_small_sizes_measure_latency_and_are_not_compared() -> None:
    """A tenth of the peers' bandwidth at a size where they reach nothing of the highest is no witness."""
    (found,) = reports(results(200, 370, small=0.001))
    assert not found.slow


def test_only_equal_benchmarks_are_peers() -> None:
    """Other numbers of hosts, of GPUs or of ranks of a communicator have other bandwidths."""
    (found,) = reports([one._replace(ranks=2.0) for one in results(200, 100)])
    assert not found.slow
    (found,) = reports(results(200, 100, ("h0", "h1", "h7")))
    assert not found.slow and found.hosts == ("h0", "h1", "h7")


def test_wrong_results_are_a_witness_whatever_the_speed() -> None:
    """Corrupted data."""
    (found,) = reports([one._replace(wrong=3.0) for one in results(200, 370)], ())
    assert found.wrong == 6 and verdict((found,)).conclusion is Conclusion.UNKNOWN
    assert "    WRONG RESULTS: 6 elements" in list(verdict_lines(verdict((found,))))


def test_benchmarks_of_other_times_and_hosts_are_not_of_the_job() -> None:
    """Those before its start, after its end, and on other hosts are peers only."""
    for own in (results(50, 100), results(600, 100), results(200, 100, ("h8", "h9"))):
        assert reports(own) == ()


def test_rails_follow_from_the_gpus_that_the_host_reports() -> None:
    """One GPU of eight is of one rail of four; without the host's GPUs its rail is not known."""
    own = results(200, 370)
    used = {own[0].at_ns: {"h0": (GPUS[5],), "h1": (GPUS[5],)}}
    (found,) = collective_reports(PLACE, own, used, {"h0": GPUS, "h1": GPUS})
    assert found.rails == (2,)
    (found,) = collective_reports(PLACE, own, used, {})
    assert found.rails == ()
    (found,) = collective_reports(replace(PLACE, host_links=()), own, used, {"h0": GPUS})
    assert found.rails == ()
