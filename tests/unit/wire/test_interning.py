"""Tests the caches of the codec: equal values are the same tuples, within bounds."""

import dataclasses

import pytest

from streams.fabric.catalogue import Metric
from streams.wire import codec
from streams.wire.bounds import MAX_INDEX
from streams.wire.errors import Reject
from streams.wire.interning import ColumnLayoutCache, RowNameCache
from streams.wire.models import Samples
from tests.fixtures.wire_examples import SAMPLES


def _read(**changes: object) -> Samples:
    return codec.from_bytes(Samples, codec.to_bytes(dataclasses.replace(SAMPLES, **changes)))  # type: ignore[arg-type]


def test_equal_columns_and_names_are_the_same_tuples() -> None:
    """Two messages of two devices with the same columns and rows share them, with and without a digest."""
    one, other, undigested = _read(), _read(device="leaf2", sequence=9), _read(device="leaf3", rows_digest=0)
    for again in (other, undigested):
        assert again.row is one.row
        assert again.counters.metric is one.counters.metric
        assert again.counters.index is one.counters.index
        assert again.gauges.metric is one.gauges.metric
        assert again.gauges.index is one.gauges.index


def test_other_indices_are_another_layout() -> None:
    """The identity of the metrics distinguishes two layouts that differ only in their lanes."""
    layouts = ColumnLayoutCache()
    one, other = layouts.get((28, 28), (0, 1)), layouts.get((28, 28), (0, 2))
    assert one.metric == other.metric
    assert one.metric is not other.metric


def test_names_with_a_cached_digest_are_not_decoded() -> None:
    """The names between the first and the last come from the cache."""
    names = RowNameCache()
    known = names.get("d", 1, 1, 7, ["a", "b", "c"])
    assert names.get("d", 1, 1, 7, ["a", "x", "c"]) is known


def test_a_digest_that_does_not_match_the_names_is_ignored() -> None:
    """More, fewer or other names at the ends are decoded; so are names without a digest."""
    names = RowNameCache()
    names.get("d", 1, 1, 7, ["a", "b", "c"])
    for changed in (["a", "b"], ["a", "b", "c", "d"], ["a", "b", "x"], ["x", "b", "c"], []):
        assert names.get("d", 1, 1, 7, changed) == tuple(changed)
    names.get("d", 1, 1, 0, ["a", "b", "c"])
    assert names.get("d", 1, 1, 0, ["a", "x", "c"]) == ("a", "x", "c")


def test_another_device_or_source_has_its_own_digests() -> None:
    """A producer that misuses the digest does not affect the names of another device."""
    names = RowNameCache()
    names.get("d", 1, 1, 7, ["a", "b", "c"])
    for device, source, kind in (("e", 1, 1), ("d", 2, 1), ("d", 1, 2)):
        assert names.get(device, source, kind, 7, ["a", "x", "c"]) == ("a", "x", "c")


def test_the_caches_are_bounded() -> None:
    """Unlimited names, layouts and senders, and rows too large to cache, leave bounded memory and correct results."""
    names = RowNameCache(max_entries=8, max_characters=100)
    for number in range(1000):
        assert names.get(f"d{number}", 1, 1, number + 1, [f"r{number}", "x"]) == (f"r{number}", "x")
        assert len(names._by_digest) <= 8
        assert sum(sum(map(len, rows)) + len(rows) for rows in names._interned) <= 100
    assert names.get("d", 1, 1, 5, ["y" * 200]) == ("y" * 200,)
    assert names.get("d", 1, 1, 5, ["y" * 200]) == ("y" * 200,)
    layouts = ColumnLayoutCache()
    for number in range(5000):
        columns = (int(Metric.LANE_RAW_ERRORS),) * (1 + number // MAX_INDEX)
        assert layouts.get(columns, (number % MAX_INDEX,) * len(columns)).index == (number % MAX_INDEX,) * len(columns)
    assert len(layouts._known) <= 1024
    with pytest.raises(Reject, match="10000 columns"):
        layouts.get(tuple(range(10_000)), (0,) * 10_000)
    with pytest.raises(Reject, match="index"):
        layouts.get((int(Metric.LANE_RAW_ERRORS),), (MAX_INDEX + 1,))
