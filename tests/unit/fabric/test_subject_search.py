"""Subjects as people write them: each kind resolves to its id in the inventory, an unknown one to similar names."""

from datetime import UTC, datetime

import pytest

from streams.fabric.inventory import Device, Inventory, Job, Link, PortName
from streams.fabric.subject_search import find_subject
from streams.fabric.topology import Topology

_AT = datetime(2026, 3, 1, tzinfo=UTC)
TOPOLOGY = Topology(
    Inventory(
        (Device("Leaf1", "switch", "T0", "p1"), Device("h1", "host", "host", "p1")),
        (Link("h1", "eth0", "Leaf1", "Ethernet1/1", "host-link", 0, 2),),
        (PortName("h1", "eth0", "mlx5_0"),),
        (Job("train-7", "h1", _AT),),
    )
)
LINK = "link:h1/eth0--Leaf1/Ethernet1/1"

FOUND = {
    LINK: LINK,
    "link:Leaf1/Ethernet1/1--h1/eth0": LINK,
    "LINK:leaf1/ethernet1/1--H1/ETH0": LINK,
    "h1/eth0--Leaf1/Ethernet1/1": LINK,
    "port:Leaf1/Ethernet1/1": LINK,
    "port:h1/ETH0": LINK,
    "port:h1/mlx5_0": LINK,
    "h1/eth0": LINK,
    "device:Leaf1": "device:Leaf1",
    "device:leaf1": "device:Leaf1",
    "host:H1": "device:h1",
    "Leaf1": "device:Leaf1",
    "rail:0": "rail:0",
    "rail:h1/0": "rail:h1/0",
    "RAIL:H1/0": "rail:h1/0",
    "pod:p1": "pod:p1",
    "P1": "pod:p1",
    "plane:2": "plane:2",
    "job:train-7": "job:train-7",
    "job:TRAIN-7": "job:train-7",
}
UNKNOWN = {
    "device:leaf11": ("device:Leaf1",),
    "host:Leaf1": ("device:Leaf1",),
    "link:h1/eth9--Leaf1/Ethernet1/1": (LINK,),
    "port:h1/eth9": ("port:h1/eth0",),
    "port:h1": ("device:h1",),
    "rail:9": ("rail:0",),
    "rail:h1/9": ("rail:h1/0",),
    "rail:Leaf1/0": (),
    "pod:p11": ("pod:p1",),
    "plane:3": ("plane:2",),
    "job:train-8": ("job:train-7",),
    "lnk:h1": (),
    "": (),
    "device:": (),
}


@pytest.mark.parametrize(("text", "subject_id"), FOUND.items(), ids=FOUND)
def test_a_subject_is_found(text: str, subject_id: str) -> None:
    """In either order of the ends, in any case, by an alias of a port, with or without its kind."""
    assert find_subject(TOPOLOGY, text).subject_id == subject_id


@pytest.mark.parametrize(("text", "nearest"), UNKNOWN.items(), ids=[text or "empty" for text in UNKNOWN])
def test_an_unknown_subject_has_the_nearest_names(text: str, nearest: tuple[str, ...]) -> None:
    """The first is the most similar; an empty list if nothing is similar."""
    found = find_subject(TOPOLOGY, text)
    assert found.subject_id == "" and found.nearest[: len(nearest)] == nearest


def test_two_names_that_differ_only_in_case_are_distinct() -> None:
    """The exact name wins; a third spelling is ambiguous, and both are proposed."""
    topology = Topology(Inventory(tuple(Device(name, "switch", "T0") for name in ("leafA", "leafa"))))
    assert find_subject(topology, "device:leafa").subject_id == "device:leafa"
    found = find_subject(topology, "device:LEAFA")
    assert found.subject_id == "" and set(found.nearest) == {"device:leafA", "device:leafa"}
