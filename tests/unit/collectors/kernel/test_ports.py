"""Names, identities and roles of ports."""

from dataclasses import replace

from collectors.kernel.ports import KnownPorts, Port, Role, components, roles

FABRIC = Port(
    rdma="mlx5_2", number=1, netdev="ens11np0", mac="94:6d:ae:00:00:02", node_guid="946d:ae03:0000:0002",
    pci="0000:1a:00.0", link_layer="Ethernet", model="MT4129", board="A", speed_bps=400e9,
)  # fmt: skip
FRONT = Port(
    rdma="mlx5_9", number=1, netdev="ens3np0", node_guid="946d:ae03:0000:0009", pci="0000:c1:00.0",
    link_layer="Ethernet", model="MT4119", board="B", speed_bps=100e9,
)  # fmt: skip
ONBOARD = Port(netdev="eno1", mac="02:00:00:00:00:01", pci="0000:03:00.0", link_layer="Ethernet", speed_bps=1e9)


def role_of(*ports: Port, fabric: tuple[str, ...] = (), management: tuple[str, ...] = ()) -> list[Role]:
    found = roles(ports, fabric, management)
    return [found[port.identity][0] for port in ports]


def test_a_fabric_port_that_trained_low_stays_one() -> None:
    """Its model is that of the others; a card of another model at a quarter of the speed is a front-end NIC."""
    slow = replace(FABRIC, rdma="mlx5_3", node_guid="946d:ae03:0000:0003", pci="0000:1b:00.0", speed_bps=50e9)
    assert role_of(FABRIC, slow, FRONT) == [Role.FABRIC, Role.FABRIC, Role.MANAGEMENT]


def test_half_the_speed_is_a_generation_and_no_other_purpose() -> None:
    """And a port that is down, of unknown speed, is not judged by it."""
    assert role_of(FABRIC, replace(FRONT, speed_bps=200e9)) == [Role.FABRIC, Role.FABRIC]
    assert role_of(FABRIC, replace(FRONT, speed_bps=None)) == [Role.FABRIC, Role.FABRIC]


def test_no_rdma_or_the_default_route_is_management_and_infiniband_is_fabric() -> None:
    """A host whose every RDMA port carries the default route has one network for all: that is its fabric."""
    routed = replace(FRONT, has_default_route=True, speed_bps=400e9)
    infiniband = replace(FABRIC, link_layer="InfiniBand", speed_bps=10e9)
    assert role_of(ONBOARD, routed, FABRIC) == [Role.MANAGEMENT, Role.MANAGEMENT, Role.FABRIC]
    assert role_of(routed) == [Role.FABRIC]
    assert role_of(infiniband, FRONT)[0] == Role.FABRIC


def test_a_virtual_function_is_no_port_of_its_own() -> None:
    """Nor does its speed make others look slow."""
    function = replace(FABRIC, pci="0000:1a:00.3", is_virtual=True, speed_bps=800e9)
    assert role_of(function, FRONT) == [Role.VIRTUAL, Role.FABRIC]


def test_what_the_settings_say_goes_first() -> None:
    """By any name, as a glob; the word for the fabric before that for management."""
    assert role_of(FRONT, FABRIC, fabric=("0000:c1:*",), management=("ens*",)) == [Role.FABRIC, Role.MANAGEMENT]


def test_a_port_keeps_its_name_when_the_kernel_renumbers() -> None:
    """Two ports swap their RDMA devices: their rows do not."""
    names = KnownPorts("rdma")
    first, second = FABRIC, replace(FABRIC, rdma="mlx5_3", node_guid="946d:ae03:0000:0003", pci="0000:1b:00.0")
    names.adopt([first, second])
    names.adopt([replace(first, rdma="mlx5_3"), replace(second, rdma="mlx5_2")])
    assert {known.port.identity: known.name for known in names.ports} == {
        first.identity: "mlx5_2",
        second.identity: "mlx5_3",
    }


def test_a_newcomer_does_not_take_the_name_of_one_that_is_there() -> None:
    """It goes by its identity, whichever comes first in the list."""
    names = KnownPorts("rdma")
    names.adopt([FABRIC])
    newcomer = replace(FABRIC, node_guid="946d:ae03:0000:000f", pci="0000:1f:00.0")
    names.adopt([newcomer, replace(FABRIC, rdma="mlx5_7")])
    assert {known.port.identity: known.name for known in names.ports} == {
        FABRIC.identity: "mlx5_2",
        newcomer.identity: newcomer.identity,
    }


def test_a_port_is_called_as_the_settings_want_it_or_by_the_next_best_name() -> None:
    """A card of several ports is called with the port's number."""
    assert [FABRIC.name(kind) for kind in ("rdma", "netdev", "guid", "pci")] == [
        "mlx5_2", "ens11np0", "946d:ae03:0000:0002", "0000:1a:00.0",
    ]  # fmt: skip
    second = replace(FABRIC, of_several=True, number=2, netdev="")
    assert (second.name("rdma"), second.name("netdev")) == ("mlx5_2/2", "mlx5_2/2")
    assert (ONBOARD.name("rdma"), ONBOARD.name("guid")) == ("eno1", "02:00:00:00:00:01")


def test_a_bond_does_not_change_who_its_members_are() -> None:
    """It gives its own MAC to all of them."""
    bonded = replace(ONBOARD, mac="02:00:00:00:00:99")
    assert bonded.identity == ONBOARD.identity
    assert replace(FABRIC, mac="02:00:00:00:00:99").identity == FABRIC.identity


def test_facts_carry_every_other_name_of_a_port_and_leave_out_what_is_none() -> None:
    """Netdev, RDMA device with its port, MAC, GUIDs and PCI address."""
    ports = (ONBOARD, FABRIC, Port(netdev="bond0", is_virtual=True))
    names = KnownPorts("rdma")
    names.adopt(ports)
    found = {component.name: component for component in components(names.ports)}
    assert {name: component.kind for name, component in found.items()} == {"mlx5_2": "nic", "eno1": "nic-management"}
    assert set(found["mlx5_2"].alias) == {
        "mlx5_2/1", "ens11np0", "94:6d:ae:00:00:02", "946d:ae03:0000:0002", "0000:1a:00.0",
    }  # fmt: skip
    assert found["mlx5_2"].part_number == "A"
