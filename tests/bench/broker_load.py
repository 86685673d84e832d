"""Generates a second of the samples topic of the largest fabric, as bytes: 1,638 hosts of 8 ports, 512 switches of 128.

A tenth of the 131,072-GPU fabric (DESIGN 8), which is read every 10 s, and a sixtieth of its collector statuses.
The values are as compressible as the real ones: a third of the counters differ widely from port to port, the others
hardly move, gauges are what a healthy port shows, and 30 % of the ports are idle. Who sends it, and how often, is
broker_cost.py's.
"""

from dataclasses import dataclass

import numpy as np

from streams.fabric.catalogue import Metric
from streams.wire import topics
from streams.wire.models import NO_INDEX, CollectorStatus, RowKind, Samples, Source, Table

HOSTS, HOST_PORTS = 1638, 8
SWITCHES, SWITCH_PORTS = 512, 128
PORT_SAMPLES = HOSTS * HOST_PORTS + SWITCHES * SWITCH_PORTS
STATUSES = 10 * (HOSTS + SWITCHES) // 60  # one a device a minute
IDLE = 0.3
BUSY = (
    Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS, Metric.RX_BITS, Metric.FEC_CORRECTED_BITS,
)  # fmt: skip
QUIET = (
    Metric.RX_DISCARDS, Metric.TX_DISCARDS, Metric.RX_ERRORS, Metric.TX_ERRORS, Metric.LINK_DOWN_EVENTS,
    Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS, Metric.FEC_UNCORRECTED_CODEWORDS, Metric.PFC_RX_FRAMES,
    Metric.PFC_TX_FRAMES, Metric.ECN_MARKED_PACKETS, Metric.LINK_ERROR_RECOVERIES,
)  # fmt: skip
GAUGES = (
    Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS, Metric.PRE_FEC_BER, Metric.RX_POWER_DBM,
    Metric.MODULE_TEMPERATURE_C,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sent:
    """One record as a producer takes it."""

    partition: int
    key: bytes
    value: bytes


def one_second(partitions: int) -> list[Sent]:
    """The records of one second, hosts and switches mixed as they come; the same bytes at every call."""
    chance = np.random.default_rng(8)
    devices = [(f"host-{i:05}", HOST_PORTS) for i in range(HOSTS)]
    devices += [(f"leaf-{i:04}", SWITCH_PORTS) for i in range(SWITCHES)]
    order = chance.permutation(len(devices))
    return [_sent(devices[i][0], devices[i][1], partitions, chance) for i in order]


def statuses(partitions: int) -> list[Sent]:
    """The statuses of one second."""
    return [_status(f"host-{i * 37:05}", partitions) for i in range(STATUSES)]


def _status(device: str, partitions: int) -> Sent:
    now_ns = 1_700_000_000 * 10**9
    message = CollectorStatus("bench", 1, Source.SOURCE_NIC, device, now_ns, True, last_sample_at_ns=now_ns)
    return _record(device, topics.encode(topics.COLLECTOR_STATUS, message), partitions)


def _record(device: str, record: topics.Record, partitions: int) -> Sent:
    assert record.value is not None
    return Sent(topics.partition_of(device, partitions), record.key, record.value)


def _sent(device: str, ports: int, partitions: int, chance: np.random.Generator) -> Sent:
    busy = chance.integers(1 << 40, 1 << 50, (len(BUSY), ports), dtype=np.uint64)
    busy[:, chance.random(ports) < IDLE] = 0
    quiet = np.where(
        chance.random((len(QUIET), ports)) < 0.05, chance.integers(0, 5000, (len(QUIET), ports), dtype=np.uint64), 0
    )
    gauges = np.empty((len(GAUGES), ports))
    gauges[:3] = [[1.0], [1.0], [4e11]]
    gauges[3] = chance.integers(1, 100, ports) * 1e-10
    gauges[4] = np.round(chance.normal(-1.5, 0.5, ports), 2)
    gauges[5] = chance.integers(40, 60, ports)
    of_host = ports == HOST_PORTS
    counters = Table((*BUSY, *QUIET), (NO_INDEX,) * (len(BUSY) + len(QUIET)), np.vstack([busy, quiet]).astype("<u8"))
    message = Samples(
        device=device,
        source=Source.SOURCE_NIC if of_host else Source.SOURCE_GNMI,
        collector="bench",
        collector_run=1,
        sequence=1,
        sampled_at_ns=1_700_000_000 * 10**9,
        received_at_ns=1_700_000_001 * 10**9,
        boot_id=7,
        row_kind=RowKind.ROW_KIND_PORT,
        row=tuple(f"mlx5_{i}/1" if of_host else f"Ethernet1/{i + 1}" for i in range(ports)),
        rows_digest=int(chance.integers(1 << 62)),
        counters=counters,
        gauges=Table(GAUGES, (NO_INDEX,) * len(GAUGES), gauges),
    )
    return _record(device, topics.encode(topics.SAMPLES, message), partitions)
