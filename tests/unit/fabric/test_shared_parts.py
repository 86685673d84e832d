"""The inventory names the parts that ports share; without them a version keeps its digest."""

from dataclasses import replace
from pathlib import Path

import pytest

from streams.fabric.ids import Port
from streams.fabric.inventory import InvalidInventory, Inventory, digest, pack, read_folder, unpack, write_folder
from streams.fabric.inventory_rows import Part
from streams.fabric.topology import Topology
from tests.worlds.small_fabric import inventory, topology

LASER = tuple(Part("p1-l0", "laser", "ELS1", port) for port in ("u0", "u1", "d1"))
CAGE = tuple(Part("p1-l0", "cage", "33", port) for port in ("d1", "d2"))
TRUNK = (Part("p1-l0", "trunk", "MPO-7", "u2"), Part("p1-l1", "trunk", "MPO-7", "u2"))
FEED = (Part("p2-l0", "feed", "A3"), Part("p2-l1", "feed", "A3"))


def with_parts(*parts: Part) -> Inventory:
    return replace(inventory(), parts=parts)


def link_of(top: Topology, device: str, port: str) -> str:
    link = top.link_at(Port(device, port))
    assert link is not None
    return link.id


def test_a_folder_and_a_packed_version_have_the_parts(tmp_path: Path) -> None:
    own = with_parts(*LASER, *FEED)
    write_folder(own, tmp_path)
    assert read_folder(tmp_path) == own
    assert unpack(pack(own)[1]) == own
    assert digest(own) != digest(inventory()) == digest(with_parts())


@pytest.mark.parametrize(
    ("parts", "identity", "label", "links"),
    [
        (LASER, "laser:p1-l0/ELS1", "laser ELS1 of p1-l0", 3),
        (CAGE, "cage:p1-l0/33", "cage 33 of p1-l0", 2),
        (TRUNK, "trunk:MPO-7", "trunk MPO-7", 2),
        (FEED, "feed:A3", "feed A3", 12),
        ((Part("p1-l0", "line-card", "2", "unused"),), "line-card:p1-l0/2", "line card 2 of p1-l0", 0),
    ],
)
def test_a_part_has_the_links_of_its_ports(parts: tuple[Part, ...], identity: str, label: str, links: int) -> None:
    """Without a port it has all links of its devices, each once; a port without a link has none."""
    top = topology(with_parts(*parts))
    assert top.parts.keys() == {identity} and top.parts[identity].label == label
    assert len(top.links_of_part[identity]) == links
    assert all(top.parts_of(link.id) == (identity,) for link in top.links_of_part[identity])


def test_only_links_in_the_same_cage_or_module_are_handled_together() -> None:
    """A laser or a trunk is not touched when one of its links is repaired."""
    top = topology(with_parts(*LASER, *CAGE))
    link = top.link_at(Port("p1-l0", "d1"))
    assert link is not None
    assert top.parts_of(link.id) == ("laser:p1-l0/ELS1", "cage:p1-l0/33")
    assert [other.id for other in top.handled_with(link)] == [link_of(top, "p1-l0", "d2")]
    assert top.parts_of(link_of(top, "p1-l1", "d1")) == ()


def test_a_part_of_an_unknown_device_is_an_error(tmp_path: Path) -> None:
    write_folder(with_parts(Part("nowhere", "cage", "1", "e1")), tmp_path)
    with pytest.raises(InvalidInventory, match="parts row 1: nowhere is not among the devices"):
        read_folder(tmp_path)
