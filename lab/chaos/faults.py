"""Defines the faults: how each starts and heals, and the pipeline's promise under it.

`target` names the part that a fault disables: faults of one target never overlap.
"""

import asyncio
import signal
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from lab.chaos import isolation, topic_faults
from lab.chaos.gate import GateMode
from lab.chaos.scene import NOTHING, NOTHING_LOST, REPORTED, Fault, Need, Scene
from lab.chaos.stack import ALL_TARGETS, PAUSE_S, SINK, WORKERS, send_signal

_TURNS_S, _MOVES_S = (2.0, 4.0), (1.0, 3.0)
"""The intervals between two brokers that are killed in turn, and between two workers of a storm."""
_CLOCK_OFFSETS_S = (-86_400, -25, 29, 7_200, 31_536_000)
_TABLE = "railsight_chaos"
_BUCKET = ("rate", "4mbit", "burst", "128kb", "latency", "800ms")
"""Limits loopback. A packet on loopback has up to 64 KiB, so the bucket cannot be smaller."""


async def _nothing(_: Scene) -> None:
    """Heal a fault that has ended by itself."""


async def _kill_part(parts: tuple[str, ...], scene: Scene) -> None:
    scene.chosen = scene.rng.choice(parts)
    await asyncio.to_thread(scene.stack.parts[scene.chosen].kill)


async def _start_part(scene: Scene) -> None:
    scene.stack.parts[scene.chosen].start()


async def _pause_part(parts: tuple[str, ...], scene: Scene) -> None:
    scene.chosen = scene.rng.choice(parts)
    scene.stack.parts[scene.chosen].send_signal(signal.SIGSTOP)


async def _resume_part(scene: Scene) -> None:
    scene.stack.parts[scene.chosen].send_signal(signal.SIGCONT)


async def _kill_broker(scene: Scene) -> None:
    await asyncio.to_thread(scene.stack.kafka.kill, scene.rng.choice(scene.stack.brokers))


async def _start_brokers(scene: Scene) -> None:
    await asyncio.to_thread(scene.stack.restart_brokers)


async def _kill_brokers_in_turn(scene: Scene) -> None:
    down = scene.rng.choice(scene.stack.brokers)
    await asyncio.to_thread(scene.stack.kafka.kill, down)
    scene.is_over = asyncio.Event()
    scene.task = asyncio.create_task(_take_turns(scene, scene.is_over, down))


async def _take_turns(scene: Scene, is_over: asyncio.Event, down: int) -> None:
    """Kill one broker after another and restart the previous one, until the fault heals; two are down meanwhile."""
    while not is_over.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), scene.rng.uniform(*_TURNS_S))
            break
        before, down = down, scene.rng.choice([node for node in scene.stack.brokers if node != down])
        await asyncio.to_thread(scene.stack.kafka.kill, down)
        await asyncio.to_thread(scene.stack.kafka.restart, before)


async def _end_turns(scene: Scene) -> None:
    assert scene.is_over is not None and scene.task is not None
    scene.is_over.set()
    await scene.task
    await _start_brokers(scene)


async def _kill_clickhouse(scene: Scene) -> None:
    await asyncio.to_thread(scene.stack.clickhouse.kill)


async def _start_clickhouse(scene: Scene) -> None:
    await asyncio.to_thread(scene.stack.restart_clickhouse)


async def _signal_clickhouse(number: signal.Signals, scene: Scene) -> None:
    send_signal(scene.stack.clickhouse.pid, number)


async def _set_gate(mode: GateMode, scene: Scene) -> None:
    scene.stack.gate.mode = mode
    if mode is not GateMode.CUTTING:
        scene.stack.gate.close_connections()


async def _move_partitions(scene: Scene) -> None:
    async def move() -> None:
        while True:
            part = scene.stack.parts[scene.rng.choice(WORKERS)]
            await asyncio.to_thread(part.kill)
            part.start()
            await asyncio.sleep(scene.rng.uniform(*_MOVES_S))

    scene.task = asyncio.create_task(move())


async def _end_moves(scene: Scene) -> None:
    assert scene.task is not None
    scene.task.cancel()
    await asyncio.gather(scene.task, return_exceptions=True)
    for name in WORKERS:
        scene.stack.parts[name].start()


async def _send_poison(scene: Scene) -> None:
    scene.poisoned += await topic_faults.send_poison(scene.stack.kafka_settings, scene.rng)


async def _kill_readers(scene: Scene) -> None:
    scene.may_lose = True
    for part in scene.stack.parts.values():
        await asyncio.to_thread(part.kill)


async def _delete_records(scene: Scene) -> None:
    await topic_faults.delete_telemetry(scene.stack.kafka_settings)
    for part in scene.stack.parts.values():
        part.start()


async def _shift_clock(scene: Scene) -> None:
    fabric = scene.load.fabric
    fabric.clock_offset_ns[fabric.truth.clock_device] = scene.rng.choice(_CLOCK_OFFSETS_S) * 10**9


async def _set_clock_right(scene: Scene) -> None:
    scene.load.fabric.clock_offset_ns.clear()


async def _kill_everything(scene: Scene) -> None:
    stack = scene.stack
    kills = [stack.kill_brokers, stack.clickhouse.kill, *(part.kill for part in stack.parts.values())]
    await asyncio.gather(*(asyncio.to_thread(kill) for kill in kills))


async def _start_everything(scene: Scene) -> None:
    stack = scene.stack
    starts = [stack.restart_brokers, stack.restart_clickhouse, *(part.start for part in stack.parts.values())]
    scene.rng.shuffle(starts)
    await asyncio.gather(*(asyncio.to_thread(start) for start in starts))


async def _drop_packets(percent: int, scene: Scene) -> None:
    """Drop packets of all brokers: 100 % is a cut, a smaller random share is a lossy network."""
    numbers = ", ".join(map(str, scene.stack.broker_ports))
    share = "" if percent == 100 else f"numgen random mod 100 < {percent} "
    rules = (
        f"table inet {_TABLE} {{ chain packets {{\ntype filter hook input priority 0;\n"
        f"tcp dport {{ {numbers} }} {share}drop\ntcp sport {{ {numbers} }} {share}drop\n}}\n}}\n"
    )
    await asyncio.to_thread(isolation.run, "nft", "-f", "-", text=rules)


async def _run(command: tuple[str, ...], _: Scene) -> None:
    await asyncio.to_thread(isolation.run, *command)


async def _fill_brokers_disk(scene: Scene) -> None:
    await asyncio.to_thread(isolation.fill, scene.stack.kafka.data)


async def _empty_brokers_disk(scene: Scene) -> None:
    isolation.empty(scene.stack.kafka.data)
    # A broker ends some time after its disk is full, possibly while the others start again.
    await asyncio.to_thread(scene.stack.restart_brokers, len(scene.stack.brokers))


async def _fill_clickhouse_disk(scene: Scene) -> None:
    await asyncio.to_thread(isolation.fill, scene.stack.clickhouse_data)


async def _empty_clickhouse_disk(scene: Scene) -> None:
    isolation.empty(scene.stack.clickhouse_data)
    await _start_clickhouse(scene)


_KILLED_S, _PAUSED_S = (0.5, 8.0), (PAUSE_S, PAUSE_S + 3)
_OPEN = partial(_set_gate, GateMode.OPEN)
_QDISC = ("tc", "qdisc", "add", "dev", "lo", "root", "tbf", *_BUCKET), ("tc", "qdisc", "del", "dev", "lo", "root")
_NO_TABLE = partial(_run, ("nft", "delete", "table", "inet", _TABLE))
_ROOT = Need.NAMESPACES

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("worker-killed", "worker", partial(_kill_part, WORKERS), _start_part, _KILLED_S),
        # For longer than its session, so that it resumes as a zombie.
        Fault("worker-paused", "worker", partial(_pause_part, WORKERS), _resume_part, _PAUSED_S),
        Fault("rebalance-storm", "worker", _move_partitions, _end_moves, (8.0, 14.0)),
        Fault("persist-killed", SINK, partial(_kill_part, (SINK,)), _start_part, _KILLED_S),
        Fault("persist-paused", SINK, partial(_pause_part, (SINK,)), _resume_part, _PAUSED_S),
        Fault("broker-killed", "kafka", _kill_broker, _start_brokers, (1.0, 6.0)),
        Fault("clickhouse-killed", "clickhouse", _kill_clickhouse, _start_clickhouse, (1.0, 8.0)),
        # It accepts connections and does not answer.
        Fault("clickhouse-paused", "clickhouse", partial(_signal_clickhouse, signal.SIGSTOP),
              partial(_signal_clickhouse, signal.SIGCONT), (3.0, 10.0)),
        Fault("clickhouse-refusing", "clickhouse", partial(_set_gate, GateMode.REFUSING), _OPEN, (3.0, 8.0)),
        Fault("clickhouse-cutting", "clickhouse", partial(_set_gate, GateMode.CUTTING), _OPEN, (3.0, 8.0)),
        Fault("power-failure", ALL_TARGETS, _kill_everything, _start_everything, (1.0, 3.0)),
        Fault("poison", "kafka", _send_poison, _nothing, (0.5, 1.0),
              f"{NOTHING_LOST}, each poisoned record rejected once"),
        Fault("clock-jump", "clock", _shift_clock, _set_clock_right, (5.0, 10.0), f"{NOTHING_LOST} (other devices)"),
        # While no process reads, so that offsets are out of range: retention overtakes the readers.
        Fault("records-deleted", ALL_TARGETS, _kill_readers, _delete_records, (3.0, 5.0), REPORTED),
        Fault("brokers-in-turn", "kafka", _kill_brokers_in_turn, _end_turns, (10.0, 18.0), needs=Need.THREE_BROKERS),
        Fault("network-cut", "kafka", partial(_drop_packets, 100), _NO_TABLE, (2.0, 10.0), needs=_ROOT),
        Fault("network-lossy", "kafka", partial(_drop_packets, 10), _NO_TABLE, (5.0, 12.0), needs=_ROOT),
        Fault("network-slow", "kafka", partial(_run, _QDISC[0]), partial(_run, _QDISC[1]), (4.0, 10.0), needs=_ROOT),
        # A broker with a full disk ends.
        Fault("broker-disk-full", "kafka", _fill_brokers_disk, _empty_brokers_disk, (4.0, 10.0), needs=_ROOT),
        # It refuses inserts, and answers queries.
        Fault("store-disk-full", "clickhouse", _fill_clickhouse_disk, _empty_clickhouse_disk, (4.0, 10.0), needs=_ROOT),
    )
}  # fmt: skip


def needs_of(names: Iterable[str]) -> Need:
    """Return the union of these faults' needs."""
    needs = NOTHING
    for name in names:
        needs |= FAULTS[name].needs
    return needs
