"""Tests the columns of links against look-ups that are built link by link, and the packed form of many links."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import cramjam
import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.fabric.ids import UNKNOWN_RANK, Port, link_id, tier_rank
from streams.fabric.inventory import MOST_LISTED, Device, Inventory, Link, digest, pack, unpack
from streams.fabric.inventory_rows import CodedColumn, LinkColumns, coded, coded_columns
from streams.fabric.link_table import TopologyLink
from streams.fabric.topology import Topology

NAMES = ("h1", "l0", "l1", "s1", "x--y")
ROLES: tuple[Literal["host-link", "fabric-link"], ...] = ("host-link", "fabric-link")
PORTS = ("e1", "e2", "p--q", "a/b")


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Return devices of any tiers, and links each of which has ports of its own."""
    tiers = st.sampled_from(["host", "T0", "T1", "storage"])
    planes = st.sampled_from([None, 0, 3])
    devices = tuple(
        Device(name, "host" if (tier := draw(tiers)) == "host" else "switch", tier,
               pod=draw(st.sampled_from(["", "p"])), plane=draw(planes))
        for name in draw(st.permutations(NAMES))
    )  # fmt: skip
    ends = draw(st.permutations([(name, port) for name in NAMES for port in PORTS]))
    pairs = zip(ends[::2], ends[1::2], strict=True)
    roles, speeds = st.sampled_from(ROLES), st.sampled_from([None, 10**9])
    links = tuple(
        Link(*a, *z, draw(roles), draw(planes), draw(planes), draw(speeds), draw(st.sampled_from(["", f"id{n}"])))
        for n, (a, z) in enumerate(pairs) if draw(st.booleans())
    )  # fmt: skip
    return Inventory(devices, draw(st.sampled_from([links, LinkColumns(coded_columns(links))])))


def one_by_one(inventory: Inventory) -> list[TopologyLink]:
    """Return the links in the order of the table."""
    known, found = {device.name: device for device in inventory.devices}, []
    for link in inventory.links:
        lower, upper = link.a, link.z
        difference = tier_rank(known[lower.device].tier) - tier_rank(known[upper.device].tier)
        if difference > 0 or (difference == 0 and upper < lower):
            lower, upper = upper, lower
        device, far = known[lower.device], known[upper.device]
        plane = far.plane if link.plane is None else link.plane
        is_uplink = difference != 0 and tier_rank(far.tier) < UNKNOWN_RANK
        found.append(
            TopologyLink(
                link_id(lower, upper), lower, upper, link.role, link.rail, plane, device.pod or device.name,
                link.speed_bps, is_uplink,
            )
        )  # fmt: skip
    return found


@settings(max_examples=300, deadline=None)
@given(inventories())
def test_all_look_ups_are_those_of_links_one_by_one(inventory: Inventory) -> None:
    """By id, by port and by device, in the order of the table; also for names that contain separators."""
    top, links = Topology(inventory), one_by_one(inventory)
    ends, ups = defaultdict(list), defaultdict(list)
    for link in links:
        ups[link.lower.device].append(link)
        for device in dict.fromkeys((link.lower.device, link.upper.device)):
            ends[device].append(link)
        assert top.link_at(link.lower) == top.link_at(link.upper) == top.links[link.id] == link
        assert (top.table.far_end(link.lower), top.table.far_end(link.upper)) == (link.upper, link.lower)
        assert top.table[top.graph.number_of(link)] == link and link.id in top.links
    assert dict(top.links_of) == {device: tuple(own) for device, own in ends.items()}
    assert dict(top.uplinks_of) == {device: tuple(own) for device, own in ups.items()}
    assert len(top.links_of) == len(ends) and all(top.links_of.count(name) == len(ends[name]) for name in NAMES)
    assert sorted(top.links) == sorted(link.id for link in links) and len(top.links) == len(links)
    assert top.link_row_ids == {link.id: row.id for link, row in zip(links, inventory.links, strict=True) if row.id}
    ports = [(*PORTS, "none"), list(reversed((*PORTS, "none")))]  # equal names, and another order
    names = [*NAMES, "none", *NAMES]
    of_names = [ports[place % 2] for place in range(len(names))]
    assert top.table.numbers_at(names, of_names).tolist() == [
        [-1 if (number := top.table.number_at(Port(name, port))) is None else number for port in own]
        for name, own in zip(names, of_names, strict=True)
    ]
    assert all(
        sorted(top.table.ports_of(name)) == sorted(port for port in PORTS if top.link_at(Port(name, port)) is not None)
        for name in names
    )
    assert top.link_at(Port("h1", "none")) is None is top.links.get("link:h1/none--l0/e1")
    assert "none" not in top.links_of and top.uplinks_of.get("none", ()) == ()


def test_a_link_of_an_unknown_device_is_refused() -> None:
    """A KeyError names the device."""
    with pytest.raises(KeyError, match="ghost"):
        Topology(Inventory((Device("a", "switch", "T0"),), (Link("a", "e1", "ghost", "e1", "fabric-link"),)))


def many(links: Sequence[Link]) -> Inventory:
    """Return an inventory with these links repeated, more than are packed row by row."""
    times = MOST_LISTED // len(links) + 1
    columns = [CodedColumn(one.values, np.tile(one.codes, times)) for one in coded_columns(links)]
    return Inventory((Device("a", "switch", "T0"), Device("b", "switch", "T1")), LinkColumns(columns))


LINKS = (Link("a", "e1", "b", "e1", "fabric-link", None, 3, 10**9), Link("a", "e2", "b", "e2", "fabric-link"))


def test_many_links_are_packed_as_codes() -> None:
    """They are the same links again; their JSON has few values, and a digest that depends on the rows alone."""
    packed, own = pack(many(LINKS)), many(LINKS)
    again = unpack(packed[1])
    assert len(again.links) == len(own.links) > MOST_LISTED
    assert tuple(again.links[:3]) == (*LINKS, LINKS[0]) and again.links[-1] == LINKS[1]
    other_order = many(LINKS[::-1]).links
    assert isinstance(other_order, LinkColumns)
    turned = replace(own, links=LinkColumns(CodedColumn(c.values, c.codes[::-1]) for c in other_order.columns))
    assert digest(turned) == packed[0] != digest(replace(own, links=own.links[::-1]))


@pytest.mark.parametrize(
    "columns",
    [
        {"a_device": {"values": ["a"], "codes": "AAE="}},
        {"a_device": {"values": [], "codes": "AAA="}},
        {"a_device": {"values": ["a"], "codes": "AA=="}},
        {"a_device": {"values": ["a"], "codes": "?"}},
        {"a_device": {"values": ["a"]}},
        {"a_device": {"values": [["a"]], "codes": "AAA="}},
        {"rail": {"values": [-1], "codes": "AAA="}},
        {"ghost": {"values": ["a"], "codes": "AAA="}},
    ],
    ids=["code without a value", "no value", "shorter", "no base64", "no codes", "a list", "invalid", "unknown column"],
)
def test_codes_that_do_not_fit_are_refused(columns: dict[str, object]) -> None:
    """With ValueError, as other invalid bytes are."""
    valid = dict(zip(Link._fields, ({"values": c.values, "codes": "AAA="} for c in map(coded, zip(LINKS[0]))),
                     strict=True))  # fmt: skip
    good, bad = (orjson.dumps({"links": valid | more}) for more in ({}, columns))
    assert len(unpack(bytes(cramjam.zstd.compress(good))).links) == 2
    with pytest.raises(ValueError, match="not a packed inventory"):
        unpack(bytes(cramjam.zstd.compress(bad)))
