"""Reads the PCIe links and GPUs of a host separately, so that a hanging one affects no other. Composition."""

from collections.abc import Callable, Iterable, Mapping

from collectors.core.metrics import CollectorMetrics
from collectors.host.compose import GroupReading, merged
from collectors.host.gpu import Gpu, Gpus
from collectors.host.pcie import PcieReader, Values
from collectors.host.ports import KnownPort
from collectors.host.thread_calls import ThreadCalls
from collectors.kernel.tree import Tree
from streams.instrument.clock import Clock

Rows = dict[str, GroupReading]


class Sampler:
    """The sampler of one host."""

    def __init__(self, tree: Tree, gpus: Gpus, deadline_s: float, metrics: CollectorMetrics, clock: Clock) -> None:
        self._tree = tree
        self._gpus = gpus
        self._asks: ThreadCalls[GroupReading] = ThreadCalls(deadline_s)
        self._metrics = metrics
        self._clock = clock

    @property
    def hung(self) -> frozenset[str]:
        """The devices that do not respond."""
        return self._asks.hung

    async def read(
        self, ports: Iterable[KnownPort], folders: Mapping[str, str], gpus: Mapping[str, Gpu]
    ) -> tuple[Rows, Rows]:
        """Return the values of ports and GPUs, by name; `folders` are those of the GPUs' PCI functions."""
        physical = [known for known in ports if not known.port.is_virtual]
        links = {known.port.pci: known.port.folder for known in physical if known.port.pci} | dict(folders)
        reader = PcieReader(self._tree)
        answers = await self._asks.call(
            [(f"pcie {pci}", self._link(reader, folder)) for pci, folder in links.items()]
            + [(f"gpu {pci}", self._gpu(gpu)) for pci, gpu in gpus.items()]
        )
        if reader.refused:
            self._metrics.add("unreadable", "pcie", reader.refused)
        nothing = GroupReading(0, {})
        of_ports = [(known.name, answers.get(f"pcie {known.port.pci}", nothing)) for known in physical]
        of_gpus = [(pci, answers.get(f"{what} {pci}", nothing))
                   for pci in {**folders, **gpus} for what in ("pcie", "gpu")]  # fmt: skip
        return merged(of_ports), merged(of_gpus)

    def _link(self, reader: PcieReader, folder: str) -> Callable[[], GroupReading]:
        return lambda: self._timed(lambda: reader.read(folder))

    def _gpu(self, gpu: Gpu) -> Callable[[], GroupReading]:
        return lambda: self._timed(lambda: self._gpus.read(gpu))

    def _timed(self, read: Callable[[], Values]) -> GroupReading:
        """Date a reading at its middle."""
        began_ns = self._clock.now_ns()
        values = read()
        return GroupReading((began_ns + self._clock.now_ns()) // 2, values)
