"""path/loss by the retransmits of NICs, on fabrics that spray packets: negative cases first, then what is found."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.fabric.catalogue import Metric
from streams.fabric.clos import PlanesAt
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import Cause, Condition, Finding, Samples, Severity, Source, Status
from tests.worlds.observations import at, last, samples
from tests.worlds.small_world import findings, play

PLANES = 4
BYTES_S = 10e9
BEGIN, END = 240, 720


def topology(balancing: str = "sprayed", planes: int = PLANES, *, jobs: bool = True) -> Topology:
    """Return two pods of six hosts whose NICs have a port on each plane."""
    shape = DemoShape(pods=2, hosts=6, planes=planes, planes_at=PlanesAt.NICS)
    inventory = demo_fabric.inventory(shape, at(0))
    devices = tuple(
        one._replace(load_balancing=balancing) if one.kind == "switch" else one  # type: ignore[arg-type]
        for one in inventory.devices
    )
    return Topology(replace(inventory, devices=devices, jobs=inventory.jobs if jobs else ()))


TOP, SINGLE = topology(), topology(planes=1)
HOSTS = tuple(sorted(name for name, device in TOP.devices.items() if device.kind == "host"))
JOB = max(TOP.placement.jobs_on(HOSTS, at(0)), key=lambda job: len(TOP.placement.hosts_of(job, at(0))))
MEMBERS = TOP.placement.hosts_of(JOB, at(0))


def rails(top: Topology, host: str) -> list[TopologyLink]:
    """Return the links of a host's rails."""
    return [link for link in top.uplinks_of[host] if link.rail is not None]


LEAF, SINGLE_LEAF = (rails(top, HOSTS[0])[0].upper.device for top in (TOP, SINGLE))
Retries = Callable[[TopologyLink], float]
"""The time-outs a second of a host's port."""


def readings(
    top: Topology, retries: Retries, uncounted: Collection[int] = (), until: float = 1440
) -> Iterator[Samples]:
    """Yield the readings of all NICs each 30 s; ports of the planes `uncounted` have no counter of time-outs."""
    for turn in range(int(until / 30)):
        t = turn * 30.0
        for host in HOSTS:
            links = rails(top, host)
            during = max(0.0, min(t, END) - BEGIN)
            sent: dict[str, float | None] = {link.lower.port: BYTES_S * t for link in links}
            timeouts: dict[str, float | None] = {
                link.lower.port: None if link.plane in uncounted else int(retries(link) * during) for link in links
            }
            values = {Metric.TX_BYTES: sent, Metric.RX_BYTES: sent, Metric.LOCAL_ACK_TIMEOUTS: timeouts}
            yield samples(host, t, values, source=Source.SOURCE_NIC, sequence=turn)


def found(top: Topology, retries: Retries, uncounted: Collection[int] = ()) -> list[Finding]:
    """Return the last revisions of path/loss."""
    published = findings(play(list(readings(top, retries, uncounted)), top))
    return [one for one in last(published) if one.condition is Condition.PATH_LOSS]


@dataclass(frozen=True)
class Quiet:
    """Retransmits that name no path."""

    retries: Retries
    top: Topology = TOP
    uncounted: tuple[int, ...] = ()


NONE = {
    "nothing retransmits": Quiet(lambda _: 0.0),
    "below the limit": Quiet(lambda link: 0.8 if link.plane == 2 else 0.0),
    "all planes: congestion, or a receiver that drains slowly": Quiet(lambda _: 5.0),
    "most planes": Quiet(lambda link: 5.0 if link.plane != 2 else 0.0),
    "one host: its NIC or its cable": Quiet(
        lambda link: 5.0 if link.plane == 2 and link.lower.device == HOSTS[0] else 0.0),
    "two hosts below a leaf of six": Quiet(
        lambda link: 5.0 if link.upper.device == LEAF and link.lower.device in HOSTS[:2] else 0.0),
    "ECMP: each flow has one path, and probes show it": Quiet(
        lambda link: 5.0 if link.plane == 2 else 0.0, topology("ecmp")),
    "the balancing is not declared": Quiet(lambda link: 5.0 if link.plane == 2 else 0.0, topology("")),
    "counters of the whole rail at its first port": Quiet(
        lambda link: 5.0 if link.plane == 0 else 0.0, uncounted=(1, 2, 3)),
    "one plane only: nothing to compare": Quiet(lambda _: 5.0, SINGLE),
}  # fmt: skip


@pytest.mark.parametrize("case", NONE.values(), ids=NONE)
def test_what_names_no_path(case: Quiet) -> None:
    """Congestion, single hosts, little loss, and fabrics whose paths probes show."""
    assert found(case.top, case.retries, case.uncounted) == []


SOME: dict[str, tuple[Quiet, str, Cause, str]] = {
    "a plane": (
        Quiet(lambda link: 5.0 if link.plane == 2 else 0.0), "plane:2", Cause.PLANE,
        "hosts retransmit in plane 2, not in most planes of their rails"),
    "a plane, at the hosts of one job": (
        Quiet(lambda link: 5.0 if link.plane == 1 and link.lower.device in MEMBERS else 0.0), "plane:1", Cause.PLANE,
        "in plane 1"),
    "a leaf": (
        Quiet(lambda link: 5.0 if link.upper.device == LEAF else 0.0), f"device:{LEAF}", Cause.SWITCH,
        f"below {LEAF}, not in most planes of their rails"),
    "a leaf, with switches that adapt and no jobs": (
        Quiet(lambda link: 5.0 if link.upper.device == LEAF else 0.0, topology("adaptive", jobs=False)),
        f"device:{LEAF}", Cause.SWITCH, f"of 6 hosts retransmit below {LEAF}"),
    "a leaf of a fabric with one plane": (
        Quiet(lambda link: 5.0 if link.upper.device == SINGLE_LEAF else 0.0,
              SINGLE),
        f"device:{SINGLE_LEAF}", Cause.SWITCH, "unlike other leaves"),
}  # fmt: skip


@pytest.mark.parametrize(("case", "subject", "cause", "summary"), SOME.values(), ids=SOME)
def test_what_names_a_path(case: Quiet, subject: str, cause: Cause, summary: str) -> None:
    """One warning, from the first window with retransmits to the last, with the hosts and jobs that it affects."""
    (finding,) = found(case.top, case.retries)
    assert (finding.subject.id, finding.cause, finding.severity) == (subject, cause, Severity.WARNING)
    assert finding.status is Status.RESOLVED
    assert finding.final
    assert summary in finding.summary
    assert abs(finding.started_at_ns - at(BEGIN)) <= 60e9
    assert finding.resolved_at_ns is not None
    assert abs(finding.resolved_at_ns - at(END)) <= 60e9
    assert finding.blast_radius is not None
    assert len(finding.blast_radius.hosts) >= 3
