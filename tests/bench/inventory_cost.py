"""Measures the cost of an inventory: generated, read, packed, unpacked, and applied by the stages.

`python -m tests.bench.inventory_cost [--gpus 131072] [--down 50] [--back 200] [--kafka] [--json]`. CPU seconds, each
step in a separate process with its memory growth; with `--kafka` also `railsight inventory apply` to a real broker
and the reader of the topic. The stages have the state of a bad day: links that are down at both ends, and others that
went down and recovered.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cramjam

from streams.config.kafka import KafkaSettings
from streams.decide.params import DecideParams
from streams.decide.stage import Decide
from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.fabric.capacity import capacity_loss
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.graph import Graph
from streams.fabric.ids import Port
from streams.fabric.inventory import check, pack, read_folder, unpack, write_folder
from streams.fabric.topology import Topology, links_of_subject
from streams.runtime.admin import ensure_topics
from streams.runtime.inventory_reader import InventoryReader
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import (
    Message,
    Source,
    Symptom,
)
from streams.wire.stage import Output, Stage
from streams.wire.symptoms import PortChange, PortTransition
from streams.wire.topics import EPISODES, FINDINGS, INVENTORY, Record, encode

BEGIN_NS = ns(1_800_000_000)
LOOKUPS = 1000

Result = dict[str, float]


@contextmanager
def _timed(result: Result, name: str) -> Iterator[None]:
    began = time.process_time()
    yield
    result[name] = round(time.process_time() - began, 3)


def _rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _made(gpus: int, folder: Path) -> Result:
    result: Result = {}
    with _timed(result, "generate_s"):
        own = generate(GenerateParams(gpus=gpus))
    for form in ("csv", "parquet"):
        with _timed(result, f"write_{form}_s"):
            write_folder(own, folder / form, form)
    with _timed(result, "check_s"):
        check(own)
    with _timed(result, "pack_s"):
        _, data = pack(own)
    (folder / "packed").write_bytes(data)
    result["packed_bytes"] = len(data)
    result["json_bytes"] = len(bytes(cramjam.zstd.decompress(data)))
    return result


def _read(form: str, folder: Path) -> Result:
    result: Result = {}
    before = _rss_mb()
    with _timed(result, f"read_{form}_s"):
        read_folder(folder / form)
    result[f"read_{form}_mb"] = round(_rss_mb() - before)
    return result


def _unpacked(folder: Path) -> Result:
    """Measure each worker's steps for a version."""
    result: Result = {}
    data = (folder / "packed").read_bytes()
    before = _rss_mb()
    with _timed(result, "unpack_s"):
        own = unpack(data)
    with _timed(result, "topology_s"):
        topology = Topology(own)
    result["unpack_topology_mb"] = round(_rss_mb() - before)
    result |= _look_ups(topology)
    before = _rss_mb()
    with _timed(result, "graph_s"):
        graph = topology.graph
    result["graph_mb"] = round(_rss_mb() - before)
    return result | _questions(topology, graph)


def _assembled(folder: Path) -> Result:
    """The same as the topic's reader does it, in its thread; how long the worker's loop stood still meanwhile."""
    result: Result = {}
    own = unpack((folder / "packed").read_bytes())
    with _timed(result, "to_records_s"):
        records = [encode(INVENTORY, chunk) for chunk in to_chunks(own, 1)]
    result["records"] = len(records)
    del own
    gc.collect()
    reader = InventoryReader(KafkaSettings())
    pauses: list[float] = []
    with _timed(result, "reader_s"):
        asyncio.run(_taken(reader, records, pauses))
    assert reader.versions
    result["reader_worst_pause_ms"] = round(max(pauses) * 1e3)
    began = time.process_time()
    gc.collect()
    result["full_collection_after_ms"] = round((time.process_time() - began) * 1e3, 1)
    return result


def _through_kafka(folder: Path) -> Result:
    """`inventory apply` as a process of its own, then the topic read as a worker does."""
    result: Result = {}
    with EmbeddedKafka(KafkaParams(data=folder / "kafka")) as kafka:
        settings = KafkaSettings.model_validate({"bootstrap": kafka.bootstrap})
        asyncio.run(ensure_topics(settings))
        command = [sys.executable, "-m", "streams.cli.main", "inventory", "apply", str(folder / "csv"), "--bootstrap",
                   kafka.bootstrap]  # fmt: skip
        before, began = _children_s(), time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        result["apply_s"] = round(_children_s() - before, 3)
        result["apply_wall_s"] = round(time.monotonic() - began, 3)
        began = time.monotonic()
        with _timed(result, "read_back_s"):
            asyncio.run(_read_back(InventoryReader(settings)))
        result["read_back_wall_s"] = round(time.monotonic() - began, 3)
    return result


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _read_back(reader: InventoryReader) -> None:
    reading = asyncio.create_task(reader.run())
    await asyncio.wait_for(reader.first.wait(), 60)
    reading.cancel()


async def _taken(reader: InventoryReader, records: Sequence[Record], pauses: list[float]) -> None:
    async def watch() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            pauses.append(time.perf_counter() - began - 0.005)

    watching = asyncio.create_task(watch())
    for record in records:
        reader.take(SimpleNamespace(topic=INVENTORY.name, key=record.key, value=record.value,
                                    headers=record.headers, offset=0))  # fmt: skip
    await reader.settle()
    watching.cancel()


def _look_ups(topology: Topology) -> Result:
    hosts = [device.name for device in topology.devices.values() if device.kind == "host"][:LOOKUPS]
    ports = [cable.upper for cable in list(topology.links.values())[:LOOKUPS]]
    tops = [name for name, device in topology.devices.items() if device.kind == "switch"][-100:]
    return {
        "jobs_on_us": _each(lambda name: topology.jobs_on((name,), BEGIN_NS), hosts),
        "cable_at_us": _each(topology.link_at, ports),
        "pods_touching_us": _each(topology.pods_of_links, tops),
    }


def _questions(topology: Topology, graph: Graph) -> Result:
    """Measure queries on the arrays, in microseconds; the first peer query builds their index."""
    result: Result = {}
    cables = list(topology.links.values())[:: len(topology.links) // LOOKUPS]
    with _timed(result, "first_peers_s"):
        topology.peers_of(cables[0])
    result["peers_us"] = _each(topology.peers_of, cables)
    tiers = {tier: next(d for d in topology.devices.values() if d.tier == tier) for tier in ("host", "T0", "T1", "T2")
             if any(d.tier == tier for d in topology.devices.values())}  # fmt: skip
    things = {"link": cables[0].id, "plane": "plane:0", "pod": f"pod:{tiers['T0'].pod}"}
    for name, subject in (things | {tier: f"device:{device.name}" for tier, device in tiers.items()}).items():
        result[f"lose_{name}_us"] = _each(
            lambda one: capacity_loss(graph, links_of_subject(topology, one)).hosts(), [subject] * 5
        )
    return result


def _each(call: Callable[[Any], object], over: Sequence[Any]) -> float:
    """Microseconds a call, the median."""
    return round(statistics.median(_spans(call, over)), 1)


def _spans(call: Callable[[Any], object], over: Iterable[Any]) -> list[float]:
    spans = []
    for one in over:
        began = time.thread_time()
        call(one)
        spans.append((time.thread_time() - began) * 1e6)
    return spans


def _symptoms(topology: Topology, down: int, back: int) -> Iterator[Symptom]:
    """Host links and fabric links alike, spread over the fabric."""
    cables = list(topology.links.values())
    chosen = cables[:: max(1, len(cables) // (down + back))][: down + back]
    for number, cable in enumerate(chosen):
        at_ns = BEGIN_NS + number * 10_000_000
        if number * down // len(chosen) != (number + 1) * down // len(chosen):
            yield _symptom(cable.lower, PortChange.WENT_DOWN, at_ns)
            yield _symptom(cable.upper, PortChange.WENT_DOWN, at_ns + 1_000_000)
        else:
            yield _symptom(cable.lower, PortChange.WENT_DOWN, at_ns)
            yield _symptom(cable.lower, PortChange.CAME_UP, at_ns + ns(5))


def _symptom(port: Port, change: PortChange, at_ns: int) -> Symptom:
    return Symptom(port.device, port.port, PortTransition(change), at_ns, 0, Source.SOURCE_GNMI, True)


def _fed(result: Result, stage: Stage, messages: Sequence[Message]) -> list[Output]:
    """Feed a stage one message at a time, then let time pass by tenths of a second; measure all of it."""
    outputs: list[Output] = []
    name = stage.name
    spans = _spans(lambda message: outputs.extend(stage.process([message])), messages)
    advances = [BEGIN_NS + n * 100_000_000 for n in range(1, 600)]
    passing = _spans(lambda at_ns: outputs.extend(stage.advance_watermark(at_ns)), advances)
    result[f"{name}_messages"] = len(messages)
    result[f"{name}_process_us"] = round(statistics.mean(spans), 1)
    result[f"{name}_process_worst_us"] = round(max(spans), 1)
    result[f"{name}_advance_mean_us"] = round(statistics.mean(passing), 1)
    result[f"{name}_advance_worst_us"] = round(max(passing), 1)
    result[f"{name}_advance_last_us"] = round(statistics.median(passing[-50:]), 1)
    snapshot = stage.snapshot()
    result[f"{name}_snapshot_us"] = _each(lambda _: stage.snapshot(), range(20))
    result[f"{name}_snapshot_bytes"] = len(snapshot)
    result[f"{name}_restore_us"] = _each(stage.restore, [snapshot])
    return outputs


def _stages(folder: Path, down: int, back: int) -> Result:
    result: Result = {}
    topology = Topology(unpack((folder / "packed").read_bytes()))
    params = DetectParams()
    stages: tuple[Stage, ...] = (Correlate(params), Attribute(params), Decide(DecideParams()))
    for stage in stages:
        stage.start_epoch(1)
        result[f"{stage.name}_adopt_us"] = _each(stage.set_topology, [topology])
    messages: list[Message] = list(_symptoms(topology, down, back))
    for stage, topic in zip(stages, (EPISODES, FINDINGS, None), strict=True):
        outputs = _fed(result, stage, messages)
        if topic is not None:
            messages = [output.message for output in outputs if output.topic is topic and output.message is not None]
        result[f"{stage.name}_adopt_again_us"] = _each(stage.set_topology, [topology])
    return result


def _step(name: str, given: argparse.Namespace, folder: Path) -> Result:
    if name == "made":
        return _made(given.gpus, folder)
    if name == "stages":
        return _stages(folder, given.down, given.back)
    if name.startswith("read_"):
        return _read(name.removeprefix("read_"), folder)
    return {"unpacked": _unpacked, "assembled": _assembled, "through_kafka": _through_kafka}[name](folder)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=131_072)
    parser.add_argument("--down", type=int, default=50)
    parser.add_argument("--back", type=int, default=200)
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result: Result = {"gpus": given.gpus}
    with (
        tempfile.TemporaryDirectory() as folder,
        multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool,
    ):
        for name in (
            "made",
            "read_csv",
            "read_parquet",
            "unpacked",
            "assembled",
            "stages",
            *(["through_kafka"] if given.kafka else []),
        ):
            result |= pool.apply(_step, (name, given, Path(folder)))
    if given.json:
        json.dump(result, sys.stdout, indent=1)
        return
    for name, value in result.items():
        print(f"{name:32} {value:>16,}")  # noqa: T201 — this is its output


if __name__ == "__main__":
    main()
