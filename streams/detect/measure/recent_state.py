"""What a snapshot keeps of the readings within the lateness: times as numbers, columns and rows once each."""

from collections.abc import Iterable
from typing import Any

from streams.detect.measure.packing import Packer, Unpacker
from streams.detect.measure.recent import Read, Recent, Step
from streams.fabric.catalogue import Metric


def pack(all_recent: Iterable[Recent], packer: Packer) -> dict[str, Any]:
    """Into arrays, but for what is the same of many, and for the few steps."""
    kept = list(all_recent)
    shapes: dict[tuple[Any, ...], int] = {}
    met: dict[tuple[int, int, int], int] = {}
    """By the identity of the tuples that messages share: names are many, and are not to be looked at each time."""

    def shape(read: Read) -> int:
        _, counters, gauges, rows = read
        own = id(counters), id(gauges), id(rows)
        if own not in met:
            met[own] = shapes.setdefault(read[1:], len(shapes))
        return met[own]

    packer.put_all(len(recent.reads) for recent in kept)
    packer.put_all(recent.life_ns for recent in kept)
    packer.put_all(read[0] for recent in kept for read in recent.reads)
    packer.put_all(shape(read) for recent in kept for read in recent.reads)
    steps = [
        [place, *column, row, [list(step) for step in own]]
        for place, recent in enumerate(kept)
        for (column, row), own in recent.steps.items()
    ]
    return {
        "count": len(kept),
        "reads": sum(len(recent.reads) for recent in kept),
        "shapes": list(shapes),
        "steps": steps,
    }


def unpack(head: dict[str, Any], all_recent: Iterable[Recent], unpacker: Unpacker) -> None:
    """Fill those of the same slots in the same order."""
    counts = unpacker.take("i8", head["count"]).tolist()
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
        recent.reads, recent.life_ns = [next(reads) for _ in range(count)], life_ns
    for place, metric, index, row, steps in head["steps"]:
        kept[place].steps[(Metric(metric), index), row] = [Step(*step) for step in steps]
