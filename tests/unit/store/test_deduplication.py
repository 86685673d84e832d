"""Identities: a message sent again is known, one that is late is not."""

import random

from streams.store.rows.deduplication import MAX_SPANS, KeyDedup, SequenceDedup

RUN = ("leaf", "gnmi", "c", 1)


def test_any_order_of_sequences_is_told_from_repetitions() -> None:
    """Against a plain set, over many orders with gaps and repetitions."""
    for seed in range(200):
        chance = random.Random(seed)
        seen, plain = SequenceDedup(10**9), set[int]()
        for _ in range(120):
            sequence = chance.randrange(60)
            assert seen.is_new(RUN, sequence, 1) is (sequence not in plain)
            plain.add(sequence)


def test_runs_are_apart() -> None:
    """Another run, device, source or collector has sequences of its own."""
    seen = SequenceDedup(10**9)
    others = [("spine", *RUN[1:]), ("leaf", "snmp", "c", 1), ("leaf", "gnmi", "d", 1), ("leaf", "gnmi", "c", 2)]
    assert all(seen.is_new(run, 5, 1) for run in (RUN, *others))
    assert not any(seen.is_new(run, 5, 1) for run in (RUN, *others))


def test_what_is_restored_is_known() -> None:
    """Spans read back from ClickHouse count as stored; the gap between them does not."""
    seen = SequenceDedup(10**9)
    seen.restore(RUN, [0, 7], [4, 9], 1)
    assert [seen.is_new(RUN, sequence, 1) for sequence in (0, 4, 5, 7, 9, 10)] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]


def test_silent_runs_are_forgotten_and_gaps_are_bounded() -> None:
    """Memory does not grow with collectors' restarts, nor with a run that leaves a gap each time."""
    seen = SequenceDedup(8000)
    for number in range(100):
        seen.is_new(("leaf", "gnmi", "c", number), 0, number * 2000)
    assert len(seen) < 12
    for sequence in range(0, 4 * MAX_SPANS, 2):
        seen.is_new(RUN, sequence, 200_000)
    assert len(seen._runs[RUN].lows) == MAX_SPANS
    many = range(0, 4 * MAX_SPANS, 2)
    seen.restore(RUN, many, many, 200_000)
    assert len(seen._runs[RUN].lows) == MAX_SPANS and not seen.is_new(RUN, many[-1], 200_000)


def test_keys_are_known_for_their_window() -> None:
    """A key is known until it is older than the window."""
    keys = KeyDedup(1000)
    assert keys.is_new("a", 0)
    assert not keys.is_new("a", 1000)
    assert keys.is_new("b", 1001)
    assert len(keys) == 1
    assert keys.is_new("a", 1001)
