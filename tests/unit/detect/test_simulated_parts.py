"""host/gpu-fault and host/pcie-degraded over the simulated hosts, from their kernel logs and sysfs trees."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from collectors.host.lines import parse
from collectors.host.messages import classify
from collectors.host.sampling import speed, width
from lab.servers.kernel_log_writer import kernel_log_lines
from lab.servers.sysfs_writer import host_tree, pci_address
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.devices import Reboot
from lab.world.faults.hosts import DegradedPcie, GpuFault
from lab.world.ground_truth import AnyFault, truth_rows
from streams.detect.detectors.host_gpu_fault import Grade, grade
from streams.fabric.topology import Topology
from streams.replay.driver import drive
from streams.replay.score import Truth, score
from streams.wire.models import Condition, Event, Finding, Message
from tests.worlds.host_world import GPUS, HOST, Pcie, pcie
from tests.worlds.observations import T0
from tests.worlds.small_world import stages

S = 10**9
START = T0 * S
INVENTORY = demo_fabric.inventory(DemoShape(pods=1, hosts=6, planes=1, spines=1, uplinks=1), START)
MINUTES = 40
FAULTS = tuple(code for code in range(1, 163) if grade(code) > Grade.NONE)
PROGRAM = (13, 31, 43, 45)


def readings(world: DemoWorld, chance: random.Random) -> Iterator[Message]:
    """Yield all hosts' readings every 20 s and the events of their logs; some are of failed programs."""
    for number, host in enumerate(world.hosts):
        boot_id = 1
        for turn in range(MINUTES * 3):
            after_s = 20 * turn + number / 7
            at_ns = START + int(after_s * S)
            if not world.device(host, at_ns).is_up:
                boot_id = 2
                continue
            links = dict(_links(world, host, at_ns))
            yield replace(pcie(host, after_s, links, sequence=turn), boot_id=boot_id)
        for line in kernel_log_lines(world, host, START, START + MINUTES * 60 * S):
            yield from _event(host, line, world.device(host, START).boot_ns)
        for _ in range(3):
            line = f"NVRM: Xid (PCI:{chance.choice(GPUS)[:-2]}): {chance.choice(PROGRAM)}, pid=1, name=python"
            at_ns = START + int(chance.uniform(0, MINUTES * 60) * S)
            yield from _event(host, f"[{(at_ns - START) / S:12.6f}] {line}", START)


def _links(world: DemoWorld, host: str, at_ns: int) -> Iterator[tuple[str, Pcie | None]]:
    files = host_tree(world, host, at_ns).files
    for number, port in enumerate(world.ports[host]):
        folder = f"sys/devices/pci0000:00/{pci_address(number)}"
        lanes, rate = width(files[f"{folder}/current_link_width"]), speed(files[f"{folder}/current_link_speed"])
        yield port, None if lanes is None or rate is None else (lanes, rate)


def _event(host: str, line: str, boot_ns: int) -> Iterator[Event]:
    record = parse(line.encode(), START)
    means = classify(record.message)
    if means is not None and record.since_boot_us is not None:
        at_ns = boot_ns + record.since_boot_us * 1000
        yield Event(host, means.pci, means.kind, at_ns, at_ns, HOST, detail=record.message, code=means.code)


def faults(chance: random.Random) -> list[AnyFault]:
    """At each of five hosts a GPU that breaks and a PCIe link that trains low; the sixth restarts."""
    made: list[AnyFault] = [Reboot("pod1-host6", _span(chance.uniform(300, 600), 60))]
    for n in range(1, 6):
        host = f"pod1-host{n}"
        span = _span(chance.uniform(60, 900), chance.uniform(60, 900))
        made.append(GpuFault(host, chance.choice(GPUS), span, chance.choice(FAULTS)))
        link = chance.choice([link for link in INVENTORY.links if link.a_device == host])
        made.append(DegradedPcie(link, _span(chance.uniform(60, 900), chance.uniform(120, 900))))
    return made


def _span(after_s: float, lasting_s: float) -> Interval:
    return Interval(START + int(after_s * S), START + int((after_s + lasting_s) * S))


def truths(made: Sequence[AnyFault], condition: Condition) -> list[Truth]:
    """Return the truths of one condition, with a tolerance of two readings of 20 s."""
    return [
        Truth(row.start, row.end, condition, row.device, row.port, 40)
        for row in truth_rows(made)
        if row.condition == condition.name.lower()
    ]


@pytest.mark.parametrize("seed", [31, 32, 33])
def test_what_breaks_is_found_and_programs_that_fail_are_not(seed: int) -> None:
    """Precision and recall are 1 for both; a GPU fault is detected at its Xid, a PCIe link within two minutes."""
    chance = random.Random(seed)
    made = faults(chance)
    world = DemoWorld(INVENTORY, made, seed, START)
    result = [
        f for f in drive(stages(), Topology(INVENTORY), readings(world, chance), 30 * S) if isinstance(f, Finding)
    ]
    for condition, most_s in ((Condition.HOST_GPU_FAULT, 1), (Condition.HOST_PCIE_DEGRADED, 120)):
        own = [f for f in result if f.condition is condition]
        rows = truths(made, condition)
        assert len(rows) == 5
        found = score(own, rows)
        assert (found.precision, found.recall) == (1.0, 1.0), found
        for row in rows:
            first = next(
                f for f in own if f.subject.a and (f.subject.a.device, f.subject.a.port) == (row.device, row.port)
            )
            assert first.detected_at_ns is not None
            assert first.detected_at_ns - row.start_ns <= most_s * S
