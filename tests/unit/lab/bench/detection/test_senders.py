"""Counts named senders: of the incasts that were found, by their evidence."""

from dataclasses import replace

from lab.bench.detection.outcome import NamedSenders, named_senders
from lab.world.ground_truth import GroundTruth, InjectedFault
from streams.replay.score import Truth
from streams.wire.models import Condition, Endpoint, Evidence, Finding, Severity, Status, Subject

HOSTS = ("h1", "h2", "h3", "h4")
TRUTH = Truth(100 * 10**9, 200 * 10**9, Condition.CONGESTION_INCAST, "h1", "mlx5_0", 10)
FAULT = InjectedFault((GroundTruth(TRUTH, TRUTH.start_ns),), (), "marked", senders=("h2", "h3"))


def incast(statement: str, start_s: int = 100, metric: str = "cnp_handled") -> Finding:
    receiver, leaf = Endpoint("h1", "mlx5_0"), Endpoint("l1", "p1")
    return Finding(
        id="f", revision=1, final=True, condition=Condition.CONGESTION_INCAST, status=Status.RESOLVED,
        severity=Severity.WARNING, subject=Subject("link", a=receiver, z=leaf), started_at_ns=start_s * 10**9,
        observed_at_ns=start_s * 10**9, evidence=(Evidence(statement, metric=metric),),
    )  # fmt: skip


def test_the_hosts_of_the_evidence_are_named() -> None:
    """Those that the simulation drew, and others; the receiver is none."""
    found = incast("job j receives on h1; most likely senders: h2, h4, throttled by up to 9 notifications")
    assert named_senders([FAULT], [found], HOSTS) == NamedSenders(caused=2, named=1, others=1)


def test_what_is_no_finding_of_the_fault_names_none() -> None:
    """Another time, another evidence, and a retracted finding."""
    text = "most likely senders in other pods: h2, h3, throttled"
    assert named_senders([FAULT], [incast(text)], HOSTS) == NamedSenders(2, 2, 0)
    for other in (
        incast(text, 500), incast(text, metric="tx_bytes"), replace(incast(text), status=Status.RETRACTED),
    ):  # fmt: skip
        assert named_senders([FAULT], [other], HOSTS) == NamedSenders(2, 0, 0)
    assert named_senders([replace(FAULT, senders=())], [incast(text)], HOSTS) == NamedSenders()
