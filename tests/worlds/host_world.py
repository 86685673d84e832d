"""The messages of the host agents of the small fabric: PCIe links, GPUs, and the Xids of their driver."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from streams.fabric.catalogue import Metric
from streams.wire.models import Event, EventKind, Message, RowKind, Samples, Source
from tests.worlds.observations import at, samples
from tests.worlds.small_world import ROUND_S, Seconds, SmallWorld

HOST = Source.SOURCE_HOST
RECOVERED = 1540
"""Represents an Xid 154 by which the driver reports that no action is needed any more."""
GPUS = tuple(f"0000:{bus:02x}:00.0" for bus in (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0x9B))

Pcie = tuple[float, float]
"""Lanes and GT/s."""
FULL: Pcie = (16, 32)


@dataclass
class HostWorld(SmallWorld):
    """Faults of the parts of hosts, by `host/part`."""

    narrow: dict[str, list[Seconds]] = field(default_factory=dict)
    """Ports whose PCIe link has eight lanes of sixteen."""
    hot: dict[str, list[Seconds]] = field(default_factory=dict)
    """GPUs at 91 °C; the others have 62 °C."""
    unlinked: dict[str, list[Seconds]] = field(default_factory=dict)
    """GPUs with 17 of their 18 NVLinks."""
    capped: dict[str, list[Seconds]] = field(default_factory=dict)
    """GPUs that may take 500 W of 700 W."""
    xids: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """By `host/gpu`, the times and codes of its Xids."""

    def other_messages(self, until: float) -> Iterator[Message]:
        """Yield the messages of the agents of all hosts."""
        hosts = [device.name for device in self.topology.devices.values() if device.kind == "host"]
        for step in range(int(until // ROUND_S) + 1):
            for host in hosts:
                if not self.is_silent(host, step * ROUND_S):
                    yield from self._read(host, step * ROUND_S + 0.25, step)
        for name, xids in self.xids.items():
            yield from (xid(name, t, code) for t, code in xids)

    def _read(self, host: str, t: float, step: int) -> Iterator[Samples]:
        lanes, gtps = FULL
        links = {
            link.lower.port: (self.fabric.gauge(link.lower, Metric.PCIE_WIDTH_LANES, at(t), lanes), gtps)
            for link in self.topology.uplinks_of[host]
        }
        boot_id, busy = self.boot_id(host, t), dict.fromkeys(GPUS, 0.97)
        yield pcie(host, t, links, boot_id=boot_id, sequence=2 * step)
        celsius = {gpu: 91.0 if _in(self.hot.get(f"{host}/{gpu}"), t) else 62.0 for gpu in GPUS}
        of_gpus = dict.fromkeys(GPUS, FULL)
        others = self._limits(host, t) if self.unlinked or self.capped else {}
        yield pcie(host, t, of_gpus, busy=busy, celsius=celsius, others=others, boot_id=boot_id, sequence=2 * step + 1)

    def _limits(self, host: str, t: float) -> dict[Metric, dict[str, float | None]]:
        return {
            Metric.NVLINK_LINKS_UP: {g: 17.0 if _in(self.unlinked.get(f"{host}/{g}"), t) else 18.0 for g in GPUS},
            Metric.GPU_POWER_LIMIT_W: {g: 500.0 if _in(self.capped.get(f"{host}/{g}"), t) else 700.0 for g in GPUS},
        }


def _in(intervals: Sequence[Seconds] | None, t: float) -> bool:
    return any(begin <= t < end for begin, end in intervals or ())


def xid(name: str, t: float, code: int, detail: str = "") -> Event:
    """Return an Xid of the driver about the GPU `host/address`."""
    host, _, gpu = name.partition("/")
    if code == RECOVERED:
        code, detail = 154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    text = f"NVRM: Xid (PCI:{gpu[:-2]}): {code}, {detail or 'pid=1234, name=python'}"
    return Event(host, gpu, EventKind.GPU_XID, at(t), at(t), HOST, detail=text, code=code)


def pcie(
    host: str, t: float, links: Mapping[str, Pcie | None], *, most: Pcie = FULL,
    busy: Mapping[str, float] | None = None, ecc: Mapping[str, float] | None = None,
    celsius: Mapping[str, float] | None = None,
    others: Mapping[Metric, Mapping[str, float | None]] = MappingProxyType({}), boot_id: int = 0, sequence: int = 1,
) -> Samples:  # fmt: skip
    """Return one reading of the PCIe links of a host's ports, or with `busy` of its GPUs; None: the row has no link."""
    text = {
        Metric.PCIE_WIDTH_LANES: {name: link and link[0] for name, link in links.items()},
        Metric.PCIE_SPEED_GTPS: {name: link and link[1] for name, link in links.items()},
        Metric.PCIE_WIDTH_MAX_LANES: {name: link and most[0] for name, link in links.items()},
        Metric.PCIE_SPEED_MAX_GTPS: {name: link and most[1] for name, link in links.items()},
    }
    values: dict[Metric, dict[str, float | None]] = dict(text)
    if busy is not None:
        values[Metric.GPU_UTILIZATION_RATIO] = dict(busy)
    if celsius is not None:
        values[Metric.GPU_TEMPERATURE_C] = dict(celsius)
    if ecc is not None:
        values[Metric.GPU_ECC_UNCORRECTED] = dict(ecc)
    values |= {metric: dict(read) for metric, read in others.items()}
    kind = RowKind.ROW_KIND_PORT if busy is None and ecc is None else RowKind.ROW_KIND_GPU
    return replace(samples(host, t, values, source=HOST, boot_id=boot_id, sequence=sequence), row_kind=kind)
