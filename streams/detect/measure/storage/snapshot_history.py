"""What a snapshot keeps of the readings within the lateness: times as numbers, columns and rows once each."""

from collections.abc import Iterable
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.reading_history import Read, ReadingHistory, Transition
from streams.fabric.catalogue import Metric


def pack(all_recent: Iterable[ReadingHistory], packer: ArrayEncoder) -> dict[str, Any]:
    """Into arrays, but for what is the same of many, and for the few steps."""
    kept = list(all_recent)
    reads = [read for recent in kept for read in recent.reads]
    shapes, places = _shapes(reads)
    packer.put_all(len(recent.reads) for recent in kept)
    packer.put_all(recent.restarted_ns for recent in kept)
    packer.put_all(map(itemgetter(0), reads))
    packer.put(places)
    steps = [
        [place, *column, row, [list(step) for step in own]]
        for place, recent in enumerate(kept)
        for (column, row), own in recent.transitions.items()
    ]
    return {
        "count": len(kept),
        "reads": len(reads),
        "shapes": shapes,
        "steps": steps,
    }


def _shapes(reads: list[Read]) -> tuple[list[Any], Numbers]:
    """The different columns and rows of readings, in the order in which they come, and which each reading has.

    Told apart first by the identity of the tuples that messages share: names are many, and not to be looked at for
    every reading.
    """
    own = np.empty((len(reads), 3), np.int64)
    for part in range(3):
        own[:, part] = np.fromiter(map(id, map(itemgetter(part + 1), reads)), np.int64, len(reads))
    _, firsts, which = np.unique(own, axis=0, return_index=True, return_inverse=True)
    shapes: dict[tuple[Any, ...], int] = {}
    place_of = np.empty(len(firsts), np.int64)
    for one in np.argsort(firsts).tolist():
        place_of[one] = shapes.setdefault(reads[firsts[one]][1:], len(shapes))
    return list(shapes), place_of[which.reshape(-1)]


def unpack(head: dict[str, Any], all_recent: Iterable[ReadingHistory], unpacker: ArrayDecoder) -> None:
    """Fill those of the same slots in the same order; raises ValueError where there are not as many as it says."""
    counts = unpacker.take("i8", head["count"]).tolist()
    if sum(counts) != head["reads"]:
        raise ValueError(f"{sum(counts)} readings where {head['reads']} belong")
    lives = unpacker.take("i8", head["count"]).tolist()
    times = unpacker.take("i8", head["reads"]).tolist()
    places = unpacker.take("i8", head["reads"]).tolist()
    shapes = [
        (tuple(map(Metric, counters)), tuple(map(Metric, gauges)), tuple(rows))
        for counters, gauges, rows in head["shapes"]
    ]
    reads = iter([(at_ns, *shapes[place]) for at_ns, place in zip(times, places, strict=True)])
    kept = list(all_recent)
    for recent, count, life_ns in zip(kept, counts, lives, strict=True):
        recent.reads, recent.restarted_ns = list(islice(reads, count)), life_ns
    for place, metric, index, row, steps in head["steps"]:
        kept[place].transitions[(Metric(metric), index), row] = [Transition(*step) for step in steps]
