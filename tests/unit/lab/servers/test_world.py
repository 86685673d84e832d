"""Tests of the demo's world: both ends of a link agree, at any moment, read in any order."""

import random
from itertools import pairwise

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_scenario import plan
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.devices import OtherVersion, Reboot
from lab.world.faults.hosts import SlowRail
from lab.world.faults.links import AdminDown, Degrading, LinkDown, LinkFlap, SwappedCables
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, check
from streams.fabric.topology import Topology

START = 1_700_000_000_000_000_000
S = 1_000_000_000
INVENTORY = demo_fabric.inventory(DemoShape(), START)
LINK = next(link for link in INVENTORY.links if link.role == "fabric-link")


def at(seconds: float) -> int:
    return START + int(seconds * S)


def world(
    *faults: LinkFlap | LinkDown | AdminDown | Reboot | Degrading | SlowRail, inventory: Inventory = INVENTORY
) -> DemoWorld:
    return DemoWorld(inventory, faults, seed=1, start_ns=START)


def test_the_fabric_is_a_valid_inventory_of_two_pods_and_planes() -> None:
    """The default shape has at least 16 switches, 8-rail hosts, two planes, and no errors of `check`."""
    topology = Topology(INVENTORY)
    assert check(INVENTORY) == []
    assert sum(device.kind == "switch" for device in INVENTORY.devices) >= 16
    assert {device.plane for device in INVENTORY.devices if device.tier == "T1"} == {0, 1}
    assert {link.rail for link in INVENTORY.links if link.role == "host-link"} == set(range(8))
    assert topology.pods_of_links("spine1") == {"spine1", "pod1", "pod2"}
    assert len(topology.uplinks_of["pod1-leaf1"]) == 8
    assert len({job.job for job in INVENTORY.jobs}) == 2


def test_both_ends_of_a_link_agree() -> None:
    """One end receives what the other sends, and both are up together."""
    faulty = world(LinkDown(LINK, Interval(at(1), at(5))), AdminDown(LINK, LINK.z, Interval(at(7), at(9))))
    boots = {end: faulty.device(end, START).boot_ns for end in (LINK.a_device, LINK.z_device)}
    for seconds in (0, 1, 3, 5, 6, 8, 9, 20):
        a = faulty.port(LINK.a_device, LINK.a_port, at(seconds))
        z = faulty.port(LINK.z_device, LINK.z_port, at(seconds))
        rate = LINK.speed_bps or 0
        assert a.oper_up == z.oper_up
        assert a.transitions == z.transitions
        assert abs((a.tx_bytes - z.rx_bytes) / (rate / 8)) <= abs(boots[LINK.a_device] - boots[LINK.z_device]) / S


def test_counters_grow_only_while_the_link_is_up() -> None:
    """A port without a signal counts no traffic."""
    faulty = world(LinkDown(LINK, Interval(at(10), at(20))))
    counts = [faulty.port(LINK.a_device, LINK.a_port, at(s)).rx_bytes for s in (9, 10, 15, 20, 21)]
    assert counts[0] < counts[1] == counts[2] == counts[3] < counts[4]


def test_a_flap_is_two_transitions_and_lost_frames() -> None:
    """`carrier-transitions` counts each change, and the last frames before a signal loss are corrupt."""
    faulty = world(LinkFlap(LINK, (Interval(at(1), at(2)), Interval(at(3), at(4)), Interval(at(5), at(6)))))
    before = faulty.port(LINK.a_device, LINK.a_port, at(0.5))
    after = faulty.port(LINK.a_device, LINK.a_port, at(7))
    assert after.transitions - before.transitions == 6
    assert after.fcs_errors > before.fcs_errors
    assert after.last_change_ns == at(6)


def test_only_the_shut_end_is_administratively_down() -> None:
    """Both ends lose the signal; only the disabled one is administratively down."""
    faulty = world(AdminDown(LINK, LINK.z, Interval(at(1), at(5))))
    a, z = faulty.port(LINK.a_device, LINK.a_port, at(2)), faulty.port(LINK.z_device, LINK.z_port, at(2))
    assert (a.admin_up, a.oper_up) == (True, False)
    assert (z.admin_up, z.oper_up) == (False, False)


def test_a_reboot_resets_the_counters_and_takes_the_far_ports_down() -> None:
    """Afterwards the device has a new boot time and counts from zero; far ends only lose their signal."""
    faulty = world(Reboot(LINK.z_device, Interval(at(5), at(9))))
    before, away, back = (faulty.device(LINK.z_device, at(s)) for s in (4, 6, 9))
    assert (before.is_up, away.is_up, back.is_up) == (True, False, True)
    assert before.boot_ns != back.boot_ns == at(9)
    assert faulty.port(LINK.z_device, LINK.z_port, at(9)).rx_bytes == 0
    far = [faulty.port(LINK.a_device, LINK.a_port, at(s)) for s in (4, 6, 10)]
    assert [port.oper_up for port in far] == [True, False, True]
    assert far[2].tx_bytes > far[0].tx_bytes


def test_changes_are_exactly_the_moments_at_which_a_state_changes() -> None:
    """At each of these moments a state changes, and at no other."""
    faults = plan(INVENTORY, START, 60, random.Random(3))
    busy = DemoWorld(INVENTORY, faults, seed=1, start_ns=START)
    for device in busy.switches:
        states = [
            [(p.oper_up, p.admin_up) for p in (busy.port(device, name, moment) for name in busy.ports[device])]
            for moment in (START - 1, *busy.changes(device))
        ]
        own = {moment for interval in busy.reboots(device) for moment in interval}
        assert all(
            a != b for (a, b), moment in zip(pairwise(states), busy.changes(device), strict=True) if moment not in own
        )


def test_the_same_seed_is_the_same_world() -> None:
    """Another seed is another world."""
    one, other = world(), DemoWorld(INVENTORY, (), seed=2, start_ns=START)
    assert one.port("spine1", "Ethernet1/1", at(9)) == world().port("spine1", "Ethernet1/1", at(9))
    assert one.port("spine1", "Ethernet1/1", at(9)) != other.port("spine1", "Ethernet1/1", at(9))


def test_a_link_that_degrades_loses_and_corrects_at_one_end_while_it_is_up() -> None:
    """The counts are a share of the frames and bits received meanwhile; the far end counts nothing."""
    bad = Degrading(LINK, LINK.z, Interval(at(10), at(30)), lost_ratio=1e-3, ber=1e-6, lane=2)
    faulty = world(bad, LinkDown(LINK, Interval(at(20), at(25))))
    before, during, then, later = (faulty.port(LINK.z_device, LINK.z_port, at(s)) for s in (10, 20, 30, 90))
    assert (before.fcs_errors, before.corrected_bits) == (0, 0)
    frames = (during.rx_bytes - before.rx_bytes) // 4096
    assert during.fcs_errors == pytest.approx(frames * 1e-3, rel=0.01)
    assert during.corrected_bits == pytest.approx(frames * 4096 * 8 * 1e-6, rel=0.01)
    assert then.fcs_errors - 3 == pytest.approx(during.fcs_errors * 1.5, rel=0.01)
    assert (later.fcs_errors, later.corrected_bits, later.worst_lane) == (then.fcs_errors, then.corrected_bits, 2)
    far = faulty.port(LINK.a_device, LINK.a_port, at(90))
    assert (far.fcs_errors, far.corrected_bits) == (3, 0)


def test_a_slow_rail_carries_a_share_both_ways_and_counts_nothing() -> None:
    """Afterwards it is as fast as before."""
    faulty, healthy = world(SlowRail(LINK, Interval(at(10), at(30)), 0.25)), world()
    for device, port in (LINK.a, LINK.z):
        bad, good = ([w.port(device, port, at(s)) for s in (10, 30, 40)] for w in (faulty, healthy))
        assert bad[0] == good[0]
        assert bad[1].rx_bytes - bad[0].rx_bytes == pytest.approx(
            0.25 * (good[1].rx_bytes - good[0].rx_bytes), rel=0.001
        )
        assert bad[2].tx_bytes - bad[1].tx_bytes == pytest.approx(good[2].tx_bytes - good[1].tx_bytes, rel=0.001)
        assert bad[2].fcs_errors == 0


def test_swapped_cables_show_in_lldp_of_all_four_ports() -> None:
    """Each end has the far end of the other cable as neighbor, and both sides agree."""
    links = [link for link in INVENTORY.links if link.role == "host-link"][:2]
    interval = Interval(START + 60 * S, START + 120 * S)
    world = DemoWorld(INVENTORY, [SwappedCables(links[0], links[1], interval)], 1, START)

    def neighbors(at_ns: int) -> list[Port]:
        return [world.neighbor(*end, at_ns) for link in links for end in (link.a, link.z)]

    one, other = links
    assert neighbors(START) == neighbors(interval.end_ns) == [one.z, one.a, other.z, other.a]
    assert neighbors(interval.start_ns) == [other.z, other.a, one.z, one.a]


def test_a_changed_version_shows_during_its_interval() -> None:
    """Other devices run the common version."""
    interval = Interval(START + 60 * S, START + 120 * S)
    host, other = [device.name for device in INVENTORY.devices if device.kind == "host"][:2]
    world = DemoWorld(INVENTORY, [OtherVersion((host,), interval, "28.39.1002")], 1, START)
    versions = [world.version(host, "28.42.1000", START + after * S) for after in (0, 60, 120)]
    assert versions == ["28.42.1000", "28.39.1002", "28.42.1000"]
    assert world.version(other, "28.42.1000", interval.start_ns) == "28.42.1000"
