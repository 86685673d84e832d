"""Writes the hosts of the world as kernel trees (sysfs, procfs and `ethtool -S`) in a folder, and updates them.

The counters and states of a host's eight RoCE ports come from the world, so that a fault shows at both ends of its
link. Each host also has a management port that no fault affects. While a host is unreachable its sysfs is missing.
`host_tree` is pure; SysfsWriter writes each of its files as a whole.
"""

import asyncio
import contextlib
import hashlib
import shutil
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from lab.world.demo_links import PortState
from lab.world.demo_world import DemoWorld
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.instrument.clock import Clock

_S = 1_000_000_000
_ETHTOOL = "ethtool"
_FIRMWARE, _MODEL, _BOARD = "28.42.1000", "MT4129", "MT_0000000838"
_MANAGEMENT = "eno1"
_PCIE_LANES, _PCIE_GTPS = 16.0, 32.0
_UP, _DISABLED = "0x1003", "0x1002"
_TRANSPORT_COUNTERS: dict[str, Metric] = {
    "np_ecn_marked_roce_packets": Metric.ROCE_ECN_MARKED_PACKETS,
    "np_cnp_sent": Metric.CNP_SENT,
    "rp_cnp_handled": Metric.CNP_HANDLED,
    "out_of_sequence": Metric.OUT_OF_SEQUENCE,
    "local_ack_timeout_err": Metric.LOCAL_ACK_TIMEOUTS,
    "roce_slow_restart": Metric.ROCE_SLOW_RESTARTS,
}
_ZERO_TRANSPORT_COUNTERS = (
    "rp_cnp_ignored", "packet_seq_err", "implied_nak_seq_err", "req_transport_retries_exceeded", "rnr_nak_retry_err",
    "roce_adp_retrans", "out_of_buffer", "rx_icrc_encapsulated", "duplicate_request", "req_cqe_error",
    "resp_cqe_error",
)  # fmt: skip
"""Transport counters that no fault changes."""


@dataclass(frozen=True, slots=True)
class HostTree:
    """One host at a moment: the content of each file and the target of each symbolic link, by path below its folder."""

    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)


def guid(host: str, port: str) -> str:
    """Return the GUID of a port's card."""
    digits = hashlib.blake2b(f"{host}/{port}".encode(), digest_size=8).hexdigest()
    return ":".join(digits[i : i + 4] for i in range(0, 16, 4))


_SLOTS = 28
"""The slots at one bus each; further ports are functions of the same slots."""


def pci_address(number: int) -> str:
    """Return the PCI function of a host's port by its position, from 0."""
    function, slot = divmod(number, _SLOTS)
    return f"0000:{0x18 + 8 * slot:02x}:00.{function}"


def netdev(number: int) -> str:
    """Return the netdev of a host's port by its position, from 0."""
    return f"ens{number + 1}np0"


def host_tree(world: DemoWorld, host: str, at_ns: int) -> HostTree:
    """Return the trees of one host at a moment."""
    tree = HostTree()
    boot_ns = world.device(host, at_ns).boot_ns
    firmware = world.version(host, _FIRMWARE, at_ns)
    boot = hashlib.blake2b(f"{host}/{boot_ns}".encode(), digest_size=16).digest()
    tree.files["proc/sys/kernel/random/boot_id"] = str(uuid.UUID(bytes=boot))
    tree.files["proc/stat"] = f"btime {boot_ns // _S}"
    tree.files["proc/net/route"] = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        f"{_MANAGEMENT}\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0"
    )
    for number, name in enumerate(world.ports.get(host, ())):
        _add_port(tree, host, number, world.port(host, name, at_ns), _pcie(world, Port(host, name), at_ns), firmware)
    _add_management(tree, host, (at_ns - boot_ns) // _S)
    return tree


def _add_port(tree: HostTree, host: str, number: int, port: PortState, pcie: dict[str, str], firmware: str) -> None:
    address, net = pci_address(number), netdev(number)
    device = f"sys/devices/pci0000:00/{address}"
    rdma, name = f"{device}/infiniband/{port.name}", guid(host, port.name)
    tree.links.update({
        f"sys/class/infiniband/{port.name}": f"../../devices/pci0000:00/{address}/infiniband/{port.name}",
        f"sys/class/net/{net}": f"../../devices/pci0000:00/{address}/net/{net}",
        f"{rdma}/device": f"../../../{address}",
        f"{device}/net/{net}/device": f"../../../{address}",
        f"{device}/driver": "../../../bus/pci/drivers/mlx5_core",
    })  # fmt: skip
    files = {"vendor": "0x15b3", "device": "0x1021", **pcie}
    files |= {f"infiniband/{port.name}/{k}": v for k, v in _rdma(port, name, net, firmware).items()}
    files |= {f"net/{net}/{k}": v for k, v in _netdev(port, name).items()}
    tree.files.update({f"{device}/{path}": text for path, text in files.items()})
    tree.files[f"{_ETHTOOL}/{net}.statistics"] = "\n".join(
        ["NIC statistics:", *(f"     {key}: {value}" for key, value in _statistics(port).items())]
    )


def _pcie(world: DemoWorld, port: Port, at_ns: int) -> dict[str, str]:
    width = world.gauge(port, Metric.PCIE_WIDTH_LANES, at_ns, _PCIE_LANES)
    speed = world.gauge(port, Metric.PCIE_SPEED_GTPS, at_ns, _PCIE_GTPS)
    return {
        "current_link_width": f"{width:g}", "current_link_speed": f"{speed:.1f} GT/s PCIe",
        "max_link_width": f"{_PCIE_LANES:g}", "max_link_speed": f"{_PCIE_GTPS:.1f} GT/s PCIe",
    }  # fmt: skip


def _rdma(port: PortState, name: str, net: str, firmware: str) -> dict[str, str]:
    files = {
        "fw_ver": firmware, "hca_type": _MODEL, "board_id": _BOARD, "node_guid": name,
        "ports/1/link_layer": "Ethernet",
        "ports/1/state": "4: ACTIVE" if port.oper_up else "1: DOWN",
        "ports/1/phys_state": "5: LinkUp" if port.oper_up else "2: Polling" if port.admin_up else "3: Disabled",
        "ports/1/rate": f"{port.speed_bps // 10**9} Gb/sec (4X NDR)",
        "ports/1/gids/0": f"fe80:0000:0000:0000:{name}",
        "ports/1/gid_attrs/ndevs/0": net,
        "ports/1/counters/port_rcv_data": str(port.rx_bytes // 4),
        "ports/1/counters/port_xmit_data": str(port.tx_bytes // 4),
        "ports/1/counters/port_rcv_packets": str(port.rx_packets),
        "ports/1/counters/port_xmit_packets": str(port.tx_packets),
        "ports/1/counters/port_rcv_errors": "0",
        "ports/1/counters/port_xmit_discards": str(port.counter(Metric.TX_DISCARDS)),
        "ports/1/counters/port_xmit_wait": "0",
        "ports/1/counters/link_downed": "0",  # as on RoCE: the netdev and ethtool count downs
        "ports/1/hw_counters/lifespan": "10",
    }  # fmt: skip
    for counter, metric in _TRANSPORT_COUNTERS.items():
        files[f"ports/1/hw_counters/{counter}"] = str(port.counter(metric))
    return files | {f"ports/1/hw_counters/{counter}": "0" for counter in _ZERO_TRANSPORT_COUNTERS}


def _mac(name: str) -> str:
    """Return a locally administered address derived from a GUID."""
    digits = name.replace(":", "")
    return ":".join(["02", *(digits[i : i + 2] for i in range(6, 16, 2))])


def _downs(port: PortState) -> int:
    """Return the number of downs of a port, which is up when its device has booted."""
    return (port.transitions + 1) // 2


def _netdev(port: PortState, name: str) -> dict[str, str]:
    return _plain_netdev(_mac(name), is_up=port.oper_up, is_enabled=port.admin_up) | {
        "speed": str(port.speed_bps // 10**6 if port.oper_up else -1),
        "carrier_changes": str(port.transitions),
        "carrier_down_count": str(_downs(port)),
        "carrier_up_count": str(port.transitions // 2),
        "phys_port_name": "p0",
    }


def _plain_netdev(mac: str, *, is_up: bool, is_enabled: bool) -> dict[str, str]:
    files = {
        "address": mac, "type": "1", "dev_port": "0", "dev_id": "0x0", "phys_port_name": "",
        "operstate": "up" if is_up else "down", "flags": _UP if is_enabled else _DISABLED,
        "carrier_changes": "0", "carrier_down_count": "0", "carrier_up_count": "0",
    }  # fmt: skip
    counters = ("bytes", "packets", "errors", "dropped")
    return files | {f"statistics/{direction}_{what}": "0" for direction in ("rx", "tx") for what in counters}


def _statistics(port: PortState) -> dict[str, int]:
    """Return the counters of the physical layer and of flow control of the one lossless priority."""
    return {
        "rx_bytes_phy": port.rx_bytes, "tx_bytes_phy": port.tx_bytes,
        "rx_packets_phy": port.rx_packets, "tx_packets_phy": port.tx_packets,
        "rx_crc_errors_phy": port.fcs_errors,
        "rx_symbol_err_phy": max(port.fcs_errors, port.counter(Metric.RX_SYMBOL_ERRORS)),
        "rx_discards_phy": port.counter(Metric.RX_DISCARDS), "tx_discards_phy": port.counter(Metric.TX_DISCARDS),
        "tx_errors_phy": 0,
        "link_down_events_phy": _downs(port),
        "rx_bits_phy": port.counter(Metric.RX_BITS), "rx_corrected_bits_phy": port.corrected_bits,
        "rx_pcs_symbol_err_phy": 0,
        **{f"rx_err_lane_{lane}_phy": port.corrected_bits * (lane == port.worst_lane) for lane in range(4)},
        "rx_pause_ctrl_phy": port.counter(Metric.PAUSE_RX_FRAMES),
        "tx_pause_ctrl_phy": port.counter(Metric.PAUSE_TX_FRAMES),
        "rx_prio3_pause": port.pause_frames(port.paused_us), "tx_prio3_pause": port.pause_frames(port.pauses_us),
        "rx_prio3_pause_duration": port.paused_us, "tx_prio3_pause_duration": port.pauses_us,
        "rx_prio3_pause_transition": 0, "tx_pause_storm_warning_events": 0, "tx_pause_storm_error_events": 0,
        "rx_pci_signal_integrity": 0, "tx_pci_signal_integrity": 0,
        "outbound_pci_stalled_rd": port.counter(Metric.PCIE_STALLED_READ_SECONDS),
        "outbound_pci_stalled_wr": port.counter(Metric.PCIE_STALLED_WRITE_SECONDS),
    }  # fmt: skip


def _add_management(tree: HostTree, host: str, up_s: int) -> None:
    address = "0000:03:00.0"
    device = f"sys/devices/pci0000:00/{address}"
    tree.links.update({
        f"sys/class/net/{_MANAGEMENT}": f"../../devices/pci0000:00/{address}/net/{_MANAGEMENT}",
        f"{device}/net/{_MANAGEMENT}/device": f"../../../{address}",
    })  # fmt: skip
    files = _plain_netdev(_mac(guid(host, _MANAGEMENT)), is_up=True, is_enabled=True)
    files |= {"speed": "10000", "statistics/rx_bytes": str(40_000 * up_s), "statistics/tx_bytes": str(90_000 * up_s)}
    tree.files.update({f"{device}/net/{_MANAGEMENT}/{path}": text for path, text in files.items()})
    tree.files.update({f"{device}/vendor": "0x14e4", f"{device}/device": "0x165f"})


class PeriodicWriter(ABC):
    """Writes files of all hosts of the world below `folder`, every `every_s`, while it is entered."""

    def __init__(self, world: DemoWorld, clock: Clock, folder: Path, every_s: float) -> None:
        self._world = world
        self._clock = clock
        self._folder = folder
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of the world."""
        return self._world.hosts

    @abstractmethod
    def write(self, at_ns: int) -> None:
        """Write the files that are due at this moment."""

    def prepare(self) -> None:
        """Write the files that must exist before the first interval."""
        self.write(self._clock.now_ns())

    async def __aenter__(self) -> Self:
        self.prepare()
        self._task = asyncio.create_task(self._write_periodically())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _write_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            self.write(self._clock.now_ns())


class SysfsWriter(PeriodicWriter):
    """Writes the trees of all hosts, one folder each, every `every_s`."""

    def __init__(self, world: DemoWorld, clock: Clock, folder: Path, every_s: float = 1.0) -> None:
        super().__init__(world, clock, folder, every_s)
        self._written: dict[Path, str] = {}

    def root(self, host: str) -> Path:
        """Return the root for the NIC collector."""
        return self._folder / host

    def ethtool_dir(self, host: str) -> Path:
        """Return the directory for the output of `ethtool -S`."""
        return self._folder / host / _ETHTOOL

    def write(self, at_ns: int) -> None:
        """Write the state of the world at a moment into the folders; only changed files are written."""
        for host in self.hosts:
            root = self.root(host)
            if not self._world.device(host, at_ns).is_up:
                self._remove(root)
                continue
            tree = host_tree(self._world, host, at_ns)
            for path, text in tree.files.items():
                self._write(root / path, text)
            for path, target in tree.links.items():  # last, so that a reader that finds a device finds all its files
                if not (link := root / path).is_symlink():
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(target)

    def _remove(self, root: Path) -> None:
        """Remove the devices of an unreachable host; they are created again when it boots."""
        if (root / "sys").exists():
            shutil.rmtree(root / "sys")
            self._written = {path: text for path, text in self._written.items() if root not in path.parents}

    def _write(self, path: Path, text: str) -> None:
        """Replace a file atomically, so that a reader sees the old or the new content."""
        if self._written.get(path) == text:
            return
        if path not in self._written:
            path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._folder / ".fresh"
        fresh.write_text(text + "\n", encoding="ascii")
        fresh.replace(path)
        self._written[path] = text
