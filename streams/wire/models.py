"""Exports plain models of every message; stages, collectors and tests use these, and only the codec uses protobuf.

The .proto files define and document the messages, and `make proto` writes their models by the rules of proto/models.py.
This module defines by hand what follows other rules: samples with numpy tables, and symptoms with their payloads.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric
from streams.wire.symptoms import CongestionState, Payload, SymptomKind
from streams.wire.v1.messages import *

ABSENT_COUNTER = 2**64 - 1
"""A counter that the device did not report; an absent gauge is NaN."""

NO_INDEX = -1
"""The column index of a metric without an index."""

UPLINKS = "uplinks"
"""The metric of the evidence that has the lost uplinks of a switch or host."""

IDLE_NS = 2**63 - 1
"""The watermark of a partition without live devices; it does not delay other partitions."""


@dataclass(slots=True)  # not frozen: creating a frozen one takes four times as long
class Table:
    """One of the two tables of Samples; immutable by convention.

    `values` has shape (columns, rows): uint64 with ABSENT_COUNTER for counters, float64 with NaN for gauges. `metric`
    and `index` have one entry per column; index is NO_INDEX for a metric without one.
    """

    metric: tuple[Metric, ...]
    index: tuple[int, ...]
    values: npt.NDArray[np.uint64] | npt.NDArray[np.float64]


@dataclass(slots=True)
class Samples:
    device: str
    source: Source
    collector: str
    collector_run: int
    sequence: int
    sampled_at_ns: int
    received_at_ns: int
    boot_id: int
    row_kind: RowKind
    row: tuple[str, ...]
    rows_digest: int
    counters: Table
    gauges: Table
    row_delay_us: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Symptom:
    """One observation of one port or device; `port` is empty for the device.

    The reported change lies in (since_ns, at_ns], between two readings of one source. `since_ns` is 0 if unknown, and
    for congestion, whose payload has its own times.
    """

    device: str
    port: str
    payload: Payload
    at_ns: int
    since_ns: int = 0
    source: Source = Source.SOURCE_UNSPECIFIED
    by_event: bool = False
    """True if the device reported an event; False if the symptom was derived from readings."""

    @property
    def kind(self) -> SymptomKind:
        return self.payload.kind


@dataclass(frozen=True, slots=True)
class SymptomsReplaced:
    """Replaces every symptom of one state of a port, as read by one source, whose `at_ns` is later than `since_ns`.

    Sent if a late reading changes the result of later readings. `replacements` may be empty.
    """

    device: str
    port: str
    source: Source
    state: CongestionState
    since_ns: int
    replacements: tuple[Symptom, ...] = ()


class PortState(IntEnum):
    """The state of a port, one byte of `PortStates.states`. Only UP carries traffic."""

    NOT_OBSERVED = 0
    UP = 1
    DOWN = 2
    ADMIN_DOWN = 3


Message = (
    Samples | Event | Facts | CollectorStatus | ProbeReport | Finding | Remediation | RemediationResult | Control
    | ControlAnswer | Progress | Symptom | SymptomsReplaced | StateTransfer | Window | PeerWindow | CablingReport
    | VersionCensus | HostRates | ProbeWindow | RailDelays | RailProbes | PortReaders | PortStates | ReadingsHeartbeat
    | PortQuality | PortModules | Lemon | HostLocality | Episode | SnapshotChunk | Snapshot | InventoryChunk | Job
    | SchedulerAnswer | Rejected | InputLoss
)  # fmt: skip
