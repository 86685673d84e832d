"""Finds Xids of GPUs in events, and lines of the driver that report the same without one."""

from collections.abc import Iterator

from streams.detect.evidence import xids
from streams.detect.measure.monitors.monitor import Monitor
from streams.detect.measure.storage.reading_store import ReadingStore
from streams.fabric.topology import Topology
from streams.wire.models import Event, EventKind, Symptom
from streams.wire.symptoms import GpuXid

_KINDS = (EventKind.GPU_XID, EventKind.LOG)
_XIDS = 1 << 32
"""The driver prints an Xid as an unsigned integer of 32 bits."""


class XidMonitor(Monitor):
    """Finds Xids; it has no state."""

    name = "xids"

    def process_event(self, event: Event, at_ns: int, readings: ReadingStore, topology: Topology) -> Iterator[Symptom]:
        if event.kind not in _KINDS or not event.port:
            return
        xid = event.code if event.kind is EventKind.GPU_XID else xids.code_of(event.detail)
        if xid is not None and 0 <= xid < _XIDS:  # another code is no Xid
            payload = GpuXid(xid, xids.is_recovered(xid, event.detail), event.detail)
            yield Symptom(event.device, event.port, payload, at_ns, source=event.source, by_event=True)
