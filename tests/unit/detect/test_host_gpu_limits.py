"""host/nvlink-degraded and host/power-capped: tables of what does not fire, and of what is stated."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.attribute.stage import Attribute
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import (
    NO_INDEX,
    Cause,
    Condition,
    Endpoint,
    Episode,
    Finding,
    Samples,
    Severity,
    Status,
    Subject,
    Table,
)
from tests.worlds.host_world import FULL, GPUS, HostWorld, pcie
from tests.worlds.live_stages import in_order
from tests.worlds.observations import after, at
from tests.worlds.small_fabric import begun
from tests.worlds.small_world import Seconds, findings, play, recorded

UP, LINKS, STATE = Metric.NVLINK_LINKS_UP, Metric.NVLINK_LINKS, Metric.GPU_FABRIC_STATE
FAULTS = Metric.GPU_FABRIC_FAULTS
LIMIT, SET = Metric.GPU_POWER_LIMIT_W, Metric.GPU_POWER_LIMIT_SET_W
RECOVERIES, ERRORS, CLOCKS = Metric.NVLINK_RECOVERIES, Metric.NVLINK_EFFECTIVE_ERRORS, Metric.GPU_CLOCK_LIMITED_NS
NVLINK, POWER = Condition.HOST_NVLINK_DEGRADED, Condition.HOST_POWER_CAPPED
PCI = GPUS[3]
Count = Callable[[float], float]
"""The count of one counter of the fourth GPU by the time."""
Level = dict[tuple[Metric, int], float]
"""Gauges of all GPUs, or of the fourth."""


def gpus(
    t: float, usual: Level, own: Level, counted: Mapping[tuple[Metric, int], Count], boot_id: int = 1
) -> Samples:  # fmt: skip
    """Return one reading of a host's GPUs; the fourth one has other values."""
    read = pcie(
        "p1-h1", t, dict.fromkeys(GPUS, FULL), busy=dict.fromkeys(GPUS, 0.97), boot_id=boot_id, sequence=round(t)
    )
    levels = np.array([[{**usual, **own}[c] if gpu == PCI else usual[c] for gpu in GPUS] for c in usual])
    gauges = Table(
        (*read.gauges.metric, *(metric for metric, _ in usual)), (*read.gauges.index, *(index for _, index in usual)),
        np.vstack([read.gauges.values, levels.reshape(len(usual), len(GPUS))]),
    )  # fmt: skip
    counts = np.array([[count(t) if gpu == PCI else 0 for gpu in GPUS] for count in counted.values()], np.uint64)
    counters = Table(
        tuple(metric for metric, _ in counted), tuple(index for _, index in counted),
        counts.reshape(len(counted), len(GPUS)),
    )  # fmt: skip
    return replace(read, gauges=gauges, counters=counters)


class Case(NamedTuple):
    """Readings of a host: what all of its GPUs read, and what the fourth one reads instead, and counts."""

    usual: Level
    own: Callable[[float], Level] = lambda _: {}
    counted: Mapping[tuple[Metric, int], Count] = {}
    boots: Callable[[float], int] = lambda _: 1

    def findings(self, until: int = 1600) -> list[Finding]:
        """Return the final findings of these readings, every ten seconds."""
        rounds = range(0, until, 10)
        return findings(play(gpus(t, self.usual, self.own(t), self.counted, self.boots(t)) for t in rounds))


def between(begin: float, end: float, own: Level) -> Callable[[float], Level]:
    """Return the values of the fourth GPU from `begin` to before `end`."""
    return lambda t: own if begin <= t < end else {}


def at_times(*times: float, growth: float = 1) -> Count:
    """Return a counter that grows before each of these times."""
    return lambda t: growth * sum(t >= time for time in times)


ALL_UP: Level = {(UP, NO_INDEX): 18.0, (LINKS, NO_INDEX): 18.0, (STATE, NO_INDEX): 3.0}
UNREGISTERED: Level = {(UP, NO_INDEX): 12.0, (LINKS, NO_INDEX): 18.0, (STATE, NO_INDEX): 1.0}
HEALTHY: Level = {(FAULTS, kind): 0.0 for kind in range(7)}
USUAL_W: Level = {(LIMIT, NO_INDEX): 700.0, (SET, NO_INDEX): 700.0}
NOTHING = {
    "all links are up": Case(ALL_UP),
    "12 of 18 links at all GPUs, and no fabric manager": Case(UNREGISTERED),
    "no NVLink is used": Case({(UP, NO_INDEX): 0.0, (LINKS, NO_INDEX): 18.0}),
    "down for 50 s": Case(ALL_UP, between(100, 150, {(UP, NO_INDEX): 17.0})),
    "a gauge that is absent": Case(ALL_UP, between(100, 900, {(UP, NO_INDEX): float("nan")})),
    "configuration, partition, manager": Case(HEALTHY, between(100, 900, {(FAULTS, k): 1.0 for k in (4, 5, 6)})),
    "one recovery": Case(ALL_UP, counted={(RECOVERIES, 4): at_times(500)}),
    "recoveries far apart": Case(ALL_UP, counted={(RECOVERIES, 4): at_times(100, 900)}),
    "0.1 errors a second": Case(ALL_UP, counted={(ERRORS, 4): lambda t: t // 10}),
    "usual limits": Case(USUAL_W),
    "a limit that is configured for all": Case({(LIMIT, NO_INDEX): 500.0, (SET, NO_INDEX): 500.0}),
    "3 % below": Case(USUAL_W, between(100, 900, {(LIMIT, NO_INDEX): 680.0})),
    "low for 50 s": Case(USUAL_W, between(100, 150, {(LIMIT, NO_INDEX): 400.0})),
    "the power cap under load": Case(USUAL_W, counted={(CLOCKS, 0): lambda t: t * 9e8}),
    "a brake of 0.1 %": Case(USUAL_W, counted={(CLOCKS, 3): lambda t: t * 1e6}),
}


@pytest.mark.parametrize("case", NOTHING.values(), ids=list(NOTHING))
def test_what_does_not_fire(case: Case) -> None:
    """Configuration, load, and what the links repair."""
    assert case.findings() == []


LINKED, CAPPED = (NVLINK, Cause.NVLINK), (POWER, Cause.POWER)
STATED = {
    "lost link": (
        Case(ALL_UP, between(100, 700, {(UP, NO_INDEX): 17.0})), LINKED, "17 of 18 NVLinks are active", (100, 700),
    ),
    "half of all links": (Case(ALL_UP | {(UP, NO_INDEX): 9.0}), LINKED, "9 of 18 NVLinks are active", (0, None)),
    "lost link without a manager": (
        Case(UNREGISTERED, between(100, 700, {(UP, NO_INDEX): 11.0})), LINKED, "11 of 12 NVLinks are active",
        (100, 700),
    ),
    "fabric": (Case(HEALTHY, between(100, 700, {(FAULTS, 2): 1.0})), LINKED, "its route is unhealthy", (100, 700)),
    "recoveries": (
        Case(ALL_UP, counted={(RECOVERIES, 4): at_times(100, 300, 500)}), LINKED, "NVLink 4 repeatedly trains again",
        (100, 500),
    ),
    "errors": (
        Case(ALL_UP, counted={(ERRORS, 17): lambda t: max(0, t - 100) * 5}), LINKED, "NVLink 17 has errors after FEC",
        (110, None),
    ),
    "platform cap": (
        Case(USUAL_W, between(100, 700, {(LIMIT, NO_INDEX): 400.0})), CAPPED, "is limited to 400 W, of 700 W",
        (100, 700),
    ),
    "configured cap of one GPU": (
        Case(USUAL_W, between(100, 700, {(LIMIT, NO_INDEX): 400.0, (SET, NO_INDEX): 400.0})), CAPPED,
        "is limited to 400 W, of 700 W", (100, 700),
    ),
    "brake": (
        Case(USUAL_W, counted={(CLOCKS, 3): lambda t: min(max(0, t - 100), 200) * 5e8}), CAPPED,
        "is slowed down by its power brake", (110, 300),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("case", "fault", "text", "span"), STATED.values(), ids=list(STATED))
def test_what_is_stated(
    case: Case, fault: tuple[Condition, Cause], text: str, span: tuple[int, int | None]
) -> None:  # fmt: skip
    """The finding is at the GPU, and has its links or its limit, and when it began and was over."""
    own = case.findings()[0]
    assert ((own.condition, own.cause), own.severity) == (fault, Severity.WARNING)
    assert own.subject.id.startswith("port:p1-h1/0000:")
    assert text in own.summary and text in own.evidence[0].statement
    resolved = None if own.resolved_at_ns is None else after(own.resolved_at_ns)
    assert (after(own.started_at_ns), resolved) == span


def test_two_states_of_one_gpu_are_one_finding_until_both_are_over() -> None:
    """Links that are back do not end it while the fabric is unhealthy."""

    def own(t: float) -> Level:
        lost = {(UP, NO_INDEX): 17.0} if 100 <= t < 300 else {}
        return lost | ({(FAULTS, 0): 1.0} if 200 <= t < 600 else {})

    (one,) = Case(ALL_UP | HEALTHY, own).findings()
    assert one.resolved_at_ns is not None
    assert (after(one.started_at_ns), after(one.resolved_at_ns)) == (100, 600)
    assert "17 of 18" in one.summary


@pytest.mark.parametrize(("until", "begins"), [(450, []), (2000, [510])])
def test_links_that_train_after_a_restart_have_five_minutes(until: int, begins: list[int]) -> None:
    """The finding of a link that stays down begins when they are over."""
    case = Case(
        ALL_UP, between(210, until, {(UP, NO_INDEX): 3.0}), {(RECOVERIES, 0): at_times(220, 330, 440)},
        lambda t: 1 if t < 210 else 2,
    )  # fmt: skip
    assert [after(one.started_at_ns) for one in case.findings(900) if one.condition is NVLINK] == begins


@pytest.mark.parametrize(("fault", "condition"), [("unlinked", NVLINK), ("capped", POWER)])
def test_a_slow_rail_of_the_host_is_its_child(fault: str, condition: Condition) -> None:
    """The GPU is the cause of what its rail carries less."""
    rails = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0)))
    world = HostWorld(topology=rails, slow={"pod1-host2/mlx5_3": [(200, 800)]})
    setattr(world, fault, {"pod1-host2/0000:9b:00.0": [(100, 900)]})
    found = findings(play(in_order(recorded(world, 1200)), world.topology))
    (parent,) = (one for one in found if one.condition is condition)
    (rail,) = (one for one in found if one.condition is Condition.RAIL_DEGRADED)
    assert (parent.parent_id, rail.parent_id) == ("", parent.id)


DOWN, FLAP = Condition.LINK_DOWN, Condition.LINK_FLAP
RAILS_OF_HOST = {
    "down 10 s after it": ([(110.0, 500.0)], DOWN, True),
    "down 40 s before it": ([(60.0, 500.0)], DOWN, True),
    "down five minutes after it": ([(400.0, 700.0)], DOWN, False),
    "down five minutes before it, and up again": ([(-200.0, 60.0)], DOWN, False),
    "three short downs": ([(t, t + 4.0) for t in (120.0, 140.0, 160.0)], FLAP, True),
}


@pytest.mark.parametrize(("downs", "condition", "is_named"), RAILS_OF_HOST.values(), ids=list(RAILS_OF_HOST))
def test_rails_that_fail_with_the_nvlinks_are_named_and_stay_independent(
    downs: list[Seconds], condition: Condition, is_named: bool
) -> None:
    """The finding of the link is as without the NVLinks: it pages and is repaired by itself."""

    def of_link(world: HostWorld) -> tuple[list[Finding], list[Finding]]:
        own = findings(play(in_order(recorded(world, 1500))))
        links = [replace(one, revision=0) for one in own if one.condition is condition]
        return links, [one for one in own if one.condition is NVLINK]

    lost = {f"p1-h1/{PCI}": [(100.0, 900.0)]}
    links, (nvlink,) = of_link(HostWorld(down={"p1-h1/e0": downs}, unlinked=lost))
    assert links and links == of_link(HostWorld(down={"p1-h1/e0": downs}))[0]
    assert all(one.parent_id == "" for one in (nvlink, *links))
    named = [one.statement for one in nvlink.evidence if one.metric == "group"]
    rail = f"p1-h1/e0 ({condition.slug})"
    expected = f"rails of p1-h1 failed within a minute of it: {rail}; they and the GPU share board and power"
    assert named == ([expected] if is_named else [])


LINK = Finding(
    id="rail", detector="link/down", condition=DOWN, status=Status.OPEN, revision=1, started_at_ns=at(110),
    subject=Subject("link", Endpoint("p1-h1", "e0"), Endpoint("p1-l0", "d0")), severity=Severity.WARNING,
    cause=Cause.UNKNOWN, final=False, observed_at_ns=at(110),
)  # fmt: skip
OF_OTHERS = Subject("link", Endpoint("p1-h2", "e0"), Endpoint("p1-l0", "d1"))
REVISIONS = {
    "unreachable": ([replace(LINK, condition=Condition.RAIL_UNREACHABLE, detector="rail/unreachable")], True),
    "its module was removed": ([replace(LINK, cause=Cause.MODULE_REMOVED)], False),
    "of another host": ([replace(LINK, subject=OF_OTHERS)], False),
    "a slow link": ([replace(LINK, condition=Condition.LINK_DEGRADING, detector="link/degrading")], False),
    "it began earlier after all": ([LINK, replace(LINK, revision=2, started_at_ns=at(0))], False),
    "it was retracted": ([LINK, replace(LINK, revision=2, status=Status.RETRACTED)], False),
}


@pytest.mark.parametrize(("rails", "is_named"), REVISIONS.values(), ids=list(REVISIONS))
@pytest.mark.parametrize("is_first", [True, False])
def test_the_order_of_findings_does_not_decide_the_named_rails(
    rails: list[Finding], is_named: bool, is_first: bool
) -> None:
    """Only lost rails of the same host without a cause of their own are named, once all is known."""
    gpu = Subject("gpu", Endpoint("p1-h1", PCI), role="nvlink")
    nvlink = replace(LINK, id="nvlink", detector="host/nvlink-degraded", condition=NVLINK, subject=gpu,
                     cause=Cause.NVLINK, started_at_ns=at(100))  # fmt: skip
    stage = begun(Attribute(DetectParams()))
    arriving = [nvlink, *rails] if is_first else [*rails, nvlink]
    newest = {o.message.id: o.message for one in arriving for o in stage.process([Episode(one, (one.started_at_ns,))])
              if isinstance(o.message, Finding)}  # fmt: skip
    assert ("group" in {one.metric for one in newest["nvlink"].evidence}) is is_named
    assert {one.parent_id for one in newest.values()} == {""}
