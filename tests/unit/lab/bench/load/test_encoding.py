"""Tests that the bytes of the load are those that collectors would send."""

from dataclasses import replace

import numpy as np
import pytest

from collectors.core import columns
from lab.bench.load.encoding import FIRST_SEQUENCE, samples_pieces, stamp, status_pieces
from lab.bench.load.group import GAUGES, Group, Reader
from lab.world.fabric_arrays import rows_digest
from streams.wire.codec import to_bytes
from streams.wire.models import NO_INDEX, CollectorStatus, RowKind, Samples, Source, Table


@pytest.fixture(params=[(Source.SOURCE_NIC, 8), (Source.SOURCE_GNMI, 128)], ids=["host", "switch"])
def group(request: pytest.FixtureRequest) -> Group:
    source, height = request.param
    rows = tuple(f"p{i}" for i in range(height))
    return Group(Reader(source, "c", 77, 10.0), ["d1", "d2"], [rows, rows], np.random.default_rng(3))


@pytest.mark.parametrize("sequence", [FIRST_SEQUENCE, FIRST_SEQUENCE + 129, (1 << 21) - 1])
def test_a_message_from_a_template_has_the_bytes_of_the_codec(group: Group, sequence: int) -> None:
    """The template is cut once; a filled one equals the codec's bytes for the same Samples."""
    none = (NO_INDEX,)
    expected = Samples(
        "d2", group.reader.source, "c", 77, sequence, 1_700_000_000_000_000_001, 1_700_000_000_000_000_002,
        group.boot_id[1], RowKind.ROW_KIND_PORT, group.rows[1], rows_digest(group.rows[1]),
        Table(group.metrics, none * len(group.metrics), group.counters[1]),
        Table(GAUGES, none * len(GAUGES), group.gauges[1]),
    )  # fmt: skip
    stamped = stamp(77, sequence, expected.sampled_at_ns, expected.received_at_ns, group.boot_id[1])
    assert group.samples[1].message(stamped, group.counters[1], group.gauges[1]) == to_bytes(expected)


def test_a_status_from_a_template_has_the_bytes_of_the_codec() -> None:
    """The same holds for a collector's status."""
    status = CollectorStatus("gnmi", 5, Source.SOURCE_GNMI, "leaf", 123, True, last_sample_at_ns=120, cadence_ns=10)
    assert status_pieces(status).message(123, 120) == to_bytes(status)
    assert status_pieces(replace(status, at_ns=9)).message(124, 121) != to_bytes(status)


def test_the_digest_of_rows_is_that_of_the_collectors() -> None:
    """A decoder that has cached a digest of a collector finds it for the load."""
    rows = ("Ethernet1/1", "Ethernet1/2", "")
    assert rows_digest(rows) == columns.rows_digest(rows)


def test_an_ambiguous_template_is_refused() -> None:
    """A template in which a mark occurs twice would produce wrong messages."""
    table = Table((), (), np.zeros((0, 1), np.uint64))
    with pytest.raises(AssertionError, match="differently"):
        samples_pieces(
            Samples("d", Source.SOURCE_NIC, "c", 1, 0, 0, 0, 0, RowKind.ROW_KIND_PORT, ("a",), 1, table, table)
        )
