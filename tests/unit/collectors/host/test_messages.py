"""Messages of drivers, as in their sources and public logs, and their classification."""

import gzip

import pytest

from collectors.host.lines import parse
from collectors.host.messages import About, Classified, classify, is_renaming, pci_address
from streams.wire.models import EventKind
from tests.recordings import DATA

NIC, GPU, OTHER = About.NIC, About.GPU, About.OTHER
PCI = "0000:5c:00.0"


@pytest.mark.parametrize(
    "message",
    [
        "mlx5_core 0000:41:00.1: 63.008 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x8 link)",
        "mlx5_core 0000:41:00.1: E-Switch: Total vports 10, per vport: max uc(128) max mc(2048)",
        "ata3: SATA link down (SStatus 0 SControl 300)",
        "mlx5_core 0000:41:00.0 enp65s0f0np0: renamed from eth0",
        "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
        "br0: port 1(eth0) entered disabled state",
        "a quote of NVRM: Xid (PCI:0000:9b:00): 79, in other text",
        "nvidia 0000:9b:00.0: Link to nowhere",
        "",
    ],
)
def test_most_lines_mean_nothing(message: str) -> None:
    """Also those that name a device and hold the words."""
    assert classify(message) is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("mlx5_core 0000:5c:00.0 ens1np0: Link up", Classified(EventKind.LINK_UP, NIC, PCI, "ens1np0")),
        ("mlx5_core 0000:5c:00.0 ens1np0: Link down", Classified(EventKind.LINK_DOWN, NIC, PCI, "ens1np0")),
        ("bnxt_en 0000:5c:00.0 ens1np0: NIC Link is Down", Classified(EventKind.LINK_DOWN, NIC, PCI, "ens1np0")),
        (
            "bnxt_en 0000:5c:00.0 ens1np0: NIC Link is Up, 400000 Mbps full duplex",
            Classified(EventKind.LINK_UP, NIC, PCI, "ens1np0"),
        ),
        (
            "mlx5_core 0000:5c:00.0: Port module event: module 1, Cable unplugged",
            Classified(EventKind.MODULE_REMOVED, NIC, PCI),
        ),
        (
            "mlx5_core 0000:5c:00.0: Port module event: module 0, Cable plugged",
            Classified(EventKind.MODULE_INSERTED, NIC, PCI),
        ),
        (
            "mlx5_core 0000:5c:00.0: port_module:251:(pid 0): Port module event[error]: module 0, Cable error,"
            " High Temperature",
            Classified(EventKind.MODULE_FAULT, NIC, PCI),
        ),
        (
            "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot"
            " (27W).",
            Classified(EventKind.SLOT_POWER, NIC, PCI),
        ),
        (
            "mlx5_core 0000:5c:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count",
            Classified(EventKind.NIC_FIRMWARE_ERROR, NIC, PCI),
        ),
        (
            "mlx5_core 0000:5c:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error,"
            " severity(3) ERROR:",
            Classified(EventKind.NIC_FIRMWARE_ERROR, NIC, PCI),
        ),
        (
            "mlx5_core 0000:5c:00.0: wait_func:964:(pid 112): ENABLE_HCA(0x104) timeout. Will cause a leak of a command"
            " resource",
            Classified(EventKind.NIC_FIRMWARE_ERROR, NIC, PCI),
        ),
        (
            "mlx5_core 0000:5c:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at"
            " 0000:5b:00.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)",
            Classified(EventKind.LOG, NIC, PCI),
        ),
        (
            "mlx5_core 0000:5c:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            Classified(EventKind.LOG, NIC, PCI),
        ),
        (
            "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            Classified(EventKind.GPU_XID, GPU, "0000:9b:00.0", code=79),
        ),
        ("NVRM: Xid (0000:03:00): 31, Ch 0000001b", Classified(EventKind.GPU_XID, GPU, "0000:03:00.0", code=31)),
        (
            "NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.",
            Classified(EventKind.LOG, GPU, "0000:9b:00.0"),
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            Classified(EventKind.LOG, OTHER, "0000:05:00.0", code=20034),
        ),
    ],
)
def test_what_they_mean(message: str, expected: Classified) -> None:
    """The kind, the device, and the number where there is one."""
    assert classify(message) == expected


def test_an_address_is_the_same_however_nvidia_writes_it() -> None:
    """As sysfs does."""
    for text in ("0000:9B:00", "00000000:9B:00.0", "0000:9b:00.0"):
        assert pci_address(text) == "0000:9b:00.0"
    assert pci_address("00010000:9B:00.0") == "10000:9b:00.0"


def test_a_renaming_is_noticed() -> None:
    """It means nothing but that names are to be looked up again."""
    assert is_renaming("mlx5_core 0000:41:00.0 enp65s0f0np0: renamed from eth0")
    assert not is_renaming("mlx5_core 0000:41:00.0 enp65s0f0np0: Link up")


def test_the_log_of_a_real_host() -> None:
    """Of 415 lines of a boot two mean something: a port without a cable, and one that came up."""
    path = DATA / "nic" / "gpud-dmesg-mlx5.txt.gz"
    if not path.exists():
        pytest.skip(f"no recording at {path}")
    found = []
    for data in gzip.decompress(path.read_bytes()).splitlines():
        line = parse(data, 0)
        if (context := classify(line.message)) is not None:
            found.append((context, line.since_boot_us))
    assert found == [
        (Classified(EventKind.MODULE_REMOVED, NIC, "0000:41:00.1"), 2_962_781),
        (Classified(EventKind.LINK_UP, NIC, "0000:41:00.0", "enp65s0f0np0"), 14_952_018),
    ]
