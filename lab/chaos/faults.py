"""The faults: each begins and heals, and states what the pipeline promises under it.

`target` names what a fault takes away: faults of one target never overlap.
"""

import asyncio
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

from lab.chaos import topic_faults
from lab.chaos.gate import GateMode
from lab.chaos.network_faults import BrokerDiskFull, BrokerUnreachable, NetworkSlow, StoreDiskFull
from lab.chaos.scene import NOTHING, NOTHING_LOST, REPORTED, Fault, Need, Scene
from lab.chaos.stack import ALL_TARGETS, PAUSE_S, SINK, WORKERS, send_signal


class PartKilled:
    """Kills a process with SIGKILL and starts it again."""

    needs = NOTHING
    promise = NOTHING_LOST
    hold_s = (0.5, 8.0)

    def __init__(self, name: str, parts: tuple[str, ...]) -> None:
        self.name, self.target, self._parts, self._chosen = name, parts[0].split("-")[0], parts, ""

    async def begin(self, scene: Scene) -> None:
        self._chosen = scene.rng.choice(self._parts)
        await asyncio.to_thread(scene.stack.parts[self._chosen].kill)

    async def heal(self, scene: Scene) -> None:
        scene.stack.parts[self._chosen].start()


class PartPaused:
    """Stops a process for longer than its session and resumes it: a zombie."""

    needs = NOTHING
    promise = NOTHING_LOST
    hold_s = (PAUSE_S, PAUSE_S + 3)

    def __init__(self, name: str, parts: tuple[str, ...]) -> None:
        self.name, self.target, self._parts, self._chosen = name, parts[0].split("-")[0], parts, ""

    async def begin(self, scene: Scene) -> None:
        self._chosen = scene.rng.choice(self._parts)
        scene.stack.parts[self._chosen].send_signal(signal.SIGSTOP)

    async def heal(self, scene: Scene) -> None:
        scene.stack.parts[self._chosen].send_signal(signal.SIGCONT)


class BrokerKilled:
    """Kills one broker, of one or three, with SIGKILL and starts it again."""

    needs = NOTHING
    name, target, promise, hold_s = "broker-killed", "kafka", NOTHING_LOST, (1.0, 6.0)

    async def begin(self, scene: Scene) -> None:
        await asyncio.to_thread(scene.stack.kafka.kill, scene.rng.choice(scene.stack.brokers))

    async def heal(self, scene: Scene) -> None:
        await asyncio.to_thread(scene.stack.restart_brokers)


class BrokersInTurn:
    """Kills the brokers of a cluster of three in turn; one is always down, and two are while it starts."""

    needs = Need.THREE_BROKERS
    name, target, promise, hold_s = "brokers-in-turn", "kafka", NOTHING_LOST, (10.0, 18.0)
    _EVERY_S = (2.0, 4.0)

    def __init__(self) -> None:
        self._turns: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()
        self._down = 0

    async def begin(self, scene: Scene) -> None:
        self._down = scene.rng.choice(scene.stack.brokers)
        await asyncio.to_thread(scene.stack.kafka.kill, self._down)
        self._turns = asyncio.create_task(self._take_turns(scene))

    async def heal(self, scene: Scene) -> None:
        assert self._turns is not None
        self._is_over.set()
        await self._turns
        await asyncio.to_thread(scene.stack.restart_brokers)

    async def _take_turns(self, scene: Scene) -> None:
        kafka = scene.stack.kafka
        while not self._is_over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_over.wait(), scene.rng.uniform(*self._EVERY_S))
                break
            before = self._down
            self._down = scene.rng.choice([node for node in scene.stack.brokers if node != before])
            await asyncio.to_thread(kafka.kill, self._down)
            await asyncio.to_thread(kafka.restart, before)


class ClickHouseKilled:
    """Kills ClickHouse with SIGKILL and starts it again."""

    needs = NOTHING
    name, target, promise, hold_s = "clickhouse-killed", "clickhouse", NOTHING_LOST, (1.0, 8.0)

    async def begin(self, scene: Scene) -> None:
        await asyncio.to_thread(scene.stack.clickhouse.kill)

    async def heal(self, scene: Scene) -> None:
        await asyncio.to_thread(scene.stack.restart_clickhouse)


class ClickHousePaused:
    """Stops the process of ClickHouse: it accepts connections and does not answer."""

    needs = NOTHING
    name, target, promise, hold_s = "clickhouse-paused", "clickhouse", NOTHING_LOST, (3.0, 10.0)

    async def begin(self, scene: Scene) -> None:
        send_signal(scene.stack.clickhouse.pid, signal.SIGSTOP)

    async def heal(self, scene: Scene) -> None:
        send_signal(scene.stack.clickhouse.pid, signal.SIGCONT)


class ClickHouseGate:
    """Changes what the gate before ClickHouse does with requests."""

    needs = NOTHING
    target, promise, hold_s = "clickhouse", NOTHING_LOST, (3.0, 8.0)

    def __init__(self, name: str, mode: GateMode) -> None:
        self.name, self._mode = name, mode

    async def begin(self, scene: Scene) -> None:
        scene.stack.gate.mode = self._mode
        if self._mode is GateMode.REFUSING:
            scene.stack.gate.close_connections()

    async def heal(self, scene: Scene) -> None:
        scene.stack.gate.mode = GateMode.OPEN
        scene.stack.gate.close_connections()


class RebalanceStorm:
    """Kills and starts the workers in turn, so that partitions move all the time."""

    needs = NOTHING
    name, target, promise, hold_s = "rebalance-storm", "worker", NOTHING_LOST, (8.0, 14.0)
    _EVERY_S = (1.0, 3.0)

    def __init__(self) -> None:
        self._storm: asyncio.Task[None] | None = None

    async def begin(self, scene: Scene) -> None:
        self._storm = asyncio.create_task(self._move(scene))

    async def heal(self, scene: Scene) -> None:
        assert self._storm is not None
        self._storm.cancel()
        await asyncio.gather(self._storm, return_exceptions=True)
        for name in WORKERS:
            scene.stack.parts[name].start()

    async def _move(self, scene: Scene) -> None:
        while True:
            part = scene.stack.parts[scene.rng.choice(WORKERS)]
            await asyncio.to_thread(part.kill)
            part.start()
            await asyncio.sleep(scene.rng.uniform(*self._EVERY_S))


class Poison:
    """Sends records that cannot be read to every topic."""

    needs = NOTHING
    name, target, hold_s = "poison", "kafka", (0.5, 1.0)
    promise = f"{NOTHING_LOST}, each poisoned record rejected once"

    async def begin(self, scene: Scene) -> None:
        scene.poisoned += await topic_faults.send_poison(scene.stack.kafka_settings, scene.rng)

    async def heal(self, scene: Scene) -> None:
        pass


class RecordsDeleted:
    """Deletes all telemetry while nothing reads, so that offsets are out of range: retention overtakes the readers."""

    needs = NOTHING
    name, target, promise, hold_s = "records-deleted", ALL_TARGETS, REPORTED, (3.0, 5.0)

    async def begin(self, scene: Scene) -> None:
        scene.may_lose = True
        for part in scene.stack.parts.values():
            await asyncio.to_thread(part.kill)

    async def heal(self, scene: Scene) -> None:
        await topic_faults.delete_telemetry(scene.stack.kafka_settings)
        for part in scene.stack.parts.values():
            part.start()


class ClockJump:
    """Changes the clock of one device by up to a year, in either direction."""

    needs = NOTHING
    name, target, promise, hold_s = "clock-jump", "clock", f"{NOTHING_LOST} (other devices)", (5.0, 10.0)
    _OFFSETS_S = (-86_400, -25, 29, 7_200, 31_536_000)

    async def begin(self, scene: Scene) -> None:
        fabric = scene.load.fabric
        fabric.clock_offset_ns[fabric.truth.clock_device] = scene.rng.choice(self._OFFSETS_S) * 10**9

    async def heal(self, scene: Scene) -> None:
        scene.load.fabric.clock_offset_ns.clear()


class PowerFailure:
    """Kills every process at once, the servers included, and starts them again in a random order."""

    needs = NOTHING
    name, target, promise, hold_s = "power-failure", ALL_TARGETS, NOTHING_LOST, (1.0, 3.0)

    async def begin(self, scene: Scene) -> None:
        stack = scene.stack
        kills = [stack.kill_brokers, stack.clickhouse.kill, *(part.kill for part in stack.parts.values())]
        await asyncio.gather(*(asyncio.to_thread(kill) for kill in kills))

    async def heal(self, scene: Scene) -> None:
        stack = scene.stack
        starts = [stack.restart_brokers, stack.restart_clickhouse, *(part.start for part in stack.parts.values())]
        scene.rng.shuffle(starts)
        await asyncio.gather(*(asyncio.to_thread(start) for start in starts))


def make_fault(name: str) -> Fault:
    """Return a new fault of a name of FAULTS."""
    return FAULTS[name]()


def needs_of(names: Iterable[str]) -> Need:
    """Return everything that any of these faults needs."""
    needs = NOTHING
    for name in names:
        needs |= make_fault(name).needs
    return needs


FAULTS: dict[str, Callable[[], Fault]] = {
    "worker-killed": lambda: PartKilled("worker-killed", WORKERS),
    "worker-paused": lambda: PartPaused("worker-paused", WORKERS),
    "rebalance-storm": RebalanceStorm,
    "persist-killed": lambda: PartKilled("persist-killed", (SINK,)),
    "persist-paused": lambda: PartPaused("persist-paused", (SINK,)),
    "broker-killed": BrokerKilled,
    "clickhouse-killed": ClickHouseKilled,
    "clickhouse-paused": ClickHousePaused,
    "clickhouse-refusing": lambda: ClickHouseGate("clickhouse-refusing", GateMode.REFUSING),
    "clickhouse-cutting": lambda: ClickHouseGate("clickhouse-cutting", GateMode.CUTTING),
    "power-failure": PowerFailure,
    "poison": Poison,
    "clock-jump": ClockJump,
    "records-deleted": RecordsDeleted,
    "brokers-in-turn": BrokersInTurn,
    "network-cut": lambda: BrokerUnreachable("network-cut", 100, (2.0, 10.0)),
    "network-lossy": lambda: BrokerUnreachable("network-lossy", 10, (5.0, 12.0)),
    "network-slow": NetworkSlow,
    "broker-disk-full": BrokerDiskFull,
    "store-disk-full": StoreDiskFull,
}
