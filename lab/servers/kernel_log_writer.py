"""Writes the kernel logs of the world's hosts, one file each, in the format of `dmesg`.

The lines report links that go down and up, GPU faults and boots. A rebooting host writes nothing, and its timestamps
start at 0 afterwards. `kernel_log_lines` is pure; KernelLogWriter writes its lines when they are due. The PCI functions
and netdevs are the same as in sysfs_writer.py, so that both describe one machine.
"""

from collections.abc import Iterator
from pathlib import Path

from lab.servers.sysfs_writer import PeriodicWriter, netdev, pci_address
from lab.world.demo_world import DemoWorld
from lab.world.faults.hosts import GPU_RECOVERED_XID
from streams.instrument.clock import Clock


def kernel_log_lines(world: DemoWorld, host: str, from_ns: int, until_ns: int) -> Iterator[str]:
    """Yield the lines of a host's kernel after one moment and until another, in order."""
    boots = [interval.end_ns for interval in world.reboots(host) if from_ns < interval.end_ns <= until_ns]
    lines = [(at_ns, line) for boot_ns in boots for at_ns, line in _boot(world, host, boot_ns)]
    lines += _links(world, host, from_ns, until_ns)
    lines += [(at_ns, text) for at_ns, text in _gpus(world, host) if from_ns < at_ns <= until_ns]
    for at_ns, text in sorted(lines):
        if world.device(host, at_ns).is_up:
            since_us = (at_ns - world.device(host, at_ns).boot_ns) // 1000
            yield f"<6>[{since_us // 1_000_000:5d}.{since_us % 1_000_000:06d}] {text}"


def _boot(world: DemoWorld, host: str, boot_ns: int) -> Iterator[tuple[int, str]]:
    yield boot_ns, "Linux version 6.8.0-sim (sim@railsight) #1 SMP PREEMPT_DYNAMIC"
    for number, _ in enumerate(world.ports.get(host, ())):
        yield boot_ns, f"mlx5_core {pci_address(number)} {netdev(number)}: renamed from eth{number}"


def _links(world: DemoWorld, host: str, from_ns: int, until_ns: int) -> Iterator[tuple[int, str]]:
    """Yield a line for each moment at which a port of the host goes up or down."""
    moments = [at_ns for at_ns in world.changes(host) if from_ns < at_ns <= until_ns]
    for number, port in enumerate(world.ports.get(host, ())):
        for at_ns in moments:
            before, after = world.port(host, port, at_ns - 1), world.port(host, port, at_ns)
            if before.oper_up != after.oper_up:
                yield (
                    at_ns,
                    f"mlx5_core {pci_address(number)} {netdev(number)}: Link {'up' if after.oper_up else 'down'}",
                )


def _gpus(world: DemoWorld, host: str) -> Iterator[tuple[int, str]]:
    """Yield the driver's log lines: an Xid, or with code 154 that no action is needed any longer."""
    for event in world.gpu_events(host):
        gpu = f"NVRM: Xid (PCI:{event.port.rpartition('.')[0]}): {event.code},"
        if event.code == GPU_RECOVERED_XID:
            yield event.at_ns, f"{gpu} GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        else:
            yield event.at_ns, f"{gpu} pid='<unknown>', name=<unknown>"


class KernelLogWriter(PeriodicWriter):
    """Writes the logs of all hosts, one file each below `folder`, every `every_s`."""

    def __init__(self, world: DemoWorld, clock: Clock, folder: Path, every_s: float = 0.1) -> None:
        super().__init__(world, clock, folder, every_s)
        self._written_ns = clock.now_ns()

    def file(self, host: str) -> Path:
        """Return the path of a host's kernel log."""
        return self._folder / f"{host}.kern.log"

    def prepare(self) -> None:
        """Empty the files, because lines of an earlier run belong to another world."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for host in self.hosts:
            self.file(host).write_text("", encoding="ascii")

    def write(self, at_ns: int) -> None:
        """Write the lines since the last call."""
        from_ns, self._written_ns = self._written_ns, at_ns
        for host in self.hosts:
            lines = [*kernel_log_lines(self._world, host, from_ns, at_ns)]
            if lines:
                with self.file(host).open("a", encoding="ascii") as file:
                    file.write("\n".join(lines) + "\n")
