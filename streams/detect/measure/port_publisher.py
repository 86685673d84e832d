"""Publishes the states and the quality of the ports of one partition; the stage passes batches and symptoms to it."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from streams.detect.measure.facts_tracker import ModuleTracker
from streams.detect.measure.liveness import Liveness
from streams.detect.measure.port_quality import QualityWatch
from streams.detect.measure.port_states import PortStateTracker
from streams.detect.measure.storage.message_batch import MessageBatch
from streams.detect.measure.storage.reading_store import MAX_DEVICE_ROWS, ReadingStore
from streams.detect.params import DetectParams
from streams.fabric.topology import Topology
from streams.wire.models import Event, RowKind, Symptom, Window
from streams.wire.stage import Output

if TYPE_CHECKING:
    from streams.fabric.ids import Port


class PortPublisher:
    """Publishes PORT_STATES for one partition of `measure`."""

    def __init__(self, params: DetectParams, shard: int, readings: ReadingStore, liveness: Liveness) -> None:
        self._states = PortStateTracker(shard, readings, liveness)
        self._quality = QualityWatch(params.degrading, params.window)
        self.modules = ModuleTracker()
        self.watched = self._quality.ports
        """Not empty while ports are watched, whose readings are in every batch."""

    def set_topology(self, topology: Topology) -> None:
        self._states.set_topology(topology)

    def on_batch(self, batch: MessageBatch, found: Iterable[Any]) -> None:
        """Process a batch before it is stored; `found` has the results of the monitors."""
        if batch.row_kind is not RowKind.ROW_KIND_PORT:
            return
        for number in batch.appeared:
            message = batch.messages[number]
            self._states.first_read((message.slot.device, message.slot.source), message.at_ns)
        self.on_found(found)
        if self._quality.ports:
            self._quality.process(batch, self._states)

    def on_found(self, found: Iterable[Any]) -> None:
        """Process symptoms and windows; repeated ones change nothing."""
        for message in found:
            if isinstance(message, Symptom):
                self._states.process(message)
            elif not isinstance(message, Window):
                continue
            if message.port and self._quality.is_trigger(message):
                for key, port in self._states.ports_of(message):
                    self._quality.watch(key, port, message)

    def request(self, event: Event) -> None:
        """Watch a port that `decide` needs readings of, at all sources that read it."""
        for key, port in self._states.ports_of(event):
            self._quality.request(key, port, event.at_ns)

    def is_due(self, watermark_ns: int) -> bool:
        """Return whether anything is to be published that does not follow from symptoms and windows."""
        states = self._states
        return watermark_ns >= states.next_heartbeat_ns or bool(
            states.unsent or states.unconfirmed or self._quality.found or self.modules.found
        )

    def outputs(self, found: Iterable[Any], watermark_ns: int) -> list[Output]:
        """Return the outputs after a batch; `found` has all its symptoms and windows."""
        self.on_found(found)
        outputs = [*self._states.outputs(watermark_ns), *self._quality.outputs()]
        return outputs + self.modules.outputs() if self.modules.found else outputs

    def dump(self) -> dict[str, Any]:
        return {"states": self._states.dump(), "quality": self._quality.dump(), "modules": self.modules.dump()}

    def load(self, data: dict[str, Any]) -> None:
        self._states.load(data["states"])
        self._quality.load(data["quality"])
        self.modules.load(data["modules"])


MAX_PORTS = 65_536
"""The most ports of a partition, over all devices, that events named and the inventory does not."""


class EventPorts:
    """The ports of one partition that events named and the inventory does not; a restart discards them."""

    def __init__(self) -> None:
        self._ports: set[Port] = set()
        self._counts: Counter[str] = Counter()

    def knows(self, event: Event, topology: Topology) -> bool:
        """Return whether an event is of no port or of a known one."""
        port = topology.resolve_port(event.device, event.port)
        return not event.port or port in self._ports or topology.table.number_at(port) is not None

    def admits(self, event: Event, topology: Topology) -> bool:
        """Return whether an event is processed: its port is known, or there is room for another port."""
        if self.knows(event, topology):
            return True
        port = topology.resolve_port(event.device, event.port)
        if len(self._ports) >= MAX_PORTS or self._counts[port.device] >= MAX_DEVICE_ROWS:
            return False
        self._ports.add(port)
        self._counts[port.device] += 1
        return True
