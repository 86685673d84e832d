"""Messages of drivers, as in their sources and public logs, and their classification."""

import gzip

import pytest

from collectors.host.lines import parse
from collectors.host.messages import (
    About,
    Classified,
    NvrmLines,
    classify,
    is_renaming,
    pci_address,
    unknown_driver,
)
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
        "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link INIT",
        "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ARMED",
        "amdgpu 0000:68:00.0: amdgpu: socket: 0, 1 uncorrectable hardware errors detected in total in umc block",
        "amdgpu 0000:68:00.0: amdgpu: socket: 0, 0 new uncorrectable hardware errors detected in umc block",
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
            "NVRM: The NVIDIA GPU 0000:9b:00.0\\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\\x0a"
            "NVRM: fallen off the bus and is not responding to commands.",
            Classified(EventKind.LOG, GPU, "0000:9b:00.0"),
        ),
        *(
            (
                f"NVRM: Xid (PCI:0000:9b:00{mig}): 48, pid=4242, x",
                Classified(EventKind.GPU_XID, GPU, "0000:9b:00.0", code=48),
            )
            for mig in (" GPU-I:05", " GPU-I:05 GPU-CI:00", ".0 GPU-I:5")
        ),
        (
            "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link DOWN",
            Classified(EventKind.LINK_DOWN, NIC, "0000:ab:00.0", rdma="mlx5_5", number=1),
        ),
        (
            "mlx5_core 0000:08:00.0 rocep8s0f0: Port ACTIVE",
            Classified(EventKind.LINK_UP, NIC, "0000:08:00.0", rdma="rocep8s0f0"),
        ),
        (
            "mlx5_core 0010:03:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count",
            Classified(EventKind.NIC_FIRMWARE_ERROR, NIC, "0010:03:00.0"),
        ),
        (
            "mlx5_core 0010:03:00.0 ens1f0: NETDEV WATCHDOG: CPU: 12: transmit queue 3 timed out 5012 ms",
            Classified(EventKind.LOG, NIC, "0010:03:00.0", "ens1f0"),
        ),
        (
            "ena 0000:00:06.0 ens6: Keep alive watchdog timeout, 6012 msecs since the last one",
            Classified(EventKind.NIC_FIRMWARE_ERROR, NIC, "0000:00:06.0", "ens6"),
        ),
        (
            "mlx5_core 0000:3b:00.0: modify lag map port 1:1 port 2:1",
            Classified(EventKind.LOG, NIC, "0000:3b:00.1"),
        ),
        ("mlx5_core 0000:3b:00.0: lag map: port 1:2 port 2:2", Classified(EventKind.LOG, NIC, "0000:3b:00.0")),
        (
            "pcieport 0000:17:00.0: AER: Correctable error message received from 0000:18:00.0",
            Classified(EventKind.LOG, About.PCI, "0000:18:00.0"),
        ),
        (
            "pcieport 0000:17:00.0: AER: Uncorrected (Fatal) error received: 0000:18:00.0",
            Classified(EventKind.LOG, About.PCI, "0000:18:00.0"),
        ),
        (
            "pcieport 0000:17:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
            Classified(EventKind.LOG, About.PCI, "0000:17:00.0"),
        ),
        *(
            (f"amdgpu 0000:68:00.0: {text}", Classified(EventKind.LOG, GPU, "0000:68:00.0"))
            for text in (
                "{1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!",
                "amdgpu: socket: 0, die: 1, 1 new uncorrectable hardware errors detected in umc block",
                "amdgpu: GPU reset begin!",
                "amdgpu: GPU reset(2) failed",
                "amdgpu: GPU reset end with ret = -110",
            )
        ),
        *(
            (text, Classified(EventKind.LOG, OTHER, ""))
            for text in (
                "watchdog: BUG: soft lockup - CPU#6 stuck for 48s! [python:4242]",
                "NMI watchdog: BUG: soft lockup - CPU#6 stuck for 23s! [python:4242]",
                "watchdog: Watchdog detected hard LOCKUP on cpu 6",
            )
        ),
        *(
            (f"NETDEV WATCHDOG: {text}", Classified(EventKind.LOG, NIC, "", "ens1f0"))
            for text in (
                "ens1f0 (mlx5_core): transmit queue 3 timed out",
                "ens1f0 (mlx5_core): transmit queue 3 timed out 5012 ms",
                "CPU: 12: ens1f0 (mlx5_core): transmit queue 3 timed out 5012 ms",
            )
        ),
        *(
            (f"pcieport 0015:00:00.0: DPC: containment event, status:{text}", Classified(EventKind.LOG, About.PCI, pci))
            for text, pci in (
                ("0x1f01 source:0x0000", "0015:00:00.0"),
                ("0x1f01: unmasked uncorrectable error detected", "0015:00:00.0"),
                ("0x200d, ERR_FATAL received from 0015:01:00.0", "0015:01:00.0"),
            )
        ),
        (
            "dpc 0000:00:03.2:pcie008: DPC containment event, status:0x1f01 source:0x0000",
            Classified(EventKind.LOG, About.PCI, "0000:00:03.2"),
        ),
        (
            "pciehp 0000:00:01.0:pcie004: Slot(1): Card not present",
            Classified(EventKind.LOG, About.PCI, "0000:00:01.0"),
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


@pytest.mark.parametrize(
    ("message", "driver"),
    [
        ("NVRM: something that no version has reported yet", "NVRM"),
        ("nvidia-nvswitch3: a new line", "nvidia-nvswitch"),
        ("mlx5_core 0000:41:00.1: E-Switch: Total vports 10, per vport: max uc(128)", "mlx5_core"),
        ("bnxt_en 0010:41:00.1 ens1np0: Received firmware debug notification", "bnxt_en"),
        ("[drm:amdgpu_job_timedout [amdgpu]] amdgpu: ring sdma0 timeout", "amdgpu"),
        ("pcieport 0000:17:00.0: AER: a new line", "AER"),
        ("pcieport 0000:17:00.0: DPC: a new line", "DPC"),
        ("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout", "amdgpu"),
        ("infiniband mlx5_0: Port DOWN", "infiniband"),
        ("hfi1 0000:3b:00.0: hfi1_0: logical state changed to PORT_DOWN (0x1)", "hfi1"),
        ("habanalabs hl0: Heartbeat failed", "habanalabs"),
        ("{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 1", "Hardware Error"),
        ("xen: a hypervisor", ""),
        ("NVRM: GPU at PCI:0000:9b:00: GPU-9", ""),
        ("mlx5_core 0000:41:00.0 enp65s0f0np0: renamed from eth0", ""),
        ("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ARMED", ""),
        ("ata3: SATA link down (SStatus 0 SControl 300)", ""),
        ("a quote of NVRM: Xid (PCI:0000:9b:00): 79, in other text", "NVRM"),
        ("NVRM: Xid (GPU at an address of another form): 79", "NVRM"),
    ],
)
def test_a_drivers_line_without_a_rule_is_counted_for_the_driver(message: str, driver: str) -> None:
    """Known harmless lines, and those of other drivers, are not."""
    assert classify(message) is None and unknown_driver(message) == driver


def test_a_lost_gpu_in_three_lines_is_one_message() -> None:
    """As rsyslog writes the driver's message; another GPU between them does not take its place."""
    lines = (
        "NVRM: The NVIDIA GPU 0000:9b:00.0", "NVRM: (PCI ID: 10de:2330) installed in this system has", "usb 1-2: x",
        "NVRM: fallen off the bus and is not responding to commands.",
    )  # fmt: skip
    nvrm = NvrmLines()
    found = [classify(nvrm.join(line)) for line in lines]
    assert found == [None, None, None, Classified(EventKind.LOG, GPU, "0000:9b:00.0")]
    assert classify(nvrm.join(lines[-1])) is None


def test_an_address_is_the_same_however_nvidia_writes_it() -> None:
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


def test_the_address_of_a_lost_gpu_is_near_the_begin_and_the_report() -> None:
    """The limits make the time linear: a line of 8 KiB of addresses took 0.13 s."""
    lost = "GPU 0000:9b:00.0: GPU has fallen off the bus."
    assert classify(f"NVRM: {lost}") == Classified(EventKind.LOG, GPU, "0000:9b:00.0")
    assert classify("NVRM: The NVIDIA GPU 0000:9b:00.0 has (0) fallen off the bus") is not None
    assert classify(f"NVRM: {'0000:5c:00.0 ' * 600}{lost}") is None
    assert classify(f"NVRM: GPU 0000:9b:00.0 {'x' * 200} fallen off the bus") is None
