"""The congestion detectors over the simulated fabric: storms are found with their root, and nothing else is."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.congestion import Collapse, Imbalance, Incast, PauseStorm, pause_storm
from lab.world.faults.devices import Reboot
from lab.world.faults.hosts import SlowRail
from lab.world.faults.links import LinkDown
from lab.world.ground_truth import AnyFault, truth_rows
from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.replay.driver import drive
from streams.replay.score import Truth, score
from streams.wire.models import NO_INDEX, Cause, Condition, Finding, RowKind, Samples, Source, Table
from tests.worlds.small_world import stages

S = 10**9
START = 1_700_000_000 * S
FABRIC = demo_fabric.inventory(DemoShape(pods=2, hosts=3, planes=1, spines=2, uplinks=1), START)
COLUMNS = (
    (Metric.RX_BYTES, NO_INDEX), (Metric.TX_BYTES, NO_INDEX), (Metric.PFC_RX_FRAMES, 3), (Metric.PFC_TX_FRAMES, 3),
    (Metric.RX_PACKETS, NO_INDEX), (Metric.ROCE_ECN_MARKED_PACKETS, NO_INDEX),
    (Metric.CNP_HANDLED, NO_INDEX),
)  # fmt: skip
LAST_S = 420
WIDE = demo_fabric.inventory(DemoShape(pods=1, hosts=2, planes=1, spines=4, uplinks=1), START)


def readings(world: DemoWorld, cadence_s: float, last_s: float = LAST_S) -> Iterator[Samples]:
    """Yield the counters of all ports, each device at its own offset, without readings while it is down."""
    metrics, indices = tuple(m for m, _ in COLUMNS), tuple(i for _, i in COLUMNS)
    for number, (device, ports) in enumerate(world.ports.items()):
        for turn in range(int(last_s / cadence_s)):
            at_ns = START + int(cadence_s * S * (turn + number % 7 / 7))
            state = world.device(device, at_ns)
            if not state.is_up:
                continue
            own = [world.port(device, port, at_ns) for port in ports]
            counts = [
                [p.rx_bytes for p in own], [p.tx_bytes for p in own], [p.pause_frames(p.paused_us) for p in own],
                [p.pause_frames(p.pauses_us) for p in own], [p.rx_packets for p in own],
                [p.marked_packets for p in own], [p.cnps_handled for p in own],
            ]  # fmt: skip
            states = [[float(p.oper_up) for p in own], [float(p.speed_bps) for p in own]]
            yield Samples(
                device, Source.SOURCE_GNMI, "c", 1, turn, at_ns, at_ns, state.boot_ns, RowKind.ROW_KIND_PORT, ports, 0,
                Table(metrics, indices, np.array(counts, np.uint64)),
                Table((Metric.OPER_UP, Metric.SPEED_BPS), (NO_INDEX,) * 2, np.array(states)),
            )  # fmt: skip


def storms(inventory: Inventory, chance: random.Random) -> list[AnyFault]:
    """Five NICs that pause one after the other, some over both pods; a leaf that restarts, and a slow rail."""
    links = [link for link in inventory.links if link.role == "host-link"]
    chance.shuffle(links)
    made: list[AnyFault] = []
    for n, link in enumerate(links[:5]):
        begin = START + int((20 + 75 * n + chance.uniform(0, 20)) * S)
        made.append(
            pause_storm(inventory, link, Interval(begin, begin + int(chance.uniform(4, 30) * S)), chance.randint(1, 3))
        )
    made.append(Reboot("spine2", Interval(START + 60 * S, START + 68 * S)))
    return [*made, SlowRail(links[5], Interval(START + 30 * S, START + 300 * S), 0.5)]


def storm_findings(made: list[AnyFault], seed: int, cadence_s: float) -> list[Finding]:
    """Return the findings about storms in a world with these faults."""
    world = DemoWorld(FABRIC, made, seed, START)
    rows = sorted(readings(world, cadence_s), key=lambda row: row.sampled_at_ns)
    result = drive(stages(), Topology(FABRIC), rows, 30 * S)
    return [f for f in result if isinstance(f, Finding) and f.condition is Condition.CONGESTION_PFC_STORM]


@pytest.mark.parametrize("seed", [31, 32, 33])
def test_storms_are_found_with_their_root_within_five_seconds(seed: int) -> None:
    """Precision and recall are 1 at a cadence of a second; the port that began it has no parent, all others have."""
    made = storms(FABRIC, random.Random(seed))
    result = storm_findings(made, seed, 1.0)
    truths = [Truth(t.start, t.end, Condition.CONGESTION_PFC_STORM, t.device, t.port, t.tolerance_s)
              for t in truth_rows(made) if t.condition == "congestion_pfc_storm"]  # fmt: skip
    found = score(result, truths)
    assert (found.precision, found.recall) == (1.0, 1.0), found
    assert max(match.delay_s for match in found.found) <= 5 + 1e-6
    newest = {f.id: f for f in result}.values()
    spread = {pause.port for f in made if isinstance(f, PauseStorm) for pause in f.spread}
    children = {(e.device, e.port) for f in newest if f.parent_id for e in (f.evidence[0].at,) if e is not None}
    assert children <= spread
    assert len([f for f in newest if not f.parent_id]) == len(truths)


def test_a_storm_that_is_read_each_ten_seconds_is_found_by_the_first_whole_interval() -> None:
    """The storm is longer than the interval, so that one whole interval shows it."""
    link = next(link for link in FABRIC.links if link.role == "host-link")
    made: list[AnyFault] = [pause_storm(FABRIC, link, Interval(START + 100 * S, START + 160 * S))]
    result = storm_findings(made, 1, 10.0)
    (root,) = [f for f in {f.id: f for f in result}.values() if not f.parent_id]
    assert root.detected_at_ns is not None
    assert root.detected_at_ns - (START + 100 * S) <= 20 * S


def uneven(chance: random.Random) -> list[AnyFault]:
    """Four leaves that spread badly, one for three minutes; two that lose an uplink, one that restarts."""
    leaves = [device.name for device in WIDE.devices if device.tier == "T0"]
    chance.shuffle(leaves)
    links = [link for link in WIDE.links if link.role == "fabric-link"]
    made: list[AnyFault] = []
    for n, leaf in enumerate(leaves[:5]):
        uplinks = [link for link in links if link.a_device == leaf]
        chance.shuffle(uplinks)
        begin_s, lasting_s = chance.uniform(30, 300), chance.uniform(480, 900) if n < 4 else 170
        shift = chance.choice([0.3, 0.6, -0.5])
        shifts = (shift, *[-shift / (len(uplinks) - 1)] * (len(uplinks) - 1))
        loads = tuple((link, link.a, 0.47 * (1 + own)) for link, own in zip(uplinks, shifts, strict=True))
        made.append(Imbalance(leaf, _span(begin_s, lasting_s), loads))
    for leaf in leaves[5:7]:
        link = chance.choice([link for link in links if link.a_device == leaf])
        made.append(LinkDown(link, _span(chance.uniform(60, 300), 500)))
    made.append(Reboot(leaves[7], _span(300, 20)))
    return made


def _span(after_s: float, lasting_s: float) -> Interval:
    return Interval(START + int(after_s * S), START + int((after_s + lasting_s) * S))


@pytest.mark.parametrize("seed", [41, 42, 43])
def test_uneven_uplinks_are_found_and_lost_ones_bursts_and_restarts_are_not(seed: int) -> None:
    """Precision and recall are 1, each within seven minutes: five windows, their beginning, and the lateness."""
    made = uneven(random.Random(seed))
    rows = sorted(readings(DemoWorld(WIDE, made, seed, START), 15.0, 2100), key=lambda row: row.sampled_at_ns)
    result = [
        f for f in drive(stages(), Topology(WIDE), rows, 30 * S)
        if isinstance(f, Finding) and f.condition is Condition.CONGESTION_IMBALANCE
    ]  # fmt: skip
    truths = [
        Truth(t.start, t.end, Condition.CONGESTION_IMBALANCE, t.device, t.port, t.tolerance_s)
        for t in truth_rows(made)
        if t.condition == "congestion_imbalance" and t.end - t.start > 400 * S
    ]
    assert len(truths) == 4
    found = score(result, truths)
    assert (found.precision, found.recall) == (1.0, 1.0), found
    assert max(match.delay_s for match in found.found) <= 420


RAIL = demo_fabric.inventory(DemoShape(pods=1, hosts=6, planes=1, spines=1, uplinks=1), START)


def incast_faults(chance: random.Random) -> list[AnyFault]:
    """Eight receivers, some of which pause; a rail on which all receive at line rate, and a burst."""
    links = [link for link in RAIL.links if link.role == "host-link"]
    chance.shuffle(links)
    # two more of five peers may be incast receivers: each rail has three at most
    loaded = [link for link in links if link.rail == 0]
    alone = [link for rail in range(1, 8) for link in [one for one in links if one.rail == rail][:3]]
    chance.shuffle(alone)
    made: list[AnyFault] = [Incast(link, _span(200 + n, 400), marked_ratio=0.5) for n, link in enumerate(loaded)]
    for n, link in enumerate(alone[:8]):
        span = _span(chance.uniform(30, 400), chance.uniform(150, 500))
        paused = n % 3 == 0
        made.append(
            Incast(link, span, paused_ratio=chance.uniform(0.2, 0.6))
            if paused
            else Incast(link, span, marked_ratio=chance.uniform(0.15, 0.9))
        )
    return [*made, Incast(alone[8], _span(300, 40), marked_ratio=0.9)]


@pytest.mark.parametrize("seed", [51, 52, 53])
def test_incast_receivers_are_found_and_loads_and_bursts_are_not(seed: int) -> None:
    """Precision and recall are 1, each within two minutes; the host is the cause where it pauses."""
    made = incast_faults(random.Random(seed))
    rows = sorted(readings(DemoWorld(RAIL, made, seed, START), 10.0, 1300), key=lambda row: row.sampled_at_ns)
    result = [
        f for f in drive(stages(), Topology(RAIL), rows, 30 * S)
        if isinstance(f, Finding) and f.condition is Condition.CONGESTION_INCAST
    ]  # fmt: skip
    alone = made[6:14]
    truths = [
        Truth(t.start, t.end, Condition.CONGESTION_INCAST, t.device, t.port, t.tolerance_s)
        for t in truth_rows(alone)
    ]  # fmt: skip
    assert len(truths) == 8
    found = score(result, truths)
    assert (found.precision, found.recall) == (1.0, 1.0), found
    assert max(match.delay_s for match in found.found) <= 120
    by_host = {(f.link.a_device, f.link.a_port) for f in alone if isinstance(f, Incast) and f.paused_ratio}
    assert {(f.subject.a.device, f.subject.a.port) for f in result if f.subject.a and f.cause == Cause.NIC} == by_host


PODS = demo_fabric.inventory(DemoShape(pods=2, hosts=6, planes=1, spines=1, uplinks=1), START)


def collapsing(chance: random.Random) -> list[AnyFault]:
    """A collapse of a rail in either pod, and of a whole pod; a job that ends, an incast, and a burst of pause."""
    links = [link for link in PODS.links if link.role == "host-link"]
    made: list[AnyFault] = []
    for pod, rails, after_s in (("pod1", (2,), 150), ("pod2", (5,), 900), ("pod1", tuple(range(8)), 1300)):
        own = tuple(link for link in links if link.a_device.startswith(pod) and link.rail in rails)
        span = _span(after_s + chance.uniform(0, 60), chance.uniform(150, 300))
        made.append(Collapse(pod, own, span, chance.uniform(0.4, 0.8), chance.uniform(0.1, 0.35)))
    ended = [link for link in links if link.a_device.startswith("pod2")]
    made += [SlowRail(link, _span(200, 400), 0.0) for link in ended]
    made.append(Incast(links[3], _span(600, 200), marked_ratio=0.5))
    burst = tuple(link for link in links if link.a_device.startswith("pod1") and link.rail == 4)
    return [*made, Collapse("pod1", burst, _span(800, 40), 0.7, 0.2)]


@pytest.mark.parametrize("seed", [61, 62, 63])
def test_collapses_are_found_and_ends_of_jobs_and_bursts_are_not(seed: int) -> None:
    """Precision and recall are 1, each within two minutes."""
    made = collapsing(random.Random(seed))
    rows = sorted(readings(DemoWorld(PODS, made, seed, START), 10.0, 1800), key=lambda row: row.sampled_at_ns)
    hosts = (row for row in rows if "host" in row.device)
    result = [
        f for f in drive(stages(), Topology(PODS), hosts, 30 * S)
        if isinstance(f, Finding) and f.condition is Condition.CONGESTION_COLLAPSE
    ]  # fmt: skip
    truths = [
        Truth(t.start, t.end, Condition.CONGESTION_COLLAPSE, t.device, t.port, t.tolerance_s)
        for t in truth_rows(made[:3])
    ]  # fmt: skip
    found = score(result, truths)
    assert (found.precision, found.recall) == (1.0, 1.0), found
    assert max(match.delay_s for match in found.found) <= 120


@pytest.mark.parametrize("seed", [71, 72, 73])
def test_the_senders_of_an_incast_are_named_and_none_of_another_job(seed: int) -> None:
    """Of the receiver's job, on its rail; a host of another job that is throttled at the same time is not named."""
    chance = random.Random(seed)
    top = Topology(PODS)
    links = [link for link in PODS.links if link.role == "host-link" and link.a_device.startswith("pod1")]
    number = chance.randrange(8)
    rail = [link for link in links if link.rail == number]
    job = max(sorted({row.job for row in top.jobs}), key=lambda name: len(top.placement.hosts_of(name, START)))
    own = [link for link in rail if link.a_device in top.placement.hosts_of(job, START)]
    chance.shuffle(own)
    receiver, senders = own[0], own[1 : 1 + chance.randint(1, len(own) - 1)]
    foreign = [link for link in rail if link not in own]
    span = _span(chance.uniform(100, 200), chance.uniform(150, 400))
    made = [Incast(receiver, span, marked_ratio=0.5, senders=(*senders, *foreign))]
    rows = sorted(readings(DemoWorld(PODS, made, seed, START), 10.0, 900), key=lambda row: row.sampled_at_ns)
    result = [f for f in drive(stages(), top, rows, 30 * S) if isinstance(f, Finding)]
    found = {f.id: f for f in result if f.condition is Condition.CONGESTION_INCAST}
    assert len(found) == 1
    text = "\n".join(e.statement for f in found.values() for e in f.evidence)
    named = ", ".join(sorted(link.a_device for link in senders))
    assert f"job {job} receives on {receiver.a_device}; most likely senders: {named}, throttled" in text
