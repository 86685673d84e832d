"""Generates a recording of a fabric with faults in the format of DESIGN 6: Parquet, one value per row, by time.

The readings are the pipeline load's (load/fleet.py), by an event clock instead of the machine's.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lab.bench.load.fault_plan import plan
from lab.bench.load.fleet import COLLECTORS, Fleet
from lab.world.fabric_arrays import fabric_arrays
from streams.fabric.inventory import Inventory
from streams.replay.score import Truth
from streams.wire import codec
from streams.wire.models import CollectorStatus, Event, Samples

START_NS = 1_760_000_000_000_000_000
SLOT_S = 0.05
_FLUSH_ROWS = 1 << 20
_TOLERANCE_S = 60.0


@dataclass(frozen=True, slots=True)
class GeneratedRecording:
    """The files of a recording, its size, and its ground truth."""

    samples: Path
    events: Path
    status: Path
    messages: int
    port_samples: int
    values: int
    truths: tuple[Truth, ...]


def write_recording(
    inventory: Inventory, folder: Path, seconds: float, cadence_s: float, seed: int
) -> GeneratedRecording:
    """Write the readings of this many seconds; faults end long before, so that all findings are final."""
    plant, chance = fabric_arrays(inventory), np.random.default_rng(seed)
    warm_s, fault_s = 2 * cadence_s, max(10.0, seconds - 2 * cadence_s - 100.0)
    faults = plan(plant, warm_s, fault_s, cadence_s, chance)
    fleet = Fleet(plant, cadence_s, chance, dict.fromkeys(COLLECTORS, 1), faults)
    counts: Counter[str] = Counter()
    samples, events, status = folder / "samples.parquet", folder / "events.csv", folder / "status.jsonl"
    with _Writer(samples) as writer, events.open("w") as event_file, status.open("wb") as status_file:
        event_file.write("time,device,port,kind,code,detail,source\n")
        for slot in range(round(seconds / SLOT_S)):
            at_s, now_ns = slot * SLOT_S, START_NS + round(slot * SLOT_S * 1e9)
            event_file.writelines(_line(event) for _, event in fleet.injected(at_s, now_ns) if isinstance(event, Event))
            for encoded in fleet.readings(at_s, now_ns):
                message = codec.from_bytes(Samples, encoded.value)
                writer.add(message)
                counts.update(messages=1, rows=encoded.rows)
            for encoded in fleet.statuses(at_s, now_ns):
                status_file.write(codec.to_json(codec.from_bytes(CollectorStatus, encoded.value)) + b"\n")
        values = writer.values
    truths = tuple(_truths(fleet))
    return GeneratedRecording(samples, events, status, counts["messages"], counts["rows"], values, truths)


def _line(event: Event) -> str:
    source = event.source.label
    return f"{event.at_ns},{event.device},{event.port},{event.kind.name.lower()},0,,{source}\n"


def _truths(fleet: Fleet) -> Iterator[Truth]:
    for one in fleet.played:
        for truth in one.fault.truths if one.at_ns else ():
            yield replace(truth, start_ns=one.at_ns[0], end_ns=one.at_ns[-1], tolerance_s=_TOLERANCE_S)


class _Writer:
    """Writes the cells of messages as rows of a Parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._dictionaries: dict[str, dict[str, int]] = {name: {} for name in ("device", "port", "metric", "source")}
        self._parts: dict[str, list[Any]] = {}
        self._file: pq.ParquetWriter | None = None
        self._buffered = self.values = 0

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._flush()
        if self._file is not None:
            self._file.close()

    def add(self, message: Samples) -> None:
        """Add the cells of one message, port by port."""
        columns = (*message.counters.metric, *message.gauges.metric)
        values = np.concatenate([message.counters.values.astype(np.float64), message.gauges.values]).T
        height, width = values.shape
        rows = np.repeat(self._codes("port", message.row), width)
        metrics = np.tile(self._codes("metric", [metric.name.lower() for metric in columns]), height)
        count = height * width
        for name, part in (
            ("time", np.full(count, message.sampled_at_ns)),
            ("device", np.full(count, self._codes("device", [message.device])[0])),
            ("port", rows),
            ("metric", metrics),
            ("value", values.reshape(-1)),
            ("source", np.full(count, self._codes("source", [message.source.name[7:].lower()])[0])),
            ("boot_id", np.full(count, message.boot_id, np.uint64)),
        ):
            self._parts.setdefault(name, []).append(part)
        self._buffered += count
        self.values += count
        if self._buffered >= _FLUSH_ROWS:
            self._flush()

    def _codes(self, name: str, words: Iterable[str]) -> Any:
        known = self._dictionaries[name]
        return np.array([known.setdefault(word, len(known)) for word in words], np.int32)

    def _flush(self) -> None:
        if not self._buffered:
            return
        columns = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        table = pa.table(
            {
                name: pa.DictionaryArray.from_arrays(pa.array(own), pa.array(list(self._dictionaries[name])))
                if name in self._dictionaries
                else pa.array(own)
                for name, own in columns.items()
            }
            | {"index": pa.nulls(self._buffered, pa.int32())}
        )
        if self._file is None:
            self._file = pq.ParquetWriter(self._path, table.schema, compression="zstd")
        self._file.write_table(table)
        self._parts, self._buffered = {}, 0
