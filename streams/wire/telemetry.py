"""Defines models of telemetry.proto: the messages of collectors. streams.wire.models exports them."""

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric

ABSENT_COUNTER = 2**64 - 1
"""A counter that the device did not report; an absent gauge is NaN."""


NO_INDEX = -1
"""The column index of a metric without an index."""

IDLE_NS = 2**63 - 1
"""The watermark of a partition without live devices; it does not delay other partitions."""


class Source(IntEnum):
    SOURCE_UNSPECIFIED = 0
    SOURCE_GNMI = 1
    SOURCE_SNMP = 2
    SOURCE_NIC = 3
    SOURCE_HOST = 4
    SOURCE_BRIDGE = 5
    SOURCE_PROBE = 6
    SOURCE_BENCHMARK = 7
    SOURCE_SYSLOG = 8

    @property
    def label(self) -> str:
        """Return the name for people: in lower case, without the type's prefix."""
        return self.name.removeprefix("SOURCE_").lower()


class RowKind(IntEnum):
    ROW_KIND_UNSPECIFIED = 0
    ROW_KIND_PORT = 1
    ROW_KIND_GPU = 2
    ROW_KIND_DEVICE = 3
    ROW_KIND_COLLECTIVE = 4


class EventKind(IntEnum):
    KIND_UNSPECIFIED = 0
    LINK_DOWN = 1
    LINK_UP = 2
    ADMIN_DOWN = 3
    ADMIN_UP = 4
    MODULE_REMOVED = 5
    MODULE_INSERTED = 6
    MODULE_FAULT = 7
    DEVICE_REBOOT = 8
    GPU_XID = 9
    NIC_FIRMWARE_ERROR = 10
    PFC_STORM = 11
    LOG = 12
    SLOT_POWER = 13
    NCCL = 14
    WATCH = 15
    LOSS_OF_SIGNAL = 16
    SIGNAL_RESTORED = 17
    OPTICS_ALARM = 18
    OPTICS_CLEARED = 19
    PFC_RESTORED = 20
    BGP_DOWN = 21
    BGP_UP = 22
    BFD_DOWN = 23
    BFD_UP = 24
    HARDWARE_FAULT = 25
    HARDWARE_CLEARED = 26


@dataclass(slots=True)  # not frozen, like Samples: creating a frozen one takes four times as long
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
class Event:
    device: str
    port: str
    kind: EventKind
    at_ns: int
    received_at_ns: int
    source: Source
    collector: str = ""
    collector_run: int = 0
    sequence: int = 0
    detail: str = ""
    code: int = 0


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    kind: str = ""
    part_number: str = ""
    serial: str = ""
    firmware: str = ""
    alias: tuple[str, ...] = ()
    limit: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Neighbor:
    port: str
    remote_device: str
    remote_port: str


@dataclass(frozen=True, slots=True)
class Facts:
    device: str
    observed_at_ns: int
    source: Source
    vendor: str = ""
    model: str = ""
    os_version: str = ""
    booted_at_ns: int = 0
    serial: str = ""
    components: tuple[Component, ...] = ()
    neighbors: tuple[Neighbor, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectorStatus:
    collector: str
    collector_run: int
    source: Source
    device: str
    at_ns: int
    reachable: bool
    error: str = ""
    last_sample_at_ns: int = 0
    clock_offset_ns: int = 0
    cadence_ns: int = 0
    sent_at_ns: int = 0
    ended: bool = False


@dataclass(slots=True)  # not frozen, like Samples
class ProbeReport:
    """The flows of one prober in one window; the lists `flow_*` have one value per flow."""

    device: str
    collector: str
    collector_run: int
    sequence: int
    begin_ns: int
    end_ns: int
    received_at_ns: int
    stalls: int = 0
    address: tuple[str, ...] = ()
    flow_source: tuple[int, ...] = ()
    flow_target: tuple[int, ...] = ()
    flow_source_port: tuple[int, ...] = ()
    flow_sent: tuple[int, ...] = ()
    flow_forward_lost: tuple[int, ...] = ()
    flow_reverse_lost: tuple[int, ...] = ()
    flow_unanswered: tuple[int, ...] = ()
    flow_discarded: tuple[int, ...] = ()
    flow_reordered: tuple[int, ...] = ()
    flow_lost_run: tuple[int, ...] = ()
    flow_rtt_p50_ns: tuple[int, ...] = ()
    flow_rtt_p99_ns: tuple[int, ...] = ()
    flow_responder_p50_ns: tuple[int, ...] = ()
    flow_forward_hops: tuple[int, ...] = ()
    flow_reverse_hops: tuple[int, ...] = ()
    hop: tuple[int, ...] = ()
    flow_forward_reach: tuple[int, ...] = ()
    flow_reverse_reach: tuple[int, ...] = ()
