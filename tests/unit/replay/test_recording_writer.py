"""Recordings are written in the format that backtests read; the sample has its faults and is current."""

import filecmp
from dataclasses import replace
from pathlib import Path

import numpy as np

from lab.bench import sample_recording
from streams.config.settings import Settings
from streams.fabric.catalogue import Metric
from streams.replay.backtest import Recording, run
from streams.replay.recording import RejectedRows, read_events, read_lines, stream_samples
from streams.replay.recording_writer import EVENTS, SAMPLES, write_recording
from streams.replay.score import read_findings, read_truth, score
from streams.wire.models import (
    ABSENT_COUNTER,
    NO_INDEX,
    CollectorStatus,
    Event,
    EventKind,
    RowKind,
    Samples,
    Source,
    Table,
)

S = 1_000_000_000
BIG = 2**63 + 12345
"""No float has this value: a counter is written as a whole number."""


def samples(at_s: int) -> Samples:
    """A reading of two ports: one has no optical power, the other no counter."""
    counters = Table((Metric.RX_BYTES,), (NO_INDEX,), np.array([[BIG + at_s, ABSENT_COUNTER]], np.uint64))
    gauges = Table((Metric.RX_POWER_DBM,), (3,), np.array([[np.nan, -2.25]]))
    return Samples(
        "leaf1", Source.SOURCE_SNMP, "c", 1, at_s, at_s * S, at_s * S, 7, RowKind.ROW_KIND_PORT, ("e1", "e2"), 0,
        counters, gauges,
    )  # fmt: skip


def values(message: Samples) -> dict[tuple[str, str, int], float]:
    return {
        (port, metric.name, index): value[number]
        for number, port in enumerate(message.row)
        for table in (message.counters, message.gauges)
        for metric, index, value in zip(table.metric, table.index, table.values, strict=True)
        if value[number] != ABSENT_COUNTER and not np.isnan(value[number])
    }


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Values, lanes, boots, events and statuses; rows of GPUs are counted, and a kind without rows has no file."""
    event = Event("leaf1", "e1", EventKind.LINK_DOWN, 5 * S, 5 * S, Source.SOURCE_SNMP, "c", 1, 1, "carrier, lost", 4)
    status = CollectorStatus("c", 1, Source.SOURCE_SNMP, "leaf1", 5 * S, True)
    gpu = replace(samples(6), row_kind=RowKind.ROW_KIND_GPU)
    counts = write_recording([samples(1), samples(2), event, status, gpu], tmp_path)
    assert counts == {SAMPLES: 4, EVENTS: 1, "status.jsonl": 1, "left out": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == [EVENTS, SAMPLES, "status.jsonl"]
    rejected = RejectedRows()
    read = list(stream_samples([tmp_path / SAMPLES], rejected))
    assert [(one.sampled_at_ns, one.boot_id, one.source) for one in read] == [
        (1 * S, 7, Source.SOURCE_SNMP),
        (2 * S, 7, Source.SOURCE_SNMP),
    ]
    assert [values(one) for one in read] == [values(samples(1)), values(samples(2))]
    (known,) = read_events([tmp_path / EVENTS], rejected)
    assert (known.kind, known.detail, known.code, known.at_ns) == (event.kind, event.detail, event.code, event.at_ns)
    assert read_lines(CollectorStatus, tmp_path / "status.jsonl", rejected) == [status]
    assert not rejected.reasons


def test_the_sample_is_current(tmp_path: Path) -> None:
    """`python -m lab.bench.sample_recording` writes what the repository has."""
    sample_recording.write(tmp_path)
    names = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert filecmp.cmpfiles(tmp_path, sample_recording.FOLDER, names, shallow=False)[1:] == ([], [])


def test_the_faults_of_the_sample_are_found(tmp_path: Path) -> None:
    """A backtest finds both, and nothing else."""
    folder = sample_recording.FOLDER
    recording = Recording(
        (folder / SAMPLES,), (folder / EVENTS,), None, folder / "status.jsonl", None, folder / "inventory"
    )
    run(recording, Settings(), tmp_path / "found.jsonl")
    truths = read_truth(folder / "truth.csv")
    assert len(truths) == 2
    assert score(read_findings(tmp_path / "found.jsonl"), truths).perfect
