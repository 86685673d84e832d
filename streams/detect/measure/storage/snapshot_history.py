"""Writes the readings within the lateness into a snapshot: times as numbers, columns and rows once each."""

from collections.abc import Iterable
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.reading_history import Read, ReadingHistory, Transition
from streams.fabric.catalogue import Metric


def pack(of_slots: Iterable[ReadingHistory], encoder: ArrayEncoder) -> dict[str, Any]:
    """Write histories into arrays; return what many share, and the few transitions, for the JSON head."""
    histories = list(of_slots)
    reads = [read for history in histories for read in history.reads]
    shapes, places = _shapes(reads)
    encoder.put_all(len(history.reads) for history in histories)
    encoder.put_all(history.restarted_ns for history in histories)
    encoder.put_all(map(itemgetter(0), reads))
    encoder.put(places)
    transitions = [
        [place, *column, row, [list(one) for one in own]]
        for place, history in enumerate(histories)
        for (column, row), own in history.transitions.items()
    ]
    return {
        "count": len(histories),
        "reads": len(reads),
        "shapes": shapes,
        "transitions": transitions,
    }


def _shapes(reads: list[Read]) -> tuple[list[Any], Numbers]:
    """Return the distinct columns and rows of readings in order of first use, and the index for each reading.

    They are compared first by the identity of the tuples that messages share: names are many, and comparing them for
    every reading is slow.
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


def unpack(head: dict[str, Any], of_slots: Iterable[ReadingHistory], decoder: ArrayDecoder) -> None:
    """Fill the histories of the same slots in the same order; raises ValueError where the numbers differ."""
    counts = decoder.take("i8", head["count"]).tolist()
    if sum(counts) != head["reads"]:
        raise ValueError(f"{sum(counts)} readings where {head['reads']} belong")
    restarts = decoder.take("i8", head["count"]).tolist()
    times = decoder.take("i8", head["reads"]).tolist()
    places = decoder.take("i8", head["reads"]).tolist()
    shapes = [
        (tuple(map(Metric, counters)), tuple(map(Metric, gauges)), tuple(rows))
        for counters, gauges, rows in head["shapes"]
    ]
    reads = iter([(at_ns, *shapes[place]) for at_ns, place in zip(times, places, strict=True)])
    histories = list(of_slots)
    for history, count, restarted_ns in zip(histories, counts, restarts, strict=True):
        history.reads, history.restarted_ns = list(islice(reads, count)), restarted_ns
    for place, metric, index, row, own in head["transitions"]:
        histories[place].transitions[(Metric(metric), index), row] = [Transition(*one) for one in own]
