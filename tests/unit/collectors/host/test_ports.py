"""The host agent and the NIC collector call the same port by the same name, and agree on which are of the fabric."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.host.discover import find
from collectors.host.ports import HostPort, Names, judged
from collectors.host.tree import Tree
from collectors.nic.discover import Discovery
from collectors.nic.ports import Names as NicNames
from collectors.nic.ports import Role
from collectors.nic.roles import roles
from collectors.nic.tree import Tree as NicTree
from collectors.sim import clos
from collectors.sim.sysfs_face import SysfsFace
from collectors.sim.world import World
from tests.recordings import DATA
from tests.unit.collectors.nic.trees import CARD, SetClock, write

S = 10**9


def simulated(folder: Path) -> Path:
    """A host of eight rails and a management port."""
    world = World(clos.inventory(clos.Shape(pods=1, hosts=1, planes=1, spines=1, uplinks=1), S), (), 1, S)
    face = SysfsFace(world, SetClock(S), folder)
    face.write(S)
    return face.root(face.hosts[0])


def by_hand(folder: Path) -> Path:
    """One card without a PCI function in view."""
    write(folder, CARD)
    return folder


def recorded(archive: str) -> Callable[[Path], Path]:
    """A real tree."""

    def unpack(folder: Path) -> Path:
        path = DATA / "nic" / archive
        if not path.exists():
            pytest.skip(f"no recording at {path}")
        with tarfile.open(path) as file:
            file.extraction_filter = lambda member, _: member  # as an argument it needs Python 3.11.4
            file.extractall(folder)
        return next(
            path for path in folder.rglob("class") if (path / "net").is_dir() or (path / "infiniband").is_dir()
        ).parent

    return unpack


@pytest.mark.parametrize("kind", ["rdma", "netdev", "guid", "pci"])
@pytest.mark.parametrize(
    "tree", [simulated, by_hand, recorded("procfs-sys-class.tar.gz"), recorded("node_exporter-sys-class.tar.gz")]
)
def test_names_and_roles_are_those_of_the_nic_collector(
    tmp_path: Path, tree: Callable[[Path], Path], kind: str
) -> None:
    """On a simulated host, on one written by hand, and on the recordings of real ones."""
    root = tree(tmp_path)
    theirs = Discovery(NicTree(root), (), 1024).ports()
    role_of = {identity: role for identity, (role, _) in roles(theirs).items()}
    name_of = NicNames(kind).name(theirs)
    names = Names(kind)
    names.adopt(judged(find(Tree(root), (), 1024), (), ()))
    assert {(port.name, port.is_fabric, port.is_virtual, port.aliases) for port in names.ports} == {
        (name_of[port.identity], role_of[port.identity] is Role.FABRIC, port.is_virtual, port.aliases)
        for port in theirs
    }


def port(rdma: str, **said: object) -> HostPort:
    """One of a 400G card."""
    given = {"pci": "0000:18:00.0", "netdev": "ens1np0", "speed_bps": 4e11, "model": "MT4129", "number": 1} | said
    return HostPort(rdma=rdma, **given)  # type: ignore[arg-type]


def test_a_management_card_is_told_apart_and_a_slow_port_of_the_fabric_is_not() -> None:
    """By route, by another model at a quarter of the speed; what the user says goes first."""
    fast, slow = port("mlx5_0"), port("mlx5_1", pci="0000:20:00.0", speed_bps=1e11)
    other = port("mlx5_2", pci="0000:28:00.0", speed_bps=1e11, model="MT4125")
    route = port("mlx5_3", pci="0000:30:00.0", has_default_route=True)
    bare = port("", pci="0000:38:00.0", netdev="eno1", number=0)
    everything = (fast, slow, other, route, bare)
    assert [p.is_fabric for p in judged(everything, (), ())] == [True, True, False, False, False]
    assert [p.is_fabric for p in judged(everything, ("eno1",), ("mlx5_1",))] == [True, False, False, False, True]


def test_a_line_finds_its_port_by_function_and_netdev() -> None:
    """None rather than the wrong one."""
    names = Names("rdma")
    vf = port("", netdev="ens1np0_0", number=0, is_virtual=True, mac="02:00:00:00:00:01")
    two = (port("mlx5_4", number=1, of_several=True, pci="0000:40:00.0", netdev="a", node_guid="g"),
           port("mlx5_4", number=2, of_several=True, pci="0000:40:00.0", netdev="b", node_guid="g"))  # fmt: skip
    names.adopt((port("mlx5_0"), port("mlx5_1", pci="0000:20:00.0", netdev="ens2np0"), vf, *two))

    def called(pci: str, netdev: str = "") -> str | None:
        found = names.of(pci, netdev)
        return found.name if found else None

    assert called("0000:18:00.0") == called("0000:18:00.0", "ens1np0") == "mlx5_0"
    assert called("0000:18:00.0", "ens1np0_0") == "ens1np0_0"
    assert called("0000:18:00.0", "eth7") is None  # of which of the two?
    assert called("0000:20:00.0", "eth0") == "mlx5_1"
    assert called("0000:20:00.0", "ens9") is None
    assert (called("0000:40:00.0", "b"), called("0000:40:00.0")) == ("mlx5_4/2", None)
    assert called("0000:99:00.0") is None


def test_a_port_keeps_its_name_and_is_still_known_when_it_is_gone() -> None:
    """The kernel renumbers; and the log tells of a card while it goes."""
    names = Names("rdma")
    names.adopt((port("mlx5_0", node_guid="g0"),))
    names.wants_look = True
    names.adopt((port("mlx5_1", node_guid="g0"), port("mlx5_0", node_guid="g1", pci="0000:20:00.0")))
    assert not names.wants_look
    assert {p.node_guid: p.name for p in names.ports} == {"g0": "mlx5_0", "g1": "g1@0000:20:00.0/1"}
    names.adopt(())
    found = names.of("0000:18:00.0")
    assert found is not None and found.name == "mlx5_0" and names.ports == ()
