"""Bounds the cost of event-time windows under the load of the pipeline benchmark, in counts and bytes.

A healthy fabric emits almost no windows, retains no objects and little more than its last readings, and its snapshots
stay small. An earlier version emitted a window for every port of the largest fabric every minute, and the worker fell
behind.
"""

import gc
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from lab.bench.load.fleet import Fleet
from lab.world.fabric_arrays import fabric_arrays
from streams.detect.correlate.stage import Correlate
from streams.detect.detectors.rail_degraded.comparison import compare_rails
from streams.detect.measure.stage import Measure
from streams.detect.measure.storage.array_codec import ArrayEncoder
from streams.detect.measure.storage.message_batch import DeviceBlock
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire import topics
from streams.wire.models import Message, PeerGroup, PeerWindow, Source
from streams.wire.stage import Output
from tests.fixtures.call_counting import counting

BEGIN_NS = 1_700_000_000 * 10**9


@dataclass(slots=True)
class Chain:
    """Both stages, and how many messages of each kind measure has emitted."""

    topology: Topology
    measure: Measure = field(default_factory=lambda: Measure(DetectParams()))
    correlate: Correlate = field(default_factory=lambda: Correlate(DetectParams()))
    emitted: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        for stage in (self.measure, self.correlate):
            stage.start_epoch(1)
            stage.set_topology(self.topology)

    def take(self, batch: list[tuple[topics.Topic, bytes]]) -> None:
        """One batch on its way through both."""
        outputs = self.measure.process([topics.decode(topic, value) for topic, value in batch])
        result = [_carried(output) for output in outputs]
        self.correlate.process(result)
        self.correlate.advance_watermark(self.measure.watermark_ns)
        for message in result:
            self.emitted[type(message).__name__] += 1


def _carried(output: Output) -> Message:
    assert output.message is not None
    record = topics.encode(output.topic, output.message, **({"key": output.key} if output.key else {}))
    assert record.value is not None
    return topics.decode(output.topic, record.value, record.headers)


def made(gpus: int, cadence_s: float) -> tuple[Chain, Fleet]:
    """Both stages, ready, and the devices of a fabric that they are to read."""
    inventory = generate(GenerateParams(gpus=gpus))
    runs = {Source.SOURCE_NIC: 1, Source.SOURCE_GNMI: 1}
    chain = Chain(Topology(inventory))
    chain.begin()
    return chain, Fleet(fabric_arrays(inventory), cadence_s, np.random.default_rng(1), runs)


def play(chain: Chain, fleet: Fleet, minute: int) -> int:
    """A minute of the load; answers how many ports were read."""
    rows = 0
    for second in range(minute * 60 + 1, (minute + 1) * 60 + 1):
        until_s = float(second)
        now_ns = BEGIN_NS + ns(until_s)
        read = list(fleet.readings(until_s, now_ns))
        batch = [(topics.SAMPLES, encoded.value) for encoded in read]
        rows += sum(encoded.rows for encoded in read)
        batch += [(topics.COLLECTOR_STATUS, status.value) for status in fleet.statuses(until_s, now_ns)]
        chain.take(batch)
    return rows


GPUS, MINUTES = 1024, 12
"""The watch after an error is ten windows: it begins and ends within so many minutes."""

EMITTED_PER_MILLION = 200
"""Windows of a million port-minutes: at base rates one error in a hundred is followed by another within ten minutes."""

WINDOW_BYTES_A_PORT = {8: 224, 128: 176}
"""By the device's ports. The last readings of twenty counters and four gauges are 192; both ends of nine counters of a
host or eight of a switch are 144 or 128, one end of two gauges 16, their emitted windows 8, and the notable ones 8. The
times of a host are shared by its eight ports only.
"""

SNAPSHOT_RATIO = 1.45
"""A snapshot against one without windows."""

BLOCKS, BLOCKS_ALONE = 100, 60
"""Objects that may be new beside those of errors which stand alone, and of each of these."""

CALLS_A_HOST = 70
"""Calls to compare the rails of one more host: which of its eight ports are rails."""


@pytest.fixture(scope="module")
def load() -> tuple[Chain, Fleet, int]:
    """Both stages after some minutes of the load, and how many ports they read in one."""
    chain, fleet = made(GPUS, 10.0)
    ports = [play(chain, fleet, minute) for minute in range(MINUTES)][-1] // 6
    return chain, fleet, ports


def blocks(chain: Chain) -> Iterator[DeviceBlock]:
    """Yield the blocks that `measure` retains, one per layout."""
    yield from chain.measure._readings.blocks.values()


def test_a_healthy_fabric_emits_almost_no_windows(load: tuple[Chain, Fleet, int]) -> None:
    """Traffic, corrected bits, idle ports and single errors make no Window; equally loaded rails make no PeerWindow."""
    chain, _, ports = load
    assert chain.emitted["PeerWindow"] == 0
    assert chain.emitted["Window"] <= EMITTED_PER_MILLION * ports * MINUTES / 1e6, chain.emitted


def test_windows_keep_few_bytes_a_port_and_none_of_them_in_objects(load: tuple[Chain, Fleet, int]) -> None:
    """Arrays, about as large as the last readings themselves."""
    chain, _, _ = load
    for block in blocks(chain):
        assert block.windows is not None
        parts = (block.windows, block.windows.counters, block.windows.gauges)
        arrays = [value for part in parts for value in vars(part).values() if isinstance(value, np.ndarray)]
        room = len(block.windows.open) * block.layout.rows
        assert sum(array.nbytes for array in arrays) / room <= WINDOW_BYTES_A_PORT[block.layout.rows]


def test_windows_add_little_to_a_snapshot(load: tuple[Chain, Fleet, int]) -> None:
    """Only the traffic of a minute ago does not compress; all else is constant."""
    chain, _, _ = load
    whole, packer = len(chain.measure.snapshot()), ArrayEncoder()
    for block in blocks(chain):
        assert block.windows is not None
        places = np.arange(block.device_count)
        block.windows.exchange(packer, places, block.counters.at_ns[places].max(axis=1))
    own = sum(map(len, packer.blobs))
    assert whole <= SNAPSHOT_RATIO * (whole - own), (whole, own)
    assert len(chain.correlate.snapshot()) < 10_000


def test_minutes_leave_nothing_behind(load: tuple[Chain, Fleet, int]) -> None:
    """The stages hold as many objects after any number of minutes; an isolated error is evicted."""
    chain, fleet, _ = load
    gc.collect()
    before = sys.getallocatedblocks()
    for minute in range(MINUTES, 2 * MINUTES):
        play(chain, fleet, minute)
    gc.collect()
    grown, alone = sys.getallocatedblocks() - before, 0
    for block in blocks(chain):
        assert block.windows is not None
        newest = int(block.windows.open.max())
        assert all(newest - error.number <= MINUTES for error in block.windows.selection.isolated_errors.values())
        alone += len(block.windows.selection.isolated_errors)
    assert 0 < alone < 20
    assert grown <= BLOCKS + BLOCKS_ALONE * alone


def test_each_further_suspect_host_costs_the_same() -> None:
    """If no host loads its rails equally, all hosts of a pod are compared, as arrays and not pair by pair."""
    inventory = generate(GenerateParams(gpus=1024))
    topology = Topology(inventory)
    hosts = [device.name for device in inventory.devices if device.kind == "host"]
    ports = {host: tuple(cable.lower.port for cable in topology.links_of[host]) for host in hosts}
    shares = np.random.default_rng(1).uniform(0.99, 1.0, (len(hosts), 8)) * np.linspace(0.2, 1, 8) * 25e9 * 60

    def calls(count: int) -> int:
        windows = {
            host: PeerWindow(
                host, Source.SOURCE_NIC, PeerGroup.HOST_RAILS, ns(60), ns(120), ns(55), ns(115), ports[host],
                (Metric.TX_BYTES,), tuple(shares[i].tolist()),
            )
            for i, host in enumerate(hosts[:count])
        }  # fmt: skip
        with counting() as counted:
            marks = compare_rails(DetectParams().rail, topology, windows, hosts[:count], ())
        assert not marks
        return counted.total()

    calls(128)  # where jobs run is read once
    few, more, many = (calls(count) for count in (32, 64, 128))
    assert (many - more) / 64 == (more - few) / 32
    assert (many - more) / 64 <= CALLS_A_HOST
