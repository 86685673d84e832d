"""Reads the PCIe links and GPUs of a host separately, so that a hanging device affects no other."""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, TypeVar

from collectors.core.columns import RowReading
from collectors.core.metrics import CollectorMetrics
from collectors.core.tasks import in_thread
from collectors.host.gpu import Gpu, Gpus, Values
from collectors.kernel.ports import KnownPort, Role
from collectors.kernel.tree import Refusal, Tree
from collectors.kernel.values import pci_address
from streams.fabric.catalogue import Metric
from streams.instrument.clock import Clock
from streams.wire.errors import Reject

Answer = TypeVar("Answer")
Device = TypeVar("Device")


class ThreadCalls(Generic[Answer]):
    """Runs calls by name in threads; one thread per name at a time."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._asked: dict[str, asyncio.Future[Answer]] = {}

    @property
    def hung(self) -> frozenset[str]:
        """The calls that have not returned yet."""
        return frozenset(name for name, future in self._asked.items() if not future.done())

    async def call(self, questions: Iterable[tuple[str, Callable[[], Answer]]]) -> dict[str, Answer]:
        """Return the results that arrive within the deadline, by name; a late result is dropped."""
        hung = self.hung
        self._asked = {name: future for name, future in self._asked.items() if name in hung}
        asked = {name: in_thread(question, "railsight-host") for name, question in questions if name not in hung}
        self._asked |= asked
        if asked:
            await asyncio.wait(asked.values(), timeout=self._deadline_s)
        return {name: future.result() for name, future in asked.items() if future.done()}


_A = re.ASCII
_WIDTH = re.compile(r"\d{1,3}", _A)
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s(?: PCIe)?", _A)
_NO_WIDTH = {0, 63, 255}
"""Values of a missing link: all ones in the field and in the file, because the device does not respond."""
_MOST_LANES = 32


def width(text: str) -> float | None:
    """Parse the number of lanes; None without a link. Raises Reject."""
    if not _WIDTH.fullmatch(text) or (int(text) > _MOST_LANES and int(text) not in _NO_WIDTH):
        raise Reject(f"no width: {text[:40]!r}")
    return None if int(text) in _NO_WIDTH else float(text)


def speed(text: str) -> float | None:
    """Parse a speed in GT/s; None if unknown. Raises Reject."""
    if text.startswith("Unknown"):
        return None
    if not (result := _SPEED.fullmatch(text)) or float(result[1]) <= 0:
        raise Reject(f"no speed: {text[:40]!r}")
    return float(result[1])


class PcieReader:
    """Reads PCIe links; `refused` counts invalid contents, and is reset by its reader."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.refused = 0

    def read(self, folder: str) -> Values:
        """Return the PCIe link of a PCI function by its directory; unknown values are absent."""
        while folder and pci_address(folder) != folder.rpartition("/")[2]:  # a virtio or USB device below the function
            folder = folder.rpartition("/")[0] if pci_address(folder) else ""
        if not folder:
            return {}
        found: Values = {}
        for metric, reports, parse in (
            (Metric.PCIE_WIDTH_LANES, "current_link_width", width),
            (Metric.PCIE_SPEED_GTPS, "current_link_speed", speed),
        ):
            if (value := self._value(f"{folder}/{reports}", parse)) is not None:
                found[metric, -1] = value
        slot = folder.rpartition("/")[0]
        for metric, reports, parse in (
            (Metric.PCIE_WIDTH_MAX_LANES, "max_link_width", width),
            (Metric.PCIE_SPEED_MAX_GTPS, "max_link_speed", speed),
        ):
            own = self._value(f"{folder}/{reports}", parse)
            # Without a visible slot (the root complex of a guest), only the device's own values are known.
            theirs = self._value(f"{slot}/{reports}", parse) if pci_address(slot) == slot.rpartition("/")[2] else None
            if own is not None:
                found[metric, -1] = own if theirs is None else min(own, theirs)
        return found

    def _value(self, path: str, parse: Callable[[str], float | None]) -> float | None:
        try:
            text = self._tree.read_text(path)
            return None if text is None else parse(text)
        except Refusal:  # a guest may not read its slot: the value is absent
            return None
        except Reject:
            self.refused += 1
            return None


def merged(rows: Iterable[tuple[str, int, Values]]) -> dict[str, RowReading]:
    """Merge the readings of each row, at the time of the first reading; rows without values are omitted."""
    found: dict[str, tuple[int, Values]] = {}
    for row, at_ns, values in rows:
        if values:
            before_ns, before = found.get(row, (at_ns, {}))
            found[row] = min(before_ns, at_ns), before | values
    return {
        row: RowReading(at_ns, tuple(values), tuple(values.values())) for row, (at_ns, values) in found.items()
    }  # fmt: skip


Dated = tuple[int, Values]
"""The values of one device, and the middle of its reading in Unix ns."""


class Sampler:
    """Samples the devices of one host."""

    def __init__(self, tree: Tree, gpus: Gpus, deadline_s: float, metrics: CollectorMetrics, clock: Clock) -> None:
        self._tree = tree
        self._gpus = gpus
        self._asks: ThreadCalls[Dated] = ThreadCalls(deadline_s)
        self._metrics = metrics
        self._clock = clock

    @property
    def hung(self) -> frozenset[str]:
        """The devices that do not respond."""
        return self._asks.hung

    async def read(
        self, ports: Iterable[KnownPort], folders: Mapping[str, str], gpus: Mapping[str, Gpu]
    ) -> tuple[dict[str, RowReading], dict[str, RowReading]]:
        """Return the values of ports and GPUs by name; `folders` has the directories of the GPUs' PCI functions."""
        physical = [known for known in ports if not known.port.is_virtual and known.role is not Role.VIRTUAL]
        links = {known.port.pci: known.port.folder for known in physical if known.port.pci} | dict(folders)
        reader = PcieReader(self._tree)
        answers = await self._asks.call(
            [(f"pcie {pci}", partial(self._dated, reader.read, folder)) for pci, folder in links.items()]
            + [(f"gpu {pci}", partial(self._dated, self._gpus.read, gpu)) for pci, gpu in gpus.items()]
        )
        if reader.refused:
            self._metrics.add("unreadable", "pcie", reader.refused)
        nothing: Dated = 0, {}
        of_ports = [(known.name, *answers.get(f"pcie {known.port.pci}", nothing)) for known in physical]
        of_gpus = [(pci, *answers.get(f"{what} {pci}", nothing))
                   for pci in {**folders, **gpus} for what in ("pcie", "gpu")]  # fmt: skip
        return merged(of_ports), merged(of_gpus)

    def _dated(self, read: Callable[[Device], Values], device: Device) -> Dated:
        began_ns = self._clock.now_ns()
        values = read(device)
        return (began_ns + self._clock.now_ns()) // 2, values
