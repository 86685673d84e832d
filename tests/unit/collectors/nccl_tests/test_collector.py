"""Tests the samples that are made of an output, and the files that are followed."""

import asyncio
import contextlib
import os
from pathlib import Path

import numpy as np
import pytest

from collectors.core.context import CollectorContext
from collectors.core.params import Core
from collectors.nccl_tests.collector import SPEC, FileFollower, collect, publish
from collectors.nccl_tests.params import Params
from collectors.nccl_tests.parse import parse
from lab.constants import with_constants
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.errors import Misconfigured
from streams.wire.models import RowKind, Samples, Source
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.nccl_tests_output import SIZES, as_json, table

HOSTS = ("gpu-a", "gpu-b")
AT_NS = 1_772_000_000 * 10**9


def published(text: str, params: Params | None = None, at_ns: int = AT_NS) -> list[Samples]:
    """Return the messages of an output."""
    publisher = RecordingPublisher()
    context = CollectorContext(publisher, "nccl_tests@login")
    for benchmark in parse(text.encode()):
        assert list(publish(benchmark, at_ns, params or Params(), context))
    return publisher.of(Samples)


def column(samples: Samples, metric: Metric, index: int) -> list[float]:
    """Return the values of a gauge."""
    columns = list(zip(samples.gauges.metric, samples.gauges.index, strict=True))
    return [float(value) for value in samples.gauges.values[columns.index((metric, index))]]


def test_each_host_has_its_gpus_and_all_results_at_one_time() -> None:
    """By the time the messages of several hosts are one benchmark."""
    found = published(table(HOSTS), Params(nodes={"pod1-host2": "gpu-b"}))
    assert [(one.device, one.row_kind, one.sequence) for one in found] == [
        (host, kind, number)
        for host in ("gpu-a", "pod1-host2")
        for number, kind in ((1, RowKind.ROW_KIND_GPU), (2, RowKind.ROW_KIND_COLLECTIVE))
    ]
    assert len({(one.sampled_at_ns, one.collector_run) for one in found}) == 1
    assert {one.source for one in found} == {Source.SOURCE_BENCHMARK}
    assert abs(found[0].sampled_at_ns - AT_NS) < 1_000_000
    assert found[2].row[0] == "0000:10:00.0" and column(found[2], Metric.COLLECTIVE_RANK, 0) == list(range(8, 16))
    results = found[1]
    assert column(results, Metric.COLLECTIVE_SIZE_BYTES, 0) == list(SIZES)
    assert column(results, Metric.COLLECTIVE_RANKS, 1) == [16.0] * len(SIZES)
    assert np.all(np.diff(column(results, Metric.COLLECTIVE_BUS_BYTES_PER_S, 1)) > 0)


def test_one_output_has_one_identity_and_others_another() -> None:
    """Published twice it is the same message; another result, or another cycle (`-N`), is another benchmark."""
    first, again, other = published(table(HOSTS)), published(table(HOSTS)), published(table(HOSTS, 369.0))
    assert [one.collector_run for one in first] == [one.collector_run for one in again]
    assert first[0].collector_run != other[0].collector_run and first[0].sampled_at_ns != other[0].sampled_at_ns
    cycles = published(table(HOSTS, sizes=SIZES * 2))
    assert len({one.collector_run for one in cycles}) == 1, "equal cycles are one"
    assert len(cycles) == 8


def test_no_stage_takes_a_benchmark_for_a_source() -> None:
    """`measure` does not wait for the next one: there is no silence, no watermark and no output."""
    stage = Measure(DetectParams())
    assert stage.process(published(table(HOSTS))) == []
    watermark = stage.watermark_ns
    assert stage.advance_watermark(AT_NS + 86_400 * 10**9) == []
    assert stage.watermark_ns == watermark


async def test_files_are_published_once_when_they_are_complete(tmp_path: Path) -> None:
    """A file that still grows waits; one that is none is left out and counted."""
    publisher = RecordingPublisher()
    context = CollectorContext(publisher, "nccl_tests")
    params = with_constants(Params, find_every_s=0.05)(outputs=(str(tmp_path / "*"),))
    (tmp_path / "a.json").write_bytes(as_json(HOSTS))
    (tmp_path / "b.txt").write_text("no output")
    work = asyncio.create_task(collect(params, context))
    await publisher.until(lambda: len(publisher.of(Samples)) == 4)
    (tmp_path / "c.txt").write_text(table(HOSTS, 300.0))
    await publisher.until(lambda: len(publisher.of(Samples)) == 8)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    assert context.metrics.value("unreadable", "output") == 1


def test_a_file_that_grows_or_is_old_is_not_read(tmp_path: Path) -> None:
    """A file is complete when two looks find it alike."""
    path = tmp_path / "out.txt"
    path.write_text("a")
    follower = FileFollower(with_constants(Params, max_age_s=3600)(outputs=(str(path),)))
    os.utime(path, ns=(AT_NS, AT_NS))
    assert list(follower.complete(AT_NS)) == []
    path.write_text("ab")
    os.utime(path, ns=(AT_NS + 1, AT_NS + 1))
    assert list(follower.complete(AT_NS)) == []
    assert list(follower.complete(AT_NS)) == [(path, AT_NS + 1)]
    assert list(follower.complete(AT_NS)) == []
    old = FileFollower(with_constants(Params, max_age_s=60)(outputs=(str(path),)))
    assert [list(old.complete(AT_NS + 61 * 10**9)) for _ in range(3)] == [[], [], []]


async def test_once_prints_files_and_errors_are_one_line(tmp_path: Path) -> None:
    """A line for each row of each host: 8 GPUs and 3 sizes."""
    path = tmp_path / "out.txt"
    path.write_text(table(HOSTS))
    assert len([line async for line in SPEC.once(Params(outputs=(str(path),)), Core())]) == 2 * (8 + len(SIZES))
    path.write_text("no output")
    with pytest.raises(Misconfigured, match="no output of nccl-tests"):
        assert not [line async for line in SPEC.once(Params(outputs=(str(path),)), Core())]
    with pytest.raises(Misconfigured, match="spool"):
        await SPEC.run(Params.model_validate({"publisher": {"spool": str(tmp_path)}}), Core())
