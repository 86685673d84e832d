"""Runs the real processes: Kafka, ClickHouse behind a gate, two workers and a sink, which restart when they end.

A start that another fault interrupts is repeated, because it shows nothing about the server. A start that fails without
a fault is a defect, and its error is raised.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from lab.chaos import isolation
from lab.chaos.gate import Gate
from lab.constants import command_with
from streams.config.kafka import KafkaSettings
from streams.config.settings import load
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.embedded.kafka_data_dir import free_ports
from streams.embedded.watched_process import WatchedProcess
from streams.runtime.local_pipeline import railsight_command
from streams.wire.errors import Misconfigured

SESSION_S = 6.0
"""The shortest session that brokers accept by default, for a quick takeover."""
PAUSE_S = SESSION_S + 2.0
"""A process that is paused this long has lost its partitions when it resumes."""
TELEMETRY_PARTITIONS = 4
POD_PARTITIONS = 2

SETTINGS = """\
[detect]
lateness_s = 10
[detect.down]
open_after_s = 4
[detect.flap]
presets = ["switch-errdisable"]
"""
"""Intervals of a run: shorter than the defaults, so that a run of half a minute contains takeovers and snapshots.

CONSTANTS has the rest. link/flap uses only its preset of five outages in ten seconds: in a night each link goes down
twenty times by intent."""

CONSTANTS = {
    "persist.linger_s": 0.5,
    "persist.linger_max_s": 2,
    "persist.linger_background_s": 3,
    "persist.retry_backoff_max_s": 2,
    "persist.session_timeout_s": SESSION_S,
    "detect.down.hold_up_s": 2,
    "detect.stale.loss_s": 30,
    "runtime.session_s": SESSION_S,
    "runtime.quiet_snapshot_s": 3,
    "runtime.measure_snapshot_s": 3,
}
"""Constants of a run's processes, shorter than the product's."""


@dataclass(frozen=True, slots=True)
class ChaosParams:
    """One sequence. The same seed, faults and seconds give the same sequence."""

    seed: int
    faults: tuple[str, ...]
    seconds: float


STARTS = 3
"""Faults of one target follow each other, so that one start meets at most two of them."""
FREE_WITHIN_S = 60.0
"""The longest wait for the end of the interrupting fault; faults last at most 18 s."""


class Restarts:
    """Repeats the starts of one server; `start` starts what is not running and raises Misconfigured."""

    def __init__(self, start: Callable[[], None]) -> None:
        self._start = start
        self._one_at_a_time = threading.Lock()
        self._changed = threading.Condition()
        self._begun = self._active = 0

    @contextmanager
    def fault(self) -> Iterator[None]:
        """Count a fault that acts on the server."""
        with self._changed:
            self._begun += 1
            self._active += 1
        try:
            yield
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()

    def restart(self, late_ends: int = 0) -> None:
        """Start the server when no fault acts on it; blocks. Raises Misconfigured if a start fails without a fault.

        `late_ends` of its processes may still end by the past fault, possibly while the others start: as many failed
        starts are repeated.
        """
        with self._one_at_a_time:
            for attempt in range(1 - late_ends, STARTS + 1):
                begun, is_free = self._wait_until_free()
                try:
                    self._start()
                except Misconfigured:
                    if attempt == STARTS or (attempt > 0 and is_free and begun == self._begun):
                        raise
                else:
                    return

    def _wait_until_free(self) -> tuple[int, bool]:
        """Return the number of started faults, and True if none is active."""
        with self._changed:
            is_free = self._changed.wait_for(lambda: not self._active, FREE_WITHIN_S)
            return self._begun, is_free


WORKERS = ("worker-a", "worker-b")
SINK = "persist"
ALL_TARGETS = "all"
"""The target of a fault that acts on everything."""
SMALL_DISK_MIB = 640
"""The disk size of each broker and of ClickHouse if a fault fills it: a broker starts with 256 MiB and more."""
_SETUP_S = 120.0
_KEEP_S = 0.3
_RESTART_S = 1.0


@dataclass
class PartProcess:
    """One part of the pipeline: its command, its current process, and the number of unexpected ends."""

    name: str
    command: tuple[str, ...]
    folder: Path
    process: WatchedProcess | None = None
    runs: int = 0
    ended: list[int] = field(default_factory=list)
    """The exit codes of the runs that no fault ended."""

    def start(self) -> None:
        """Start the part if it is not running."""
        if self.process is None:
            self.runs += 1
            self.process = WatchedProcess(self.command, self.folder / f"{self.name}.{self.runs}.log")

    def kill(self) -> None:
        """End the part with SIGKILL; it stays down until `start`."""
        # Cleared first: `Stack.keep` would otherwise see the end and start it again.
        process, self.process = self.process, None
        if process is not None:
            process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the part's process if it is running."""
        send_signal(None if self.process is None else self.process.pid, number)

    def logs(self) -> list[Path]:
        """Return the logs of all runs."""
        return [self.folder / f"{self.name}.{run}.log" for run in range(1, self.runs + 1)]


def send_signal(pid: int | None, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended."""
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Stack:
    """The processes of one run; `running` starts and stops them."""

    def __init__(self, folder: Path, *, brokers: Literal[1, 3] = 1, has_small_disks: bool = False) -> None:
        clickhouse_port = free_ports(2)[1]
        self.folder = folder
        self.brokers = tuple(range(1, brokers + 1))
        self.kafka = EmbeddedKafka(KafkaParams(data=folder / "kafka", brokers=brokers))
        self.clickhouse_data = folder / "clickhouse"
        self.clickhouse = EmbeddedClickHouse(ClickHouseParams(data=self.clickhouse_data, port=clickhouse_port))
        self._small_disks = (self.kafka.data, self.clickhouse_data) if has_small_disks else ()
        self.gate = Gate(clickhouse_port)
        self.restarts = {"kafka": Restarts(self._start_brokers), "clickhouse": Restarts(self._start_clickhouse)}
        self.parts: dict[str, PartProcess] = {}
        self.settings = load(None, None, {})

    @property
    def broker_ports(self) -> tuple[int, ...]:
        """The ports of all brokers."""
        return tuple(int(address.rpartition(":")[2]) for address in self.kafka.bootstrap.split(","))

    @property
    def kafka_settings(self) -> KafkaSettings:
        """The settings of the Kafka clients of this run."""
        return self.settings.kafka

    @classmethod
    @asynccontextmanager
    async def running(
        cls, folder: Path, *, brokers: Literal[1, 3] = 1, has_small_disks: bool = False
    ) -> AsyncIterator[Self]:
        """Start everything and wait until topics and tables exist; end every process at the end."""
        stack = cls(folder, brokers=brokers, has_small_disks=has_small_disks)
        try:
            for disk in stack._small_disks:
                isolation.mount_small_disk(disk, SMALL_DISK_MIB)
            await asyncio.gather(asyncio.to_thread(stack.kafka.start), asyncio.to_thread(stack.clickhouse.start))
            await stack.gate.start()
            await stack._start_parts()
            yield stack
        finally:
            await asyncio.shield(stack._stop())

    async def keep(self) -> None:
        """Restart parts that ended by themselves, as a service manager does, until cancelled."""
        while True:
            for part in self.parts.values():
                if part.process is not None and (code := part.process.exit_code) is not None:
                    part.ended.append(code)
                    part.kill()
                    await asyncio.sleep(_RESTART_S)
                    part.start()
            await asyncio.sleep(_KEEP_S)

    def kill_brokers(self) -> None:
        """Kill every broker with SIGKILL."""
        for node in self.brokers:
            self.kafka.kill(node)

    @contextmanager
    def fault(self, target: str) -> Iterator[None]:
        """Count a fault of this target, which may interrupt the start of a server."""
        with ExitStack() as stack:
            for name, restarts in self.restarts.items():
                if target in (name, ALL_TARGETS):
                    stack.enter_context(restarts.fault())
            yield

    def restart_brokers(self, late_ends: int = 0) -> None:
        """Restart the brokers that have ended, also if another fault interrupts it or some end late."""
        self.restarts["kafka"].restart(late_ends)

    def restart_clickhouse(self) -> None:
        """Restart ClickHouse if it has ended, also if another fault interrupts it."""
        self.restarts["clickhouse"].restart()

    def _start_brokers(self) -> None:
        if ended := self.kafka.ended():
            self.kafka.restart(*ended)

    def _start_clickhouse(self) -> None:
        if self.clickhouse.exit_code is not None:
            self.clickhouse.start()

    async def _start_parts(self) -> None:
        config = self._write_config()
        self.settings = load(config, None, {})
        await asyncio.gather(*(self._run_once(name, config) for name in ("topics", "migrate")))
        for name in WORKERS:
            self._add(name, command_with(CONSTANTS, "process", "--config", str(config)))
        self._add(SINK, command_with(CONSTANTS, "persist", "--config", str(config)))

    def _add(self, name: str, command: tuple[str, ...]) -> None:
        self.parts[name] = PartProcess(name, command, self.folder)
        self.parts[name].start()

    async def _run_once(self, name: str, config: Path) -> None:
        log = self.folder / f"{name}.log"
        process = WatchedProcess(railsight_command(name, "--config", str(config)), log)
        code = await asyncio.to_thread(process.wait, _SETUP_S)
        process.kill()
        if code != 0:
            raise Misconfigured(f"`railsight {name}` ended with {code} (log: {log})")

    def _write_config(self) -> Path:
        path = self.folder / "railsight.toml"
        servers = (
            f'[kafka]\nbootstrap = "{self.kafka.bootstrap}"\nreplication = {len(self.brokers)}\n'
            f"telemetry_partitions = {TELEMETRY_PARTITIONS}\npod_partitions = {POD_PARTITIONS}\n"
            f'[store]\nurl = "http://127.0.0.1:{self.gate.port}"\npassword_file = "{self.clickhouse.password_file}"\n'
        )
        runtime = f'[runtime]\ndata = "{self.folder / "faust"}"\n'
        path.write_text(servers + SETTINGS + runtime, encoding="utf-8")
        return path

    async def _stop(self) -> None:
        for part in self.parts.values():
            part.send_signal(signal.SIGCONT)
        send_signal(self.clickhouse.pid, signal.SIGCONT)
        await asyncio.gather(*(asyncio.to_thread(part.kill) for part in self.parts.values()))
        await self.gate.stop()
        await asyncio.gather(asyncio.to_thread(self.clickhouse.kill), asyncio.to_thread(self.kafka.stop))
        for disk in self._small_disks:
            isolation.unmount(disk)
