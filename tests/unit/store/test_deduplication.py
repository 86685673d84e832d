"""Tests deduplication: a repeated message is recognized, a late one is new."""

import random

from streams.store.rows.deduplication import MAX_SPANS, KeyDedup, SequenceDedup

RUN = ("leaf", "gnmi", "c", 1)


def test_repetitions_are_recognized_in_any_order() -> None:
    """The result equals that of a plain set, over many orders with gaps and repetitions."""
    for seed in range(200):
        rng = random.Random(seed)
        dedup, plain = SequenceDedup(10**9), set[int]()
        for _ in range(120):
            sequence = rng.randrange(60)
            assert dedup.is_new(RUN, sequence, 1) is (sequence not in plain)
            plain.add(sequence)


def test_runs_are_independent() -> None:
    """Another run, device, source or collector has sequences of its own."""
    dedup = SequenceDedup(10**9)
    others = [("spine", *RUN[1:]), ("leaf", "snmp", "c", 1), ("leaf", "gnmi", "d", 1), ("leaf", "gnmi", "c", 2)]
    assert all(dedup.is_new(run, 5, 1) for run in (RUN, *others))
    assert not any(dedup.is_new(run, 5, 1) for run in (RUN, *others))


def test_restored_ranges_are_recognized() -> None:
    """Ranges that are restored from ClickHouse count as stored; the gap between them does not."""
    dedup = SequenceDedup(10**9)
    dedup.restore(RUN, [0, 7], [4, 9], 1)
    assert [dedup.is_new(RUN, sequence, 1) for sequence in (0, 4, 5, 7, 9, 10)] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]


def test_silent_runs_are_evicted_and_ranges_are_limited() -> None:
    """Memory grows neither with collectors' restarts nor with a run that has a gap each time."""
    dedup = SequenceDedup(8000)
    for number in range(100):
        dedup.is_new(("leaf", "gnmi", "c", number), 0, number * 2000)
    assert len(dedup) < 12
    for sequence in range(0, 4 * MAX_SPANS, 2):
        dedup.is_new(RUN, sequence, 200_000)
    many = range(0, 4 * MAX_SPANS, 2)
    for _ in ("received", "restored"):
        assert not dedup.is_new(RUN, many[-1], 200_000)
        assert dedup.is_new(RUN, many[0], 200_000), "the oldest ranges are forgotten"
        dedup.restore(RUN, many, many, 200_000)


def test_keys_are_retained_for_their_window() -> None:
    """A key is retained until it is older than the window."""
    keys = KeyDedup(1000)
    assert keys.is_new("a", 0)
    assert not keys.is_new("a", 1000)
    assert keys.is_new("b", 1001)
    assert len(keys) == 1
    assert keys.is_new("a", 1001)
