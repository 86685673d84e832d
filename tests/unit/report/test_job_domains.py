"""The verdict on a job separates faults of its hosts from those of its network, also in simulated findings."""

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from lab.world.effects import Effect, Interval, TrafficReduction
from lab.world.fault_placement import FaultPlacer
from lab.world.faults import FAULT_OF
from lab.world.negative_cases import slow_host, xid_of_a_program
from lab.world.scenario import START_NS
from streams.detect.detector import JobDomain
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.job_placement import FOREVER, JobAllocation
from streams.report.job.footprint import Coverage, JobFootprint, PortCoverage, job_footprint
from streams.report.job.impact import HOST_CONDITIONS, NEUTRAL_CONDITIONS, domain_of, is_coverage_gap, job_impacts
from streams.report.job.render_verdict import verdict_lines
from streams.report.job.verdict import Conclusion, Verdict
from streams.store.queries.job_history import LinkRow
from streams.wire.models import Cause, Condition, Endpoint, Finding, Severity, Subject
from tests.fixtures.findings import NS, finding
from tests.worlds.simulated_world import SimulatedWorld
from tests.worlds.small_world import findings, play

SMALL = generate(GenerateParams(gpus=64, radix=16, rails=2, gpus_per_host=4, jobs=1))
UNTIL_S = 800.0
HOST = Subject("device:h0", Endpoint("h0"), role="host")
LEAF = Subject("device:leaf", Endpoint("leaf"), role="switch")


class _Links:
    """Answers which links devices have upwards."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._rows = [
            LinkRow(link.id, *link.lower, *link.upper, link.rail, link.plane, link.pod)
            for link in world.topology.links.values()
        ]

    def query(self, sql: str, parameters: dict[str, Any] | None = None) -> list[LinkRow]:
        assert parameters is not None and "inventory_links" in sql
        return [row for row in self._rows if row.lower in parameters["devices"]]


class Injected(NamedTuple):
    """Effects without ground truth, in place of an injected fault."""

    effects: list[Effect]


class NegativeFault:
    """A negative case in place of a fault."""

    def __init__(self, effects: Any) -> None:
        self._effects = effects

    def inject(self, placer: FaultPlacer, within: Interval) -> Injected:
        return Injected(self._effects(placer, within))


def storage_stall(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Let all hosts of all jobs wait for their storage for some minutes."""
    during = Interval(within.start_ns, within.start_ns + 300 * NS)
    return [TrafficReduction(link, during, 0.1) for host in placer.devices("host") for link in placer.links_of(host)]


def verdict_of(found: list[Finding], footprint: JobFootprint, share: float = 1.0) -> Verdict:
    """Return the verdict of a job whose ports were observed for this share of its time."""
    seen = tuple(PortCoverage(link, (), share, ()) for link in footprint.host_links)
    impacts = job_impacts(footprint, [one for one in found if not is_coverage_gap(one)])
    return Verdict(footprint, impacts, (), Coverage(seen), 0.95)


@pytest.mark.parametrize(
    ("fault", "conclusion"),
    [
        (FAULT_OF["host/gpu-fault"], Conclusion.HOST),
        (FAULT_OF["host/pcie-degraded"], Conclusion.HOST),
        (NegativeFault(xid_of_a_program), Conclusion.CLEAN),
        (NegativeFault(slow_host), Conclusion.CLEAN),
        (NegativeFault(storage_stall), Conclusion.CLEAN),
        (FAULT_OF["link/flap"], Conclusion.NETWORK),
    ],
    ids=["gpu-fault", "pcie-degraded", "xid-of-a-program", "slow-host", "storage-stall", "flap"],
)
def test_only_a_fault_of_the_network_makes_it_unclean(fault: Any, conclusion: Conclusion) -> None:
    """Messages of a simulated fabric through all stages; a job on all of its hosts, whose ports were all observed."""
    world = SimulatedWorld(SMALL, fault, (150.0, 550.0), UNTIL_S)
    hosts = [device.name for device in SMALL.devices if device.kind == "host"]
    window = START_NS, START_NS + round(UNTIL_S * NS)
    own = [JobAllocation("train", host, START_NS, FOREVER) for host in hosts]
    footprint = job_footprint(_Links(world), "train", window, own)
    found = findings(play(world.messages(), world.topology))
    assert verdict_of(found, footprint).conclusion is conclusion, [(one.condition, one.summary) for one in found]


def _footprint() -> JobFootprint:
    link = LinkRow("link:h0/n--leaf/1", "h0", "n", "leaf", "1", 0, 0, "p1")
    return JobFootprint("train", (0, 1000 * NS), {"h0": [(0, 1000 * NS)]}, (link,), frozenset({link.id}),
                        frozenset({"h0", "leaf"}), frozenset({"p1"}))  # fmt: skip


def _at_host(condition: Condition, identity: str = "a", **more: Any) -> Finding:
    fields: dict[str, Any] = {"subject": HOST, "started_at_ns": 100 * NS} | more
    return finding(identity, condition=condition, **fields)


def test_every_condition_of_hosts_is_listed() -> None:
    """A new detector of the family `host` that is not would count against the network."""
    assert {one for one in Condition if one.slug.startswith("host/")} == HOST_CONDITIONS
    assert not HOST_CONDITIONS & NEUTRAL_CONDITIONS


@pytest.mark.parametrize(
    ("example", "domain"),
    [
        (_at_host(Condition.DEVICE_DOWN), JobDomain.HOST),
        (_at_host(Condition.DEVICE_DOWN, subject=LEAF), JobDomain.NETWORK),
        (_at_host(Condition.RAIL_DEGRADED, cause=Cause.PCIE), JobDomain.HOST),
        (_at_host(Condition.RAIL_DEGRADED, cause=Cause.NIC), JobDomain.NETWORK),
        (_at_host(Condition.CONGESTION_PFC_STORM, cause=Cause.PCIE), JobDomain.NETWORK),
        (_at_host(Condition.PATH_LOSS, subject=LEAF), JobDomain.NETWORK),
        (_at_host(Condition.RAIL_UNREACHABLE), JobDomain.NETWORK),
        (_at_host(Condition.FLEET_VERSION_DRIFT), JobDomain.NEITHER),
    ],
)  # fmt: skip
def test_a_finding_is_about_the_network_or_a_host_by_its_condition_subject_and_cause(
    example: Finding, domain: JobDomain
) -> None:
    """A host that is down is no network; what a host does to others is."""
    assert domain_of(example) is domain


def test_children_count_with_their_root() -> None:
    """The links of a host that restarts; a flap below a neutral root is one of the network."""
    flap = _at_host(Condition.LINK_FLAP, "flap", parent_id="root", severity=Severity.WARNING)
    for condition, conclusion in (
        (Condition.DEVICE_DOWN, Conclusion.HOST), (Condition.FLEET_VERSION_DRIFT, Conclusion.NETWORK),
    ):  # fmt: skip
        root = _at_host(condition, "root", severity=Severity.WARNING)
        assert verdict_of([root, flap], _footprint()).conclusion is conclusion


def test_without_coverage_a_fault_of_a_host_does_not_clear_the_network() -> None:
    """Unknown is not clean; a finding of the network is evidence whatever was observed."""
    xid = _at_host(Condition.HOST_GPU_FAULT, severity=Severity.CRITICAL)
    unknown = verdict_of([xid], _footprint(), share=0.5)
    assert unknown.conclusion is Conclusion.UNKNOWN and not unknown.is_covered
    lines = list(verdict_lines(unknown))
    assert "NOT KNOWN: only 50.00 % of it was observed; 1 finding about its hosts" in lines and "hosts" in lines
    both = verdict_of([xid, replace(xid, id="b", condition=Condition.LINK_DOWN)], _footprint(), share=0.5)
    assert both.conclusion is Conclusion.NETWORK
    assert "NOT CLEAN (network): 1 finding affected it; 1 finding about its hosts" in list(verdict_lines(both))
    host = verdict_of([xid], _footprint())
    assert (host.conclusion, host.is_clean, host.as_dict()["verdict"]) == (Conclusion.HOST, True, "host")
    assert "HOST: 1 finding about its hosts; its network was clean, as far as observed: 100 % of its time" in list(
        verdict_lines(host)
    )
