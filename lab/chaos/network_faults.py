"""Faults of the network between the broker and everything else, and of disks; each needs namespaces of its own."""

import asyncio
from collections.abc import Iterable

from lab.chaos import isolation
from lab.chaos.scene import NOTHING_LOST, Need, Scene

_TABLE = "railsight_chaos"


class BrokerUnreachable:
    """Drops packets of all brokers: all of them, which is a cut, or a share at random, which is a lossy network."""

    target, promise, needs = "kafka", NOTHING_LOST, Need.NAMESPACES

    def __init__(self, name: str, percent: int, hold_s: tuple[float, float]) -> None:
        self.name, self._percent, self.hold_s = name, percent, hold_s

    async def begin(self, scene: Scene) -> None:
        await asyncio.to_thread(isolation.run, "nft", "-f", "-", text=_rules(scene.stack.broker_ports, self._percent))

    async def heal(self, scene: Scene) -> None:
        await asyncio.to_thread(isolation.run, "nft", "delete", "table", "inet", _TABLE)


class NetworkSlow:
    """Limits loopback, with everything on it, to 4 Mbit/s by a token bucket."""

    name, target, promise, hold_s, needs = "network-slow", "kafka", NOTHING_LOST, (4.0, 10.0), Need.NAMESPACES
    # A packet of loopback has up to 64 KiB, so the bucket cannot be smaller.
    _BUCKET = ("rate", "4mbit", "burst", "128kb", "latency", "800ms")

    async def begin(self, scene: Scene) -> None:
        await asyncio.to_thread(isolation.run, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", *self._BUCKET)

    async def heal(self, scene: Scene) -> None:
        await asyncio.to_thread(isolation.run, "tc", "qdisc", "del", "dev", "lo", "root")


class BrokerDiskFull:
    """Fills the brokers' disk, on which a broker ends, and starts them again with room."""

    name, target, promise, hold_s = "broker-disk-full", "kafka", NOTHING_LOST, (4.0, 10.0)
    needs = Need.NAMESPACES

    async def begin(self, scene: Scene) -> None:
        await asyncio.to_thread(isolation.fill, scene.stack.kafka.data)

    async def heal(self, scene: Scene) -> None:
        isolation.empty(scene.stack.kafka.data)
        # A broker ends some time after it met the full disk: perhaps while the others start again.
        await asyncio.to_thread(scene.stack.restart_brokers, len(scene.stack.brokers))


class StoreDiskFull:
    """Fills ClickHouse's disk: it refuses to insert, and answers queries."""

    name, target, promise, hold_s = "store-disk-full", "clickhouse", NOTHING_LOST, (4.0, 10.0)
    needs = Need.NAMESPACES

    async def begin(self, scene: Scene) -> None:
        await asyncio.to_thread(isolation.fill, scene.stack.clickhouse_data)

    async def heal(self, scene: Scene) -> None:
        isolation.empty(scene.stack.clickhouse_data)
        await asyncio.to_thread(scene.stack.restart_clickhouse)


def _rules(ports: Iterable[int], percent: int) -> str:
    numbers = ", ".join(map(str, ports))
    chance = "" if percent == 100 else f"numgen random mod 100 < {percent} "
    return (
        f"table inet {_TABLE} {{ chain packets {{\ntype filter hook input priority 0;\n"
        f"tcp dport {{ {numbers} }} {chance}drop\ntcp sport {{ {numbers} }} {chance}drop\n}}\n}}\n"
    )
