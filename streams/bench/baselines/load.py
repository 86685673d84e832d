"""The data of the comparison: readings of the largest fabric's mix of devices, with ports that cross a limit.

Every baseline must find exactly the ports that crossed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from aiokafka import AIOKafkaProducer

from streams.config.kafka import KafkaSettings
from streams.fabric.catalogue import CATALOGUE, Metric
from streams.wire import topics
from streams.wire.models import NO_INDEX, RowKind, Samples, Source, Table

SWITCH_SHARE = 5_120 / 21_504
"""DESIGN 8: 16,384 hosts of 8 ports and 5,120 switches of 128."""
CADENCE_NS = 10 * 10**9
DOWN_SHARE = 1 / 2_000
"""Share of readings with a link down: enough to compare answers, too few to add cost."""
IDLE_SHARE = 0.25

_SCALARS = [metric for metric in Metric if CATALOGUE[metric].index is None]
COUNTERS = tuple(metric for metric in _SCALARS if CATALOGUE[metric].counter)[:20]
GAUGES = tuple(metric for metric in _SCALARS if not CATALOGUE[metric].counter)[:4]
_TRAFFIC_PER_ROUND = {
    Metric.RX_BYTES: 125 * 10**9,
    Metric.TX_BYTES: 125 * 10**9,
    Metric.RX_PACKETS: 30 * 10**6,
    Metric.TX_PACKETS: 30 * 10**6,
    Metric.RX_BITS: 10**12,
    Metric.FEC_CORRECTED_BITS: 10**5,
    Metric.FEC_CORRECTED_CODEWORDS: 10**5,
}
"""A port of 400 Gbit/s at a quarter of its capacity, with the corrections of a healthy optic."""
_GAUGE_VALUES = np.array([[1.0], [1.0], [400e9], [1e-9]])


Crossing = tuple[str, str, int]
"""Device, port, and the time of the reading that crossed a limit, Unix ns."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One message, and its rows with a link that went down since the previous message."""

    samples: Samples
    crossed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """`messages` readings: `rounds` of each device, in complete rounds."""

    messages: int
    began_ns: int
    rounds: int = 6
    seed: int = 1

    def readings(self) -> Iterator[Reading]:
        """Yield the readings in the order in which a fabric's collectors would send them."""
        chance = np.random.default_rng(self.seed)
        sizes = self._sizes()
        rows = {size: tuple(f"Ethernet1/{port + 1}" for port in range(size)) for size in (8, 128)}
        ports = sum(sizes)
        traffic = np.array([[_TRAFFIC_PER_ROUND.get(metric, 0)] for metric in COUNTERS], np.uint64)
        traffic = traffic * (chance.random(ports) >= IDLE_SHARE)
        counters = chance.integers(0, 1 << 40, (len(COUNTERS), ports), np.uint64)
        downs_column = COUNTERS.index(Metric.LINK_DOWN_EVENTS)
        for turn in range(self.rounds):
            downs = chance.random(ports) < (DOWN_SHARE if turn else 0)
            counters += traffic + chance.integers(0, 1000, counters.shape, np.uint64) * (traffic > 0)
            counters[downs_column] += downs
            first = 0
            for number, size in enumerate(sizes):
                columns = slice(first, first + size)
                samples = self._samples(number, turn, rows[size], counters[:, columns])
                yield Reading(samples, tuple(int(row) for row in np.flatnonzero(downs[columns])))
                first += size

    def _sizes(self) -> list[int]:
        """Return the ports of each device: switches first, then hosts."""
        devices = max(2, self.messages // self.rounds)
        switches = max(1, round(devices * SWITCH_SHARE))
        return [128] * switches + [8] * (devices - switches)

    def _samples(self, number: int, turn: int, row: tuple[str, ...], counters: npt.NDArray[np.uint64]) -> Samples:
        at_ns = self.began_ns + turn * CADENCE_NS
        switch = len(row) > 8
        return Samples(
            f"{'leaf' if switch else 'host'}-{number:05d}",
            Source.SOURCE_GNMI if switch else Source.SOURCE_NIC,
            "bench", 1, turn, at_ns, at_ns + 10**6, 1, RowKind.ROW_KIND_PORT, row, len(row),
            Table(COUNTERS, (NO_INDEX,) * len(COUNTERS), counters.copy()),
            Table(GAUGES, (NO_INDEX,) * len(GAUGES), np.repeat(_GAUGE_VALUES, len(row), axis=1)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Filled:
    """The load in Kafka, and the expected answers."""

    messages: int
    port_samples: int
    crossed: frozenset[Crossing]


async def fill(kafka: KafkaSettings, load: Load) -> Filled:
    """Write the load to the samples topic, as collectors do."""
    messages, port_samples = 0, 0
    crossed: set[Crossing] = set()
    async with AIOKafkaProducer(
        **kafka.client_options(), acks="all", enable_idempotence=True, compression_type="snappy", linger_ms=20,
        max_batch_size=256 << 10,
    ) as producer:  # fmt: skip
        for reading in load.readings():
            samples = reading.samples
            record = topics.encode(topics.SAMPLES, samples)
            await producer.send(
                record.topic.name, record.value, key=record.key, partition=record.partition(kafka.partitions)
            )
            messages += 1
            port_samples += len(samples.row)
            crossed |= {(samples.device, samples.row[row], samples.sampled_at_ns) for row in reading.crossed}
        await producer.flush()
    return Filled(messages, port_samples, frozenset(crossed))
