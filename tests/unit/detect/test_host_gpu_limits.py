"""host/nvlink-degraded and host/power-capped: tables of what does not fire, and of what is stated."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Cause, Condition, Finding, Samples, Severity, Table
from tests.worlds.host_world import FULL, GPUS, HostWorld, pcie
from tests.worlds.live_stages import in_order
from tests.worlds.observations import after, at
from tests.worlds.small_world import findings, play, recorded

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
