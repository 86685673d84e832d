"""Texts of a host: sysfs, procfs, ethtool, the kernel's log, lldpd, rtnetlink."""

from collections.abc import Callable, Iterator
from typing import Any

from collectors.core.context import DeviceEvent, Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.host import lines, links, lldp
from collectors.host.kernel_log import LABEL, KernelLog
from collectors.host.log_sources import Kmsg
from collectors.host.messages import classify
from collectors.host.nccl import RasChanges, parse_status, parse_warning
from collectors.host.rate_limit import RateLimitedEmitter
from collectors.kernel import values
from collectors.kernel.ports import KnownPorts
from collectors.kernel.signals import ethtool_signal
from collectors.kernel.tree import Refusal
from collectors.kernel.values import vpd
from streams.wire.errors import Reject
from streams.wire.models import Facts, Source
from streams.wire.topics import FACTS, encode
from tests.fakes.boot_time import SetZero
from tests.fakes.kmsg import FakeKmsg
from tests.fixtures.lldpd_output import interface, lldp_json
from tests.fuzz.target import Target, framed, frames
from tests.fuzz.targets.wire import ReadingPublisher, read_back

_NOW_NS = 1_764_000_000 * 10**9
_VALUES: tuple[Callable[[str], Any], ...] = (
    values.counter, values.rate_bps, values.speed_bps, values.state, values.port_is_up, values.port_is_enabled,
    values.operstate_is_up, values.carrier, values.is_enabled, values.guid, values.port_guid, values.mac,
    values.pci_address, values.boot_id, values.boot_time_ns, lambda text: values.default_routes(text, text),
)  # fmt: skip


def _parse_value(data: bytes) -> None:
    """Read one file of sysfs or procfs as every kind of value."""
    text = data.decode("utf-8", "replace").strip()
    for read in _VALUES:
        try:
            read(text)
        except Reject:
            continue


def _value_seeds() -> Iterator[bytes]:
    yield from (
        b"18446744073709551615\n", b"400 Gb/sec (4X NDR)\n", b"400000\n", b"4: ACTIVE\n", b"lowerlayerdown\n",
        b"0x1003\n", b"946d:ae03:00aa:bbcc\n", b"fe80:0000:0000:0000:946d:ae03:00aa:bbcc\n", b"94:6d:ae:aa:bb:cc\n",
        b"/sys/devices/pci0000:00/0000:18:00.0\n", b"b5b0bd09-65b9-4bd7-a1ca-b8d77b9eb3b1\n", b"btime 1764000000\n",
        b"Iface\tDestination\neth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
    )  # fmt: skip


def _parse_ethtool(data: bytes) -> None:
    for name, _ in values.ethtool_statistics(data.decode("utf-8", "replace")):
        ethtool_signal(name)


def _parse_line(data: bytes) -> None:
    classify(lines.parse(data, _NOW_NS).message)


def _line_seeds() -> Iterator[bytes]:
    message = "mlx5_core 0000:18:00.0 ens1np0: Link down"
    stamps = (
        "<6>[ 1000.250000] ", "kern  :info  : [ 1000.250000] ", "2026-11-21T10:00:00,250000+00:00 ",
        "Nov 21 10:00:00 gpu17 kernel: [ 1000.2] ", "[Sat Nov 21 10:00:00 2026] ", "6,7,1000250000,-;",
    )  # fmt: skip
    yield from ((stamp + message).encode() for stamp in stamps)
    yield from (
        (unit * 8_000)[:8_000]
        for unit in (b"0000:", b"a ", b"NVRM: Xid (", b"mlx5_core 0000:18:00.0 ", b"[ ", b"NVRM: 0000:9b:00 ", b"Link ")
    )
    yield from (
        b"NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        b"nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
        b"mlx5_core 0000:18:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        b"pcieport 0000:17:00.0: AER: Corrected error received: 0000:18:00.0",
    )


def _parse_kmsg(data: bytes) -> None:
    """Read records of /dev/kmsg one after the other; every event from them is one that Kafka's readers take."""
    ring, metrics, emitter = FakeKmsg(), CollectorMetrics(), Emitter(ReadingPublisher(), "host", 1, Source.SOURCE_HOST)
    for record in frames(data):
        if record:  # the kernel has no empty record
            ring.put(record)

    def emit(event: DeviceEvent, at_ns: int) -> None:
        emitter.event("host1", event, at_ns)

    log = KernelLog(
        Kmsg(ring, 1, None), lines.Times(SetZero(_NOW_NS - 10**12)), KnownPorts("rdma"),
        RateLimitedEmitter(1.0, 20, metrics, LABEL, emit), metrics, emit, boot_id=1, of_device=True, not_before_ns=0,
    )  # fmt: skip
    while not log.look(_NOW_NS, 0.0):
        pass
    log.close(_NOW_NS)


def _parse_lldp(data: bytes) -> None:
    facts = Facts("host1", _NOW_NS, Source.SOURCE_NIC, neighbors=lldp.neighbors(data))
    read_back(encode(FACTS, facts))


def _vpd_seeds() -> Iterator[bytes]:
    fields = b"PN\x05MCX75SN\x03ABC"
    yield b"\x82\x04\x00card\x90" + len(fields).to_bytes(2, "little") + fields + b"\x78"


def _parse_ras(data: bytes) -> None:
    RasChanges(2).changes(parse_status(data), frozenset({"h0"}))


def _ras_seeds() -> Iterator[bytes]:
    rank = b'{"rank":0,"host":"h0","status":{"async_error":"ncclSuccess"},"collective_counts":{"AllReduce":7}}'
    missing = b'{"rank":1,"host":"h1","status":{"unresponsive":true,"considered_dead":true}}'
    yield b'OK\n{"communicators":[{"hash":"0x1","size":2,"ranks":[' + rank + b'],"missing_ranks":[' + missing + b"]}]}"


TARGETS = (
    Target("sysfs-value", _parse_value, (), _value_seeds),
    Target(
        "sysfs-ethtool", _parse_ethtool, (), lambda: (b"NIC statistics:\n  rx_bytes_phy: 1\n  rx_prio3_pause: 7\n",)
    ),
    Target("sysfs-vpd", vpd, (), _vpd_seeds),
    Target("kernel-line", _parse_line, (Reject,), _line_seeds),
    Target("kernel-kmsg", _parse_kmsg, (Refusal,), lambda: (framed(*_line_seeds()),)),
    Target(
        "lldpd",
        _parse_lldp,
        (Reject,),
        lambda: (
            lldp_json(
                interface("ens1np0", "leaf1", "ifname", "Ethernet1"),
                interface("ens2np0", "leaf2", "mac", "00:11:22:33:44:55", "Ethernet2"),
            ),
        ),
    ),
    Target(
        "nccl-warning",
        lambda data: parse_warning(data.decode("utf-8", "replace")),
        (),
        lambda: (b"h0:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with status=A(12) op hca mlx5_0",),
    ),
    Target("nccl-ras", _parse_ras, (Reject,), _ras_seeds),
    Target("rtnetlink", links.link_of, (Reject,), lambda: (links._HEADS.pack(32, 16, 0, 1, 0, 0, 1, 7, 0x1003, 1),)),
)
