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
from streams.fabric.clos import PlanesAt
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
RAILS = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0)))
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

    def findings(self, until: int = 1600, every: int = 10) -> list[Finding]:
        """Return the final findings of these readings."""
        rounds = range(0, until, every)
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


def test_a_brake_is_found_however_rarely_the_host_is_read() -> None:
    """A tenth of each three minutes is one brake; one reading with it is none."""
    brakes = Case(USUAL_W, counted={(CLOCKS, 3): lambda t: min(max(0, t - 300), 900) * 1e8})
    (one,) = brakes.findings(3600, every=180)
    assert (one.condition, after(one.started_at_ns)) == (POWER, 360) and one.status is Status.RESOLVED
    once = Case(USUAL_W, counted={(CLOCKS, 3): at_times(400, growth=5e9)})
    assert once.findings(3600, every=180) == []


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
    world = HostWorld(topology=RAILS, slow={"pod1-host2/mlx5_3": [(200, 800)]})
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


@pytest.mark.parametrize(("downs", "condition", "is_together"), RAILS_OF_HOST.values(), ids=list(RAILS_OF_HOST))
def test_nvlinks_and_a_rail_that_fail_together_are_one_incident(
    downs: list[Seconds], condition: Condition, is_together: bool
) -> None:
    """The rail has the repair, and is the parent; it is as severe as the NVLinks, and names both."""

    def played(world: HostWorld) -> tuple[Finding, Finding | None]:
        own = findings(play(in_order(recorded(world, 2600)), RAILS))
        (link,) = (one for one in own if one.condition is condition)
        return link, next((one for one in own if one.condition is NVLINK), None)

    lost = {"pod1-host2/0000:9b:00.0": [(100.0, 800.0)]}
    down = {"pod1-host2/mlx5_3": downs}
    link, nvlink = played(HostWorld(topology=RAILS, down=down, unlinked=lost))
    alone, _ = played(HostWorld(topology=RAILS, down=down))
    assert nvlink is not None
    assert (link.parent_id, nvlink.parent_id) == ("", link.id if is_together else "")
    statement = "2 rails and GPUs' NVLinks of pod1-host2 failed within"
    if is_together:
        assert link.summary.startswith(statement)
        assert [one.observed for one in link.evidence if one.metric == "group"] == [2.0]
    else:
        assert replace(link, revision=0) == replace(alone, revision=0)


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


@pytest.mark.parametrize(("rails", "is_together"), REVISIONS.values(), ids=list(REVISIONS))
@pytest.mark.parametrize("is_first", [True, False])
def test_the_order_of_findings_does_not_decide_the_parent(
    rails: list[Finding], is_together: bool, is_first: bool
) -> None:
    """Only a lost rail of the same host without a cause of its own is the parent, once all is known."""
    gpu = Subject("gpu", Endpoint("p1-h1", PCI), role="nvlink")
    nvlink = replace(LINK, id="nvlink", detector="host/nvlink-degraded", condition=NVLINK, subject=gpu,
                     cause=Cause.NVLINK, started_at_ns=at(100))  # fmt: skip
    stage = begun(Attribute(DetectParams()))
    arriving = [nvlink, *rails] if is_first else [*rails, nvlink]
    outputs = [out for one in arriving for out in stage.process([Episode(one, (one.started_at_ns,))])]
    outputs += stage.advance_watermark(at(120))
    newest = {out.message.id: out.message for out in outputs if isinstance(out.message, Finding)}
    assert newest["nvlink"].parent_id == ("rail" if is_together else "")
    assert newest.get("rail", nvlink).parent_id == ""


def test_nvlinks_that_stay_degraded_long_after_the_rail_is_up_again_are_independent() -> None:
    """The NVLinks count as open for ten minutes after their end, and the rail explains them as long as both were."""
    lost = {"pod1-host2/0000:9b:00.0": [(100.0, 1500.0)]}
    world = HostWorld(topology=RAILS, down={"pod1-host2/mlx5_3": [(110.0, 200.0)]}, unlinked=lost)
    found = [one for one in play(in_order(recorded(world, 1600)), RAILS) if isinstance(one, Finding)]
    parents = [one.parent_id for one in found if one.condition is NVLINK]
    (link,) = {one.id for one in found if one.condition is DOWN}
    assert link in parents and parents[-1] == ""


@pytest.mark.parametrize("condition", [NVLINK, POWER], ids=["nvlink", "power"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_slow_host_is_the_child_of_its_gpu(condition: Condition, is_first: bool) -> None:
    """Whichever is known first; the jobs of the host wait for the GPU."""
    gpu = replace(LINK, id="gpu", detector=condition.slug, condition=condition, cause=Cause.POWER)
    slow = replace(LINK, id="slow", detector="rail/degraded", condition=Condition.RAIL_DEGRADED, cause=Cause.HOST)
    gpu = replace(gpu, subject=Subject("gpu", Endpoint("p1-h1", PCI), role="gpu"), started_at_ns=at(100))
    slow = replace(slow, subject=Subject("device:p1-h1", Endpoint("p1-h1"), role="host"), started_at_ns=at(180))
    stage = begun(Attribute(DetectParams()))
    arriving = [gpu, slow] if is_first else [slow, gpu]
    outputs = [out for one in arriving for out in stage.process([Episode(one, (one.started_at_ns,))])]
    newest = {out.message.id: out.message for out in outputs if isinstance(out.message, Finding)}
    assert (newest["slow"].parent_id, newest["gpu"].parent_id) == ("gpu", "")


@pytest.mark.parametrize("has_job", [True, False])
def test_a_rail_that_keeps_a_plane_is_as_severe_as_the_nvlinks_that_failed_with_it(has_job: bool) -> None:
    """A warning mutes no page of its child."""
    shape = DemoShape(pods=1, hosts=3, planes=8, spines=1, uplinks=1, planes_at=PlanesAt.NICS)
    fabric = demo_fabric.inventory(shape, at(0))
    top = Topology(fabric if has_job else replace(fabric, jobs=()))
    gpu = {"pod1-host2/0000:9b:00.0": [(100.0, 900.0)]}
    port = top.uplinks_of["pod1-host2"][0].lower.port
    world = HostWorld(topology=top, down={f"pod1-host2/{port}": [(110.0, 900.0)]}, unlinked=gpu)
    found = [one for one in play(in_order(recorded(world, 900)), top) if isinstance(one, Finding)]
    last = {one.condition: one for one in found}
    expected = Severity.CRITICAL if has_job else Severity.WARNING
    assert (last[DOWN].severity, last[NVLINK].severity) == (expected, expected)
    assert last[NVLINK].parent_id == last[DOWN].id


def test_nvlinks_of_a_rail_that_is_explained_by_others_are_independent() -> None:
    """Three links that a leaf loses are one case; the NVLinks of one of the hosts do not belong to it."""
    down = {f"pod1-host{host}/mlx5_3": [(110.0, 900.0)] for host in (1, 2, 3)}
    world = HostWorld(topology=RAILS, down=down, unlinked={"pod1-host2/0000:9b:00.0": [(100.0, 900.0)]})
    found = findings(play(in_order(recorded(world, 900)), RAILS))
    (nvlink,) = (one for one in found if one.condition is NVLINK)
    assert nvlink.parent_id == ""
    assert [one.parent_id for one in found if one.condition is DOWN].count("") == 1
