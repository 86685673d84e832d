"""The kernel logs of the world's hosts, a file each, as `dmesg` would write them: the same world, the same faults.

What a host's NICs say of links that go and come, its GPUs of their faults, and of a boot. A host that is away writes
nothing, and begins at 0 when it is back. `lines` is pure; KernelLogFace writes what it says, as it happens.
The PCI functions and netdevs are those of the sysfs face, so that both are of one machine.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from collectors.sim.sysfs_writer import netdev, pci_address
from streams.instrument.clock import Clock
from streams.simulation.demo_faults import GPU_RECOVERED_XID
from streams.simulation.demo_world import DemoWorld


def kernel_log_lines(world: DemoWorld, host: str, from_ns: int, until_ns: int) -> Iterator[str]:
    """What the host's kernel says after one moment and until another, in order."""
    boots = [span.end_ns for span in world.reboots(host) if from_ns < span.end_ns <= until_ns]
    told = [(at_ns, line) for boot_ns in boots for at_ns, line in _boot(world, host, boot_ns)]
    told += _links(world, host, from_ns, until_ns)
    told += [(at_ns, says) for at_ns, says in _gpus(world, host) if from_ns < at_ns <= until_ns]
    for at_ns, says in sorted(told):
        if world.device(host, at_ns).is_up:
            since_us = (at_ns - world.device(host, at_ns).boot_ns) // 1000
            yield f"<6>[{since_us // 1_000_000:5d}.{since_us % 1_000_000:06d}] {says}"


def _boot(world: DemoWorld, host: str, boot_ns: int) -> Iterator[tuple[int, str]]:
    yield boot_ns, "Linux version 6.8.0-sim (sim@railsight) #1 SMP PREEMPT_DYNAMIC"
    for number, _ in enumerate(world.ports.get(host, ())):
        yield boot_ns, f"mlx5_core {pci_address(number)} {netdev(number)}: renamed from eth{number}"


def _links(world: DemoWorld, host: str, from_ns: int, until_ns: int) -> Iterator[tuple[int, str]]:
    """Each moment at which a port of the host goes up or down."""
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
    """Yield the driver's log lines: an Xid, or with code 154 that no action is needed any more."""
    for event in world.gpu_events(host):
        gpu = f"NVRM: Xid (PCI:{event.port.rpartition('.')[0]}): {event.code},"
        if event.code == GPU_RECOVERED_XID:
            yield event.at_ns, f"{gpu} GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        else:
            yield event.at_ns, f"{gpu} pid='<unknown>', name=<unknown>"


class KernelLogWriter:
    """The logs of all hosts of a world, one file each below `folder`; written on every `every_s` until left."""

    def __init__(self, world: DemoWorld, clock: Clock, folder: Path, every_s: float = 0.1) -> None:
        self._world = world
        self._clock = clock
        self._folder = folder
        self._every_s = every_s
        self._written_ns = clock.now_ns()
        self._task: asyncio.Task[None] | None = None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the world."""
        return self._world.hosts

    def file(self, host: str) -> Path:
        """What the host agent is given as its kernel log."""
        return self._folder / f"{host}.kern.log"

    async def __aenter__(self) -> "KernelLogWriter":
        self._folder.mkdir(parents=True, exist_ok=True)
        for host in self.hosts:
            self.file(host).write_text("", encoding="ascii")  # an earlier run's lines are of another world
        self._task = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            self.write(self._clock.now_ns())

    def write(self, until_ns: int) -> None:
        """Write what was said since it was called last."""
        from_ns, self._written_ns = self._written_ns, until_ns
        for host in self.hosts:
            said = [*kernel_log_lines(self._world, host, from_ns, until_ns)]
            if said:
                with self.file(host).open("a", encoding="ascii") as file:
                    file.write("\n".join(said) + "\n")
