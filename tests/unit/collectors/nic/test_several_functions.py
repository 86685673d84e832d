"""RDMA devices of several functions: the legs of a LAG, and the planes of a card; each physical port is read once."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from collectors.kernel.ports import Role
from streams.wire.models import Facts
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.host_tree import link
from tests.fixtures.nic_tree import rows, whole, write
from tests.recordings import field_report, linked_tree

CARD = "0000:1a:00"


def card(root: Path, rdma: str, states: Sequence[str], netdevs: Sequence[str], ups: Sequence[bool]) -> None:
    """Write a card with one RDMA device at its first function, a port for each state, and a netdev a function."""
    at = "sys/devices/pci0000:1a/{}.{}"
    own = f"{at.format(CARD, 0)}/infiniband/{rdma}"
    reports = {f"{own}/node_guid": "946d:ae03:00aa:bbcc", f"{own}/hca_type": "MT4129", f"{own}/board_id": "MT_1"}
    for number, state in enumerate(states, 1):
        port = f"{own}/ports/{number}"
        reports |= {f"{port}/state": state, f"{port}/phys_state": "5: LinkUp", f"{port}/link_layer": "Ethernet",
                    f"{port}/rate": "400 Gb/sec (4X NDR)", f"{port}/hw_counters/np_cnp_sent": str(number)}  # fmt: skip
    for function, (netdev, is_up) in enumerate(zip(netdevs, ups, strict=True)):
        net = f"{at.format(CARD, function)}/net/{netdev}"
        reports |= {f"{net}/operstate": "up" if is_up else "down", f"{net}/flags": "0x1003", f"{net}/type": "1",
                    f"{net}/speed": "200000" if is_up else "-1", f"{net}/address": f"94:6d:ae:00:00:0{function}",
                    f"{net}/dev_port": "0", f"{net}/phys_port_name": f"p{function}",
                    f"{at.format(CARD, function)}/vendor": "0x15b3"}  # fmt: skip
        link(root, f"{net}/device", f"../../../{CARD}.{function}")
        link(root, f"sys/class/net/{netdev}", f"../../../{net}")
    link(root, f"{own}/device", f"../../../{CARD}.0")
    link(root, f"sys/class/infiniband/{rdma}", f"../../../{own}")
    write(root, reports)


def bond(root: Path, *legs: str) -> None:
    """Write a bond of these netdevs."""
    own = "sys/devices/virtual/net/bond0"
    write(root, {f"{own}/bonding/slaves": " ".join(legs), f"{own}/operstate": "up", f"{own}/type": "1",
                 f"{own}/speed": "400000", f"{own}/flags": "0x1403"})  # fmt: skip
    link(root, "sys/class/net/bond0", f"../../../{own}")
    for leg in legs:
        link(root, f"sys/class/net/{leg}/master", "../../../../../virtual/net/bond0")


def functions(published: RecordingPublisher) -> dict[str, str]:
    """Return the PCI function of each port of the fabric in Facts."""
    parts = [part for part in published.of(Facts)[-1].components if part.kind == "nic"]
    return {part.name: next(name for name in part.alias if name.startswith(CARD)) for part in parts}


@pytest.mark.parametrize("reference", ["bond0", "ens1f0np0", ""])
async def test_each_leg_of_a_lag_is_a_port_and_the_bond_is_none(tmp_path: Path, reference: str) -> None:
    """The RDMA device is up with one leg; the leg that is down reads down, and the sums of both are read once."""
    card(tmp_path, "mlx5_bond_0", ["4: ACTIVE"], ["ens1f0np0", "ens1f1np1"], [True, False])
    bond(tmp_path, "ens1f0np0", "ens1f1np1")
    if reference:
        write(tmp_path, {"sys/class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0": reference})
    made = whole(tmp_path, wanted=frozenset({Role.FABRIC}))
    found = rows(await made.host.read_once())
    assert {name: row["oper_up"] for name, row in found.items()} == {"ens1f0np0": 1, "ens1f1np1": 0}
    assert [name for name, row in found.items() if "cnp_sent" in row] == ["ens1f0np0"]
    assert found["ens1f0np0"]["speed_bps"] == 200e9 and "speed_bps" not in found["ens1f1np1"]


@pytest.mark.parametrize(("references", "expected"), [
    ({6: "bond0"}, {"ens1f0np0": 6, "ens1f1np1": None}),
    ({}, {"ens1f0np0": None, "ens1f1np1": None}),
    ({3: "ens1f0np0", 6: "ens1f1np1"}, {"mlx5_bond_0/3": 3, "mlx5_bond_0/6": 6}),
], ids=["one uplink", "unknown uplink", "an uplink a leg"])  # fmt: skip
async def test_a_lag_of_a_card_that_switches_has_one_uplink(
    tmp_path: Path, references: dict[int, str], expected: dict[str, float | None]
) -> None:
    """The other ports of the RDMA device are those of representors; without a reference none is guessed."""
    card(tmp_path, "mlx5_bond_0", ["4: ACTIVE"] * 6, ["ens1f0np0", "ens1f1np1"], [True, False])
    bond(tmp_path, "ens1f0np0", "ens1f1np1")
    for number, name in references.items():
        write(tmp_path, {f"sys/class/infiniband/mlx5_bond_0/ports/{number}/gid_attrs/ndevs/0": name})
    found = rows(await whole(tmp_path, wanted=frozenset({Role.FABRIC})).host.read_once())
    assert {name: row.get("cnp_sent") for name, row in found.items()} == expected
    assert [row["oper_up"] for row in found.values()] == [1, 0]


async def test_a_dpu_has_its_two_uplinks_and_no_port_of_its_host(tmp_path: Path) -> None:
    """BlueField in switchdev: representors of host, virtual function and subfunction share the uplink's function."""
    for function in range(2):
        device = f"sys/devices/pci0000:03/0000:03:00.{function}"
        own = f"{device}/infiniband/mlx5_{function}"
        write(tmp_path, {f"{device}/vendor": "0x15b3", f"{own}/node_guid": f"946d:ae03:00aa:bbc{function}"})
        for number in range(1, 6):
            write(tmp_path, {f"{own}/ports/{number}/state": "4: ACTIVE", f"{own}/ports/{number}/link_layer": "Ethernet",
                             f"{own}/ports/{number}/hw_counters/np_cnp_sent": str(number)})  # fmt: skip
        names = {f"p{function}": f"p{function}", f"pf{function}hpf": f"c1pf{function}",
                 f"pf{function}vf0": f"c1pf{function}vf0", f"en3f{function}sf0": f"pf{function}sf0"}  # fmt: skip
        for netdev, port_name in names.items():
            write(tmp_path, {f"{device}/net/{netdev}/phys_port_name": port_name, f"{device}/net/{netdev}/type": "1",
                             f"{device}/net/{netdev}/operstate": "up"})  # fmt: skip
            link(tmp_path, f"{device}/net/{netdev}/device", f"../../../0000:03:00.{function}")
            link(tmp_path, f"sys/class/net/{netdev}", f"../../../{device}/net/{netdev}")
        link(tmp_path, f"{own}/device", f"../../../0000:03:00.{function}")
        link(tmp_path, f"sys/class/infiniband/mlx5_{function}", f"../../../{own}")
        write(tmp_path, {f"{own}/ports/1/gid_attrs/ndevs/0": f"pf{function}hpf"})
    made = whole(tmp_path, wanted=frozenset({Role.FABRIC, Role.MANAGEMENT}))
    found = rows(await made.host.read_once())
    assert {name: (row["oper_up"], row["cnp_sent"]) for name, row in found.items()} == {
        "mlx5_0/5": (1, 5), "mlx5_1/5": (1, 5),
    }  # fmt: skip
    assert {name for part in made.published.of(Facts)[-1].components for name in part.alias} >= {"p0", "p1"}


async def test_a_bond_of_two_devices_leaves_each_its_own_port(tmp_path: Path) -> None:
    """Without a LAG of the card, the bond's addresses are at both RDMA devices."""
    card(tmp_path, "mlx5_0", ["4: ACTIVE"], ["ens1f0np0", "ens1f1np1"], [True, False])
    own = f"sys/devices/pci0000:1a/{CARD}.1/infiniband/mlx5_1"
    write(tmp_path, {f"{own}/node_guid": "946d:ae03:00aa:bbcd", f"{own}/ports/1/link_layer": "Ethernet",
                     f"{own}/ports/1/state": "1: DOWN"})  # fmt: skip
    link(tmp_path, f"{own}/device", f"../../../{CARD}.1")
    link(tmp_path, "sys/class/infiniband/mlx5_1", f"../../../{own}")
    bond(tmp_path, "ens1f0np0", "ens1f1np1")
    write(tmp_path, {f"sys/class/infiniband/mlx5_{n}/ports/1/gid_attrs/ndevs/0": "bond0" for n in range(2)})
    found = rows(await whole(tmp_path, wanted=frozenset({Role.FABRIC})).host.read_once())
    assert {name: row["oper_up"] for name, row in found.items()} == {"mlx5_0": 1, "mlx5_1": 0}


@pytest.mark.parametrize("named", [(), (3, 6, 9, 12), (3, 9)], ids=["no references", "all", "those with an address"])
async def test_each_plane_of_a_card_is_a_port_and_no_representor_is(tmp_path: Path, named: tuple[int, ...]) -> None:
    """Ports 3, 6, 9 and 12 of 12 are uplinks; the others are those of virtual functions, and are down."""
    planes = [f"eth_r0_p{n}" for n in range(4)]
    states = ["4: ACTIVE" if number % 3 == 0 else "1: DOWN" for number in range(1, 13)]
    card(tmp_path, "mlx5_0", states, planes, [True, True, False, True])
    for number in named:
        write(tmp_path, {f"sys/class/infiniband/mlx5_0/ports/{number}/gid_attrs/ndevs/0": planes[number // 3 - 1]})
    made = whole(tmp_path, wanted=frozenset({Role.FABRIC}))
    found = rows(await made.host.read_once())
    assert {name: row["oper_up"] for name, row in found.items()} == {
        "mlx5_0/3": 1, "mlx5_0/6": 1, "mlx5_0/9": 0, "mlx5_0/12": 1,
    }  # fmt: skip
    assert functions(made.published) == {f"mlx5_0/{3 * n + 3}": f"{CARD}.{n}" for n in range(4)}


async def test_an_uplink_without_a_known_port_is_read_as_a_netdev(tmp_path: Path) -> None:
    """Five ports of four functions do not divide: nothing is guessed, and no port of the fabric is left out."""
    planes = [f"eth_r0_p{n}" for n in range(4)]
    card(tmp_path, "mlx5_0", ["4: ACTIVE"] * 5, planes, [True] * 4)
    write(tmp_path, {"sys/class/infiniband/mlx5_0/ports/2/gid_attrs/ndevs/0": planes[0]})
    found = rows(await whole(tmp_path, wanted=frozenset({Role.FABRIC})).host.read_once())
    assert set(found) == {"mlx5_0/2", *planes[1:]}


def function(root: Path, rdma: str, number: int, counters: dict[str, int], folder: str = "") -> None:
    """Write the RDMA device of a virtual function of the card's function `number`, or of a subfunction below it."""
    at = f"sys/devices/pci0000:1a/{folder or f'{CARD[:-1]}1.{number}'}"
    own = f"{at}/infiniband/{rdma}"
    write(root, {f"{own}/node_guid": f"946d:ae03:00ff:000{number}", f"{own}/ports/1/state": "4: ACTIVE",
                 f"{own}/ports/1/link_layer": "Ethernet"})  # fmt: skip
    write(root, {f"{own}/ports/1/hw_counters/{name}": str(value) for name, value in counters.items()})
    if not (root / own / "device").is_symlink():
        link(root, f"{own}/device", f"../../../{at.rpartition('/')[2]}")
        link(root, f"sys/class/infiniband/{rdma}", f"../../../{own}")
        if not folder:
            link(root, f"{at}/physfn", f"../{CARD}.{number}")


async def test_the_roce_of_virtual_functions_belongs_to_their_rail(tmp_path: Path) -> None:
    """Each function's to the plane of its physical function; one that is not there retains what it counted."""
    planes = [f"eth_r0_p{n}" for n in range(4)]
    states = ["4: ACTIVE" if number % 3 == 0 else "1: DOWN" for number in range(1, 13)]
    card(tmp_path, "mlx5_0", states, planes, [True] * 4)
    function(tmp_path, "mlx5_4", 0, {"out_of_sequence": 5, "np_cnp_sent": 10, "rx_icrc_encapsulated": 4})
    function(tmp_path, "mlx5_5", 1, {"out_of_sequence": 7}, f"{CARD}.1/mlx5_core.sf.4")
    made = whole(tmp_path, wanted=frozenset({Role.FABRIC}))

    async def read(name: str) -> list[float | None]:
        found = rows(await made.host.read_once())
        assert set(found) == {f"mlx5_0/{n}" for n in (3, 6, 9, 12)}
        return [found[f"mlx5_0/{number}"].get(name) for number in (3, 6, 9, 12)]

    assert await read("out_of_sequence") == [5, 7, None, None]
    assert await read("cnp_sent") == [13, 6, 9, 12]
    assert await read("rx_icrc_errors") == [None] * 4
    function(tmp_path, "mlx5_4", 0, {"out_of_sequence": 8})
    assert await read("out_of_sequence") == [8, 7, None, None]
    (tmp_path / "sys/class/infiniband/mlx5_4").unlink()
    assert await read("out_of_sequence") == [8, 7, None, None]
    link(tmp_path, "sys/class/infiniband/mlx5_4", f"../../devices/pci0000:1a/{CARD[:-1]}1.0/infiniband/mlx5_4")
    function(tmp_path, "mlx5_4", 0, {"out_of_sequence": 108})
    assert await read("out_of_sequence") == [8, 7, None, None]  # what it counted elsewhere is no burst of now
    function(tmp_path, "mlx5_4", 0, {"out_of_sequence": 110})
    assert await read("out_of_sequence") == [10, 7, None, None]
    function(tmp_path, "mlx5_4", 0, {"out_of_sequence": 1})
    assert await read("out_of_sequence") == [11, 7, None, None]  # the function was created again
    function(tmp_path, "mlx5_4", 0, {"out_of_sequence": 2**64 - 2})
    assert (await read("out_of_sequence"))[0] == 8  # the sum wraps


async def test_virtual_functions_displace_no_port_at_the_limit(tmp_path: Path) -> None:
    """Their names may precede those of the uplinks."""
    card(tmp_path, "mlx5_9", ["4: ACTIVE"], ["eth_r0_p0"], [True])
    for number in range(4):
        function(tmp_path, f"mlx5_{number}", number, {"out_of_sequence": 1})
    assert set(rows(await whole(tmp_path, max_ports=2).host.read_once())) >= {"mlx5_9"}


async def test_a_card_is_one_switch_of_the_kernel(tmp_path: Path) -> None:
    """A function beyond the eighth has another slot's number, and a card in the same slot has another switch."""
    card(tmp_path, "mlx5_0", ["4: ACTIVE"] * 2, ["eth_r0_p0"], [True])
    own = "sys/devices/pci0000:1a/0000:1a:01.0"
    write(tmp_path, {f"{own}/net/eth_r0_p1/operstate": "down", f"{own}/net/eth_r0_p1/type": "1",
                     f"{own}/net/eth_r0_p1/phys_switch_id": "c0ffee"})  # fmt: skip
    write(tmp_path, {f"sys/devices/pci0000:1a/{CARD}.0/net/eth_r0_p0/phys_switch_id": "c0ffee"})
    link(tmp_path, f"{own}/net/eth_r0_p1/device", "../../../0000:1a:01.0")
    link(tmp_path, "sys/class/net/eth_r0_p1", f"../../../{own}/net/eth_r0_p1")
    found = rows(await whole(tmp_path, wanted=frozenset({Role.FABRIC})).host.read_once())
    assert {name: row["oper_up"] for name, row in found.items()} == {"mlx5_0/1": 1, "mlx5_0/2": 0}


async def test_a_lag_of_a_field_report(tmp_path: Path) -> None:
    """Both cards have two legs, and one of the second card is down."""
    root = linked_tree(field_report("host/13-roce-lag") / "tree", tmp_path / "tree")
    found = rows(await whole(root, wanted=frozenset({Role.FABRIC})).host.read_once())
    assert {name: row["oper_up"] for name, row in found.items()} == {
        "ens0f0np0": 1, "ens0f1np1": 1, "ens1f0np0": 1, "ens1f1np1": 0,
    }  # fmt: skip
