"""Needs of many fabrics, from the cost of one."""

from dataclasses import replace

from lab.bench.clickhouse_metrics import TableSize
from lab.bench.report import PartCost
from lab.bench.sizing import Needs, Terms, capacity_needs, table_lines
from streams.wire.topics import SAMPLES, Topic
from tests.fixtures.bench_reports import report


def needs(fabrics: int, terms: Terms, topic: Topic = SAMPLES) -> Needs:
    """80,000 port-samples/s of 100 bytes; over 60 s the broker took 12 CPU s, two workers 48 each, the sink 12."""
    made = report()
    parts = tuple(
        PartCost(name, cpu_s, 1 << 20, 0.0)
        for name, cpu_s in (("broker", 12.0), ("process-1", 48.0), ("process-2", 48.0), ("persist", 12.0),
                            ("clickhouse", 30.0))
    )  # fmt: skip
    stored = replace(
        made.stored,
        tables=(TableSize("samples", 4_800_000, 4_800_000 * 40, 9),),
        kafka_bytes={SAMPLES.name: 480_000_000},
    )
    return capacity_needs(replace(made, parts=parts, stored=stored).as_dict(), fabrics, terms, topic)


def test_cores_are_what_was_used_over_what_may_be_used() -> None:
    """Workers that ran side by side are added up before anything is rounded."""
    one = needs(1, Terms(used=0.5))
    assert (one.workers, one.sinks, one.clickhouse_cores) == (4, 1, 2)
    assert one.partitions == 16


def test_three_brokers_are_the_least_and_many_are_as_many_as_their_copies_cost() -> None:
    """A fifth of a core is three brokers; on brokers of a tenth of a core, each copy costs as much as the first."""
    assert needs(1, Terms(used=1.0)).brokers == 3
    assert needs(1, Terms(used=0.5, broker_cores=1, kafka_copies=5)).brokers == 3
    assert needs(1, Terms(used=0.1, broker_cores=1)).brokers == 6


def test_bytes_are_those_of_the_wire_times_copies_and_readers() -> None:
    """8 MB/s in three copies; two readers and two replicas read it."""
    one = needs(1, Terms())
    assert (one.kafka_in_bytes_per_s, one.kafka_out_bytes_per_s) == (24e6, 32e6)
    assert one.clickhouse_bytes == 80_000 * 40 * 86_400 * 7 * 2


def test_kafka_keeps_what_the_topic_keeps() -> None:
    """Six hours, but no more than the bound in bytes of each partition."""
    bounded = replace(SAMPLES, retention_bytes=1 << 20)
    assert needs(1, Terms()).kafka_bytes <= 8e6 * 6 * 3600 * 3
    assert needs(1, Terms(used=0.5), bounded).kafka_bytes == (1 << 20) * 16 * 3


def test_needs_add_up_over_fabrics() -> None:
    """A thousand fabrics are a thousand pipelines."""
    one, many = needs(1, Terms()), needs(1000, Terms())
    assert (many.brokers, many.workers, many.partitions) == (
        1000 * one.brokers,
        1000 * one.workers,
        1000 * one.partitions,
    )
    assert many.kafka_bytes == 1000 * one.kafka_bytes
    assert len(table_lines([one, many])) == 3
