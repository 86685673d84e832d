"""Ports of log lines."""

from collectors.kernel.ports import KnownPorts, Port


def port(rdma: str, **fields: object) -> Port:
    """One of a 400G card."""
    given = {"pci": "0000:18:00.0", "netdev": "ens1np0", "speed_bps": 4e11, "model": "MT4129", "number": 1} | fields
    return Port(rdma=rdma, **given)  # type: ignore[arg-type]


def test_a_line_finds_its_port_by_function_and_netdev() -> None:
    """None rather than the wrong one."""
    names = KnownPorts("rdma")
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
    """The kernel renumbers; and the log reports on a card while it is removed."""
    names = KnownPorts("rdma")
    names.adopt((port("mlx5_0", node_guid="g0"),))
    names.wants_look = True
    names.adopt((port("mlx5_1", node_guid="g0"), port("mlx5_0", node_guid="g1", pci="0000:20:00.0")))
    assert not names.wants_look
    assert {known.port.node_guid: known.name for known in names.ports} == {"g0": "mlx5_0", "g1": "g1@0000:20:00.0/1"}
    names.adopt(())
    found = names.of("0000:18:00.0")
    assert found is not None and found.name == "mlx5_0" and names.ports == ()
