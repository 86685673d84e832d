"""Reports what the probers of the demo's hosts measure, since no packets travel through its fabric."""

from collections.abc import Iterator

from lab.world.demo_world import DemoWorld
from lab.world.fabric_arrays import fabric_arrays
from lab.world.probe_agents import ProbeAgents
from lab.world.probe_mesh import REPORTED_AFTER_NS
from streams.wire.models import ProbeReport


class DemoProbes:
    """The probers of all hosts of a world, from a moment on."""

    def __init__(self, world: DemoWorld, seed: int, start_ns: int) -> None:
        self._world = world
        self._names = fabric_arrays(world.inventory).devices
        self._agents = ProbeAgents(world.inventory, fabric_arrays(world.inventory), (), seed)
        self._reported_ns = start_ns

    def due(self, now_ns: int) -> Iterator[ProbeReport]:
        """Yield the reports of the windows that are over, with their last replies, since the last call."""
        begin_ns, self._reported_ns = self._reported_ns, max(self._reported_ns, now_ns - REPORTED_AFTER_NS)
        self._agents.mesh.drops = self._world.drops()
        for _, report in self._agents.reports(begin_ns, self._reported_ns, self._is_silent, self._skew_ns):
            yield report

    def _is_silent(self, host: int, at_ns: int) -> bool:
        return not self._world.device(self._names[host], at_ns).is_up

    def _skew_ns(self, host: int, at_ns: int) -> int:
        return self._world.clock_ns(self._names[host], at_ns) - at_ns
