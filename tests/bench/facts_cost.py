"""Measures the cost of Facts: all devices of the largest fabric report neighbors and versions, first, again
and after a change.

`python -m tests.bench.facts_cost [--gpus 131072] [--partitions 8]`. Prints CPU seconds and emitted messages, in one
process; the state is that of all partitions together, as a snapshot and as memory.
"""

import argparse
import gc
import json
import sys
import time
import tracemalloc
from collections import Counter

import cramjam
import orjson

from streams.detect.measure.facts_tracker import FactsTracker
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire.models import CablingReport, Component, Facts, Neighbor, Source, VersionCensus
from streams.wire.topics import partition_of

BEGIN_NS = ns(1_800_000_000)


def all_facts(topology: Topology, hour: int, moved: int = 0) -> list[Facts]:
    """Return each device's Facts; the ends of the first `moved` links have each other's neighbors, in pairs."""
    far = {end: cable.far_end(end) for cable in topology.links.values() for end in (cable.lower, cable.upper)}
    cables = list(topology.links.values())[: 2 * moved]
    for one, other in zip(cables[::2], cables[1::2], strict=True):
        far |= {one.lower: other.upper, other.lower: one.upper, one.upper: other.lower, other.upper: one.lower}
    facts = []
    for number, (name, device) in enumerate(topology.devices.items()):
        cables_of = topology.links_of.get(name, ())
        ends = [cable.lower if cable.lower.device == name else cable.upper for cable in cables_of]
        is_host = device.kind == "host"
        parts = tuple(Component(end.port, "nic", "MCX7", f"{name}{end.port}", "28.41.1000") for end in ends if is_host)
        parts += tuple(Component(f"m{end.port}", "transceiver", "OSFP", end.port, "2.0") for end in ends if not is_host)
        received = tuple(Neighbor(end.port, *far[end]) for end in ends)
        at_ns = BEGIN_NS + ns(3600 * hour) + number * 1_000_000
        facts.append(Facts(name, at_ns, Source.SOURCE_GNMI, "Maker", "M", "4.33", components=parts, neighbors=received))
    return facts


def main() -> None:
    """Measure, and print as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=131_072)
    parser.add_argument("--partitions", type=int, default=8)
    asked = parser.parse_args()
    topology = Topology(generate(GenerateParams(gpus=asked.gpus)), "d")
    shards = [FactsTracker(DetectParams(), n) for n in range(asked.partitions)]
    for shard in shards:
        shard.set_topology(topology, BEGIN_NS)
    result: dict[str, float] = {"devices": len(topology.devices), "ends": 2 * len(topology.links)}
    for hour, (step, moved) in enumerate((("first", 0), ("again", 0), ("100 swaps", 100))):
        facts = all_facts(topology, hour, moved)
        owners = [shards[partition_of(fact.device, asked.partitions)] for fact in facts]
        gc.collect()
        if step == "first":
            tracemalloc.start()
        emitted: Counter[type] = Counter()
        began = time.process_time()
        for owner, fact in zip(owners, facts, strict=True):
            emitted.update(map(type, owner.on_facts(fact)))
        for shard in shards:
            emitted.update(map(type, shard.on_symptoms((), facts[-1].observed_at_ns + ns(120))))
        result[f"{step}: CPU s"] = round(time.process_time() - began, 3)
        result[f"{step}: cabling reports"], result[f"{step}: version censuses"] = (
            emitted[CablingReport],
            emitted[VersionCensus],
        )
        if step == "first":
            result["memory MB"] = round(tracemalloc.get_traced_memory()[0] / 1e6, 1)
            tracemalloc.stop()
    began = time.process_time()
    dumps = [orjson.dumps(shard.dump()) for shard in shards]
    result["snapshot: CPU s"] = round(time.process_time() - began, 3)
    result["snapshot: MB"] = round(sum(len(bytes(cramjam.lz4.compress(dump))) for dump in dumps) / 1e6, 2)
    sys.stdout.write(f"{json.dumps(result, indent=1)}\n")


if __name__ == "__main__":
    main()
