"""What `measure` keeps over a restart: one JSON head that says how the arrays after it are laid out, then the arrays.

The arrays are most of it (24 metrics of 786,432 ports are 300 MB plain), so they are not turned into text; nothing in
a snapshot is ever executed.
"""

from dataclasses import asdict, dataclass
from typing import Any

import cramjam
import numpy as np
import orjson

from streams.detect.measure.liveness import Heard, Liveness
from streams.detect.measure.readings import Matrix, Readings
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import RowKind, Source

Key = tuple[str, Source, RowKind]


@dataclass(frozen=True, slots=True)
class Kept:
    """All of measure's state."""

    sources: dict[tuple[str, Source], Heard]
    arrival_ns: int
    readings: dict[Key, Readings]
    boot_ids: dict[tuple[str, Source], int]
    floor_ns: int
    watermark_ns: int


def dump(
    liveness: Liveness,
    readings: dict[Key, Readings],
    boot_ids: dict[tuple[str, Source], int],
    floor_ns: int,
    watermark_ns: int,
) -> bytes:
    """The state as bytes, compressed."""
    blobs: list[bytes] = []
    head = {
        "arrival_ns": liveness.arrival_ns,
        "floor_ns": floor_ns,
        "watermark_ns": watermark_ns,
        "sources": [asdict(heard) for heard in liveness.sources.values()],
        "boot_ids": [[device, source, boot_id] for (device, source), boot_id in boot_ids.items()],
        "readings": [{"key": key, "rows": list(item.rows), **_matrices(item, blobs)} for key, item in readings.items()],
    }
    plain = orjson.dumps(head)
    return bytes(cramjam.lz4.compress(b"".join([len(plain).to_bytes(8, "little"), plain, *blobs])))


def _matrices(readings: Readings, blobs: list[bytes]) -> dict[str, Any]:
    layout = {}
    for name, matrix in (("counters", readings.counters), ("gauges", readings.gauges)):
        blobs += [matrix.values.tobytes(), matrix.at_ns.tobytes()]
        layout[name] = {"columns": list(matrix.columns), "shape": matrix.values.shape}
    return layout


def load(data: bytes) -> Kept:
    """The inverse of `dump`; raises Reject on what it did not write."""
    try:
        plain = memoryview(bytes(cramjam.lz4.decompress(data)))
        start = 8 + int.from_bytes(plain[:8], "little")
        head = orjson.loads(plain[8:start])
        readings, offset = {}, start
        for item in head["readings"]:
            one = Readings()
            one.rows = {row: place for place, row in enumerate(item["rows"])}
            for name, matrix in (("counters", one.counters), ("gauges", one.gauges)):
                offset = _fill(matrix, item[name], plain, offset)
            device, source, kind = item["key"]
            readings[device, Source(source), RowKind(kind)] = one
        sources = {(h["device"], Source(h["source"])): _heard(h) for h in head["sources"]}
        boot_ids = {(device, Source(source)): boot_id for device, source, boot_id in head["boot_ids"]}
    except (cramjam.DecompressionError, orjson.JSONDecodeError, KeyError, ValueError, TypeError) as error:
        raise Reject(f"not a snapshot of measure: {error}") from error
    return Kept(sources, head["arrival_ns"], readings, boot_ids, head["floor_ns"], head["watermark_ns"])


def _fill(matrix: Matrix, layout: dict[str, Any], plain: memoryview, offset: int) -> int:
    shape = tuple(layout["shape"])
    count = int(shape[0]) * int(shape[1])
    matrix.columns = {(Metric(metric), index): place for place, (metric, index) in enumerate(layout["columns"])}
    matrix.values = np.frombuffer(plain, matrix.values.dtype, count, offset).reshape(shape).copy()
    matrix.at_ns = np.frombuffer(plain, np.int64, count, offset + count * 8).reshape(shape).copy()
    return offset + count * 16


def _heard(kept: dict[str, Any]) -> Heard:
    gaps = [(last, following) for last, following in kept["unjudged"]]
    return Heard(**{**kept, "source": Source(kept["source"]), "unjudged": gaps})
