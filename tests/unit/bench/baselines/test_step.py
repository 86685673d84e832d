"""The step that every contender does, and the data that it is done on."""

import json
from dataclasses import replace

import numpy as np

from streams.bench.baselines.aiokafka_loop import Ports
from streams.bench.baselines.load import COUNTERS, Crossing, Load
from streams.bench.baselines.step import crossings
from streams.fabric.catalogue import Metric
from streams.wire import codec
from streams.wire.models import Samples, Table
from tests.fixtures.bench_reference_step import downs

LOAD = Load(400, 10**18)


def with_numpy(readings: list[Samples]) -> list[Crossing]:
    """Return the crossings that the numpy step finds."""
    last: dict[str, Samples] = {}
    found = []
    for samples in readings:
        if (before := last.get(samples.device)) is not None:
            found += crossings(samples, before.counters.values, before.sampled_at_ns)
        last[samples.device] = samples
    return [of_json(answer) for answer in found]


def of_json(answer: bytes) -> Crossing:
    """An answer as (device, port, time)."""
    fields = json.loads(answer)
    assert fields["metric"] == "LINK_DOWN_EVENTS"
    return fields["device"], fields["port"], fields["at_ns"]


def test_the_load_knows_which_ports_cross() -> None:
    """A plain reader of the data finds exactly the crossings that its generator reports."""
    readings = list(LOAD.readings())
    made = {
        (one.samples.device, one.samples.row[row], one.samples.sampled_at_ns) for one in readings for row in one.crossed
    }
    assert made
    assert downs(one.samples for one in readings) == made


def test_the_load_has_the_mix_of_the_largest_fabric() -> None:
    """Of 21,504 devices 5,120 are switches of 128 ports, the others hosts of 8; each is read in every round."""
    readings = [one.samples for one in Load(1200, 10**18).readings()]
    assert len(readings) == 1200
    devices = {samples.device: len(samples.row) for samples in readings}
    assert sorted(devices.values()) == [8] * 152 + [128] * 48
    assert {len(COUNTERS), *(samples.counters.values.shape[0] for samples in readings)} == {20}


def test_numpy_and_an_object_a_port_find_what_a_plain_reader_finds() -> None:
    """Both forms of the step answer every crossing once, also after the way through the codec."""
    readings = [codec.from_bytes(Samples, codec.to_bytes(one.samples)) for one in LOAD.readings()]
    ports = Ports()
    by_objects = [of_json(answer) for samples in readings for answer in ports.read(samples)]
    by_numpy = with_numpy(readings)
    assert len(by_objects) == len(by_numpy) == len(downs(readings)) > 0
    assert set(by_objects) == set(by_numpy) == downs(readings)


def test_errors_count_only_above_their_limit() -> None:
    """A thousand errors a second is the limit: at it there is no answer, above it the port and its rate."""
    samples = next(one.samples for one in LOAD.readings() if len(one.samples.row) == 8)
    column = COUNTERS.index(Metric.RX_ERRORS)
    for delta, expected in ((10_000, []), (10_001, [1000.1])):
        values = samples.counters.values.copy()
        values[column, 3] += np.uint64(delta)
        later = replace(
            samples,
            sampled_at_ns=samples.sampled_at_ns + 10**10,
            counters=Table(samples.counters.metric, samples.counters.index, values),
        )
        found = [json.loads(answer) for answer in crossings(later, samples.counters.values, samples.sampled_at_ns)]
        assert [one["rate"] for one in found] == expected
        assert [one["port"] for one in found] == [samples.row[3]] * len(expected)


def test_a_counter_that_was_reset_has_no_rate() -> None:
    """A reading below the last one crosses nothing."""
    samples = next(one.samples for one in LOAD.readings())
    later = replace(samples, sampled_at_ns=samples.sampled_at_ns + 10**10)
    assert crossings(later, samples.counters.values + np.uint64(1), samples.sampled_at_ns) == []
