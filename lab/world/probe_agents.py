"""Sends the reports of the probers of a simulated day, and derives from its effects what delays and loses probes."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from lab.world.effects import Effect, PacketDrop, QueueDelay, SignalLoss
from lab.world.fabric_arrays import FabricArrays
from lab.world.probe_mesh import REPORTED_AFTER_NS, WINDOW_NS, Drop, ProbeMesh
from lab.world.probe_times import Queue
from streams.fabric.inventory import Inventory
from streams.wire.models import ProbeReport

_STREAM = 0x50
"""Names the stream of random numbers: a day is the same without probes."""


def drops_of(effects: Sequence[Effect], losses: Sequence[SignalLoss], fabric: FabricArrays) -> Iterator[Drop]:
    """Yield what drops probes: links that lose packets, and links of hosts without a signal.

    Around a fabric link without a signal, probes take another path within less than a probe's interval.
    """
    for effect in effects:
        if isinstance(effect, PacketDrop):
            yield Drop(fabric.port(effect.port), effect.interval, effect.share, effect.one_flow)
    for loss in losses:
        port = int(fabric.links[loss.link][0])
        if fabric.is_host[fabric.device_of(port)]:
            yield Drop(fabric.port(port), loss.interval, 1.0)


def queues_of(effects: Sequence[Effect], fabric: FabricArrays) -> Iterator[Queue]:
    """Yield the queues in which probes wait."""
    for effect in effects:
        if isinstance(effect, QueueDelay):
            yield Queue(fabric.port(effect.port), effect.interval, round(effect.delay_s * 1e9))


class ProbeAgents:
    """The probers of all hosts of a fabric."""

    def __init__(
        self, inventory: Inventory, fabric: FabricArrays, drops: Sequence[Drop], seed: int, queues: Sequence[Queue] = ()
    ) -> None:
        self.rng = np.random.default_rng([seed, _STREAM])
        self.mesh = ProbeMesh(inventory, drops, self.rng, queues)
        self._hosts = [number for number, name in enumerate(fabric.devices) if name in self.mesh.probers]
        self._names = fabric.devices

    def reports(
        self, begin_ns: int, end_ns: int, is_silent: Callable[[int, int], bool], skew_ns: Callable[[int, int], int]
    ) -> Iterator[tuple[int, ProbeReport]]:
        """Yield (arrival, report) of the windows that end within an interval; both hooks take a device and a time."""
        for at_ns in range(-(-begin_ns // WINDOW_NS) * WINDOW_NS, end_ns, WINDOW_NS):
            for host in self._hosts:
                if not is_silent(host, at_ns):
                    arrival_ns = at_ns + REPORTED_AFTER_NS + int(self.rng.integers(20_000_000, 400_000_000))
                    yield arrival_ns, self.mesh.report(self._names[host], at_ns, skew_ns(host, at_ns))
