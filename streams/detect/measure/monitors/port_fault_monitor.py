"""Finds faults of ports and GPUs that devices report: of modules, firmware, slots, transport, NVLinks, dampening.

The faults are evidence for findings of the link or part, and open none. Gauges are compared with a limit as arrays,
like states in transitions.py, and only their changes are reported. Counters that do not grow on a healthy port are
compared with the previous reading; their growth, like an event, is a fault at one time.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from streams.detect.measure.monitors.monitor import Monitor, NumberedSymptom
from streams.detect.measure.monitors.transitions import counter_growth, late_changes, port_symptom, state_changes
from streams.detect.measure.storage.column_store import Column, ColumnMapping, MappingCache
from streams.detect.measure.storage.message_batch import LateMessage, MessageBatch
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Event, EventKind, RowKind, Symptom
from streams.wire.symptoms import Fault, PortFault


class Limit(NamedTuple):
    """The readings of a gauge that are a fault: above the limit, or below it."""

    fault: Fault
    limit: float
    is_below: bool = False

    def exceeded(self, values: Any) -> Any:
        """Return True for each value, one or an array, that is a fault; absent values are not."""
        return values < self.limit if self.is_below else values > self.limit


_LIMITS = {
    Metric.RX_LOS: Limit(Fault.LOSS_OF_LIGHT, 0),
    Metric.TX_FAULT: Limit(Fault.TRANSMITTER, 0),
    Metric.DAMPED: Limit(Fault.DAMPED, 0),
    Metric.FEC_FLR_PREDICTED: Limit(Fault.FRAME_LOSS_PREDICTED, 1e-8),
    Metric.BIAS_MA: Limit(Fault.LASER_OFF, 0.5, is_below=True),
    Metric.BFD_SESSION_UP: Limit(Fault.BFD_SESSION_DOWN, 0.5, is_below=True),
    Metric.BGP_SESSION_UP: Limit(Fault.BGP_SESSION_DOWN, 0.5, is_below=True),
}
"""A predicted frame loss from which CorrOpt (SIGCOMM'17) calls a link lossy. Lasers of modules take 5 mA and more."""

_MODULE_KINDS = {1: "bus stuck", 2: "high temperature", 3: "bad or shorted"}
"""Names by the index of MODULE_EVENTS, as mlx5 counts them (counters.rst); 0 means that it was unplugged."""

_GROWTH: dict[Column, PortFault] = {
    (Metric.RX_ICRC_ERRORS, NO_INDEX): PortFault(Fault.CORRUPT_PACKETS),
    (Metric.TRANSPORT_RETRIES_EXCEEDED, NO_INDEX): PortFault(Fault.RETRIES_EXCEEDED),
    (Metric.PCIE_RX_SIGNAL_ERRORS, NO_INDEX): PortFault(Fault.PCIE_SIGNAL),
    (Metric.PCIE_TX_SIGNAL_ERRORS, NO_INDEX): PortFault(Fault.PCIE_SIGNAL),
    (Metric.MODULE_EVENTS, 0): PortFault(Fault.MODULE_REMOVED),
    **{(Metric.MODULE_EVENTS, kind): PortFault(Fault.MODULE, report=name) for kind, name in _MODULE_KINDS.items()},
}
_NVLINK = (Metric.NVLINK_CRC_ERRORS, Metric.NVLINK_REPLAYS)
_EVENTS = {
    EventKind.MODULE_FAULT: Fault.MODULE, EventKind.MODULE_REMOVED: Fault.MODULE_REMOVED,
    EventKind.NIC_FIRMWARE_ERROR: Fault.NIC_FIRMWARE, EventKind.SLOT_POWER: Fault.SLOT_POWER,
    EventKind.LOSS_OF_SIGNAL: Fault.LOSS_OF_LIGHT, EventKind.OPTICS_ALARM: Fault.OPTICS,
    EventKind.BGP_DOWN: Fault.BGP_SESSION_DOWN, EventKind.BFD_DOWN: Fault.BFD_SESSION_DOWN,
}  # fmt: skip
_ENDS = {
    EventKind.SIGNAL_RESTORED: Fault.LOSS_OF_LIGHT, EventKind.OPTICS_CLEARED: Fault.OPTICS,
    EventKind.BGP_UP: Fault.BGP_SESSION_DOWN, EventKind.BFD_UP: Fault.BFD_SESSION_DOWN,
}  # fmt: skip
_OF_LANES = (Fault.LOSS_OF_LIGHT, Fault.OPTICS)


class PortFaultMonitor(Monitor):
    """Finds faults of ports; it has no state."""

    name = "faults"
    previews_events = True

    def __init__(self) -> None:
        self._gauges = MappingCache(partial(_positions, _is_limited))
        self._counters = MappingCache(partial(_positions, _is_counted))

    def is_relevant(self, batch: MessageBatch) -> bool:
        is_read = batch.row_kind in (RowKind.ROW_KIND_PORT, RowKind.ROW_KIND_GPU)
        return is_read and bool(self._gauges[batch.gauges.mapping] or self._counters[batch.counters.mapping])

    def process(self, batch: MessageBatch, topology: Topology) -> list[NumberedSymptom]:
        found: list[NumberedSymptom] = []
        for column, position in self._gauges[batch.gauges.mapping].items():
            found += _changes(batch, topology, column, position)
        for column, position in self._counters[batch.counters.mapping].items():
            found += counter_growth(batch, topology, position, partial(_growth, column))
        return found

    def process_late(self, late: LateMessage, topology: Topology) -> Iterator[NumberedSymptom]:
        message = late.message
        samples, store = message.samples, message.slot.block.gauges
        if samples.row_kind is not RowKind.ROW_KIND_PORT:
            return
        for column in zip(samples.gauges.metric, samples.gauges.index, strict=True):
            if not _is_limited(column):
                continue
            limit = _LIMITS[column[0]]
            for row, step in late_changes(late, store, samples.gauges, column):
                is_on, was_on = (limit.exceeded(value) for value in (step.after, step.before))
                if is_on != was_on and (step.since_ns or is_on):
                    payload = _fault(column, is_over=not is_on)
                    yield message.number, port_symptom(samples, topology, row, payload, step)

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterator[Symptom]:
        is_over = event.kind in _ENDS
        if (fault := (_ENDS if is_over else _EVENTS).get(event.kind)) is not None and event.port:
            port = topology.resolve_port(event.device, event.port).port
            lane = event.code if fault in _OF_LANES and event.code >= 0 else None
            payload = PortFault(fault, lane, is_over, event.detail)
            yield Symptom(event.device, port, payload, at_ns, source=event.source, by_event=True)


def _is_limited(column: Column) -> bool:
    return column[0] in _LIMITS


def _is_counted(column: Column) -> bool:
    return column in _GROWTH or column[0] in _NVLINK


def _positions(is_known: Callable[[Column], bool], mapping: ColumnMapping) -> dict[Column, int]:
    return {column: position for column, position in mapping.position_of.items() if is_known(column)}


def _changes(batch: MessageBatch, topology: Topology, column: Column, position: int) -> Iterator[NumberedSymptom]:
    """Yield the symptoms of gauges that passed their limit; a first reading beyond it only at a port with a link."""
    for message, row, is_on, step in state_changes(batch, position, _LIMITS[column[0]].exceeded):
        symptom = port_symptom(message.samples, topology, row, _fault(column, is_over=not is_on), step)
        if step.since_ns or topology.link_at(Port(symptom.device, symptom.port)) is not None:
            yield message.number, symptom


def _fault(column: Column, *, is_over: bool) -> PortFault:
    metric, lane = column
    return PortFault(_LIMITS[metric].fault, None if lane == NO_INDEX else lane, is_over=is_over)


def _growth(column: Column, _: int) -> PortFault:
    return _GROWTH.get(column) or PortFault(Fault.NVLINK, column[1])
