"""The demo's fabric: planes at the spines by default, or at the NICs."""

from collections import Counter

from lab.world.demo_fabric import RAILS, DemoShape, inventory
from streams.fabric.clos import PlanesAt
from streams.fabric.inventory import check

AT_NS = 1_700_000_000 * 10**9


def test_the_default_has_planes_at_the_spines_only() -> None:
    """Leaves and host links have no plane; every leaf has links to the spines of all planes."""
    fabric = inventory(DemoShape(), AT_NS)
    assert not check(fabric, AT_NS)
    planes = {device.name: device.plane for device in fabric.devices}
    assert {planes[link.z_device] for link in fabric.links if link.role == "host-link"} == {None}
    assert {link.plane for link in fabric.links if link.a_device == "pod1-leaf1"} == {0, 1}


def test_planes_at_the_nics_divide_all_tiers() -> None:
    """A NIC has a port in each plane; no switch has links of two planes; speeds add up to the NIC's."""
    shape = DemoShape(planes=2, planes_at=PlanesAt.NICS)
    fabric = inventory(shape, AT_NS)
    assert not check(fabric, AT_NS)
    kinds = {device.name: device.kind for device in fabric.devices}
    planes: dict[str, set[int | None]] = {}
    for link in fabric.links:
        for device in (link.a_device, link.z_device):
            planes.setdefault(device, set()).add(link.plane)
    assert all(len(own) == (2 if kinds[name] == "host" else 1) for name, own in planes.items())
    assert None not in set().union(*planes.values())
    ports = Counter(link.a_device for link in fabric.links if link.role == "host-link")
    assert set(ports.values()) == {2 * RAILS}
    assert {link.speed_bps for link in fabric.links} == {200_000_000_000}
    tiers = Counter(device.tier for device in fabric.devices)
    assert tiers == {"host": 8, "T0": 2 * 2 * RAILS, "T1": 2 * shape.spines}
