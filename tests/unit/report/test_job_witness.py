"""NCCL's reports about a job: with the rail of the HCA, once each, and what they do to the verdict."""

from dataclasses import replace

from streams.report.job.footprint import Coverage, JobFootprint, PortCoverage
from streams.report.job.impact import Impact
from streams.report.job.render_verdict import verdict_lines
from streams.report.job.verdict import Conclusion, Verdict
from streams.report.job.witness import witness_reports
from streams.store.queries.job_history import LinkRow, NcclEvent
from streams.store.queries.jobs import RailBandwidth
from streams.wire.models import Condition, Endpoint, Subject
from streams.wire.nccl_codes import NcclCode
from tests.fixtures.findings import NS, finding

LINK = LinkRow("link:h0/n3--leaf/1", "h0", "n3", "leaf", "1", 3, 0, "p1")
PLACE = JobFootprint("train", (0, 1000 * NS), {"h0": [(100 * NS, 500 * NS)], "h1": [(100 * NS, 500 * NS)]}, (LINK,),
                     frozenset({LINK.id}), frozenset({"h0", "h1", "leaf"}), frozenset({"p1"}))  # fmt: skip
RETRIES = NcclEvent("h0", "mlx5_3", 200 * NS, 12, "Got completion with status=12 hca mlx5_3")
DEAD = NcclEvent("h1", "", 210 * NS, NcclCode.DEAD, "rank 9 on h9 of communicator c is considered dead")
NAMES = {("h0", "mlx5_3"): {"mlx5_3", "n3"}}


def verdict(*events: NcclEvent, impacts: tuple[Impact, ...] = (), share: float = 1.0) -> Verdict:
    """Return the verdict of a job whose port was observed for this share."""
    coverage = Coverage((PortCoverage(LINK, (), share, ()),))
    return Verdict(PLACE, impacts, (), coverage, 0.95, witness_reports(PLACE, events, NAMES))


def test_a_report_has_the_rail_of_its_hca_and_is_listed_once() -> None:
    """Hosts of one job report the same peer; what was before the job is not of it."""
    again, before = DEAD._replace(device="h0", at_ns=220 * NS), RETRIES._replace(at_ns=50 * NS)
    own = witness_reports(PLACE, [before, RETRIES, DEAD, again, DEAD._replace(device="other")], NAMES)
    assert [(one.host, one.port, one.rail, one.code) for one in own] == [("h0", "mlx5_3", 3, 12), ("h1", "", None, -6)]


def test_transport_errors_that_no_finding_explains_are_unknown() -> None:
    """A dead peer alone is no error of the network; a fault of a host explains what its peers report."""
    lines = list(verdict_lines(verdict(RETRIES, DEAD)))
    assert "NOT KNOWN: no finding explains transport errors of NCCL (1)" in lines
    assert "  1970-01-01 00:03:20Z  h0 mlx5_3 (rail 3): Got completion with status=12 hca mlx5_3" in lines
    assert verdict(RETRIES).conclusion is Conclusion.UNKNOWN and verdict(RETRIES).is_clean
    assert verdict(DEAD).conclusion is Conclusion.CLEAN
    xid = finding("x", condition=Condition.HOST_GPU_FAULT, subject=Subject("device:h0", Endpoint("h0"), role="host"))
    assert verdict(RETRIES, impacts=(Impact(xid, 1, ("h0",)),)).conclusion is Conclusion.HOST
    flap = replace(xid, condition=Condition.LINK_FLAP)
    assert verdict(RETRIES, impacts=(Impact(flap, 1, ("h0",)),)).conclusion is Conclusion.NETWORK
    assert verdict(DEAD, share=0.1).conclusion is Conclusion.UNKNOWN


def test_the_bandwidth_of_rails_is_listed_and_decides_nothing() -> None:
    """A job may send less than it could; the host that delivered least is named."""
    slow = replace(verdict(), rails=(RailBandwidth(3, 16, 400e9, 0.31, "h1", 0.04),))
    assert "  rail 3: 31% of 400 Gb/s, mean of 16 ports; least h1, 4%" in list(verdict_lines(slow))
    assert slow.conclusion is verdict().conclusion is Conclusion.CLEAN
    (rail,) = slow.as_dict()["rails"]
    assert (rail["rail"], rail["delivered_ratio"], rail["slowest_host"]) == (3, 0.31, "h1")
