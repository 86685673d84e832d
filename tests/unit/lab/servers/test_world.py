"""Tests of the demo's world: both ends of a link agree, at any moment, read in any order."""

import random
from itertools import pairwise

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_scenario import plan
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.devices import Reboot
from lab.world.faults.hosts import SlowRail
from lab.world.faults.links import AdminDown, Degrading, LinkDown, LinkFlap
from streams.fabric.inventory import Inventory

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


def test_a_flap_is_two_transitions_and_lost_frames() -> None:
    """`carrier-transitions` counts each change, and the last frames before a signal loss are corrupt."""
    faulty = world(LinkFlap(LINK, (Interval(at(1), at(2)), Interval(at(3), at(4)), Interval(at(5), at(6)))))
    before = faulty.port(LINK.a_device, LINK.a_port, at(0.5))
    after = faulty.port(LINK.a_device, LINK.a_port, at(7))
    assert after.transitions - before.transitions == 6
    assert after.fcs_errors > before.fcs_errors
    assert after.last_change_ns == at(6)


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
