"""Measures what senders and victims of incasts in other pods cost: messages and CPU time of each throttled link.

`python -m tests.bench.other_pods_cost [--gpus 131072] [--links 131072] [--json]`. The fabric is the largest one
published, with eight jobs of four pods each. So many host ports are throttled by CNPs and send a fraction, and recover
after a minute: two states of each port begin and end. The broker and its clients are not included.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire.models import Message, Source, Symptom
from streams.wire.stage import Output
from streams.wire.symptoms import CnpThrottledBegan, CongestionEnded, CongestionState, Payload, SlowedByCnpBegan
from streams.wire.topics import EPISODES, decode, encode

JOBS = 8
BEGIN_NS = 1_780_000_000 * 10**9
PIPELINE_S_PER_S = 0.0786 * 8.95
"""CPU seconds a second of the whole pipeline at 131,072 GPUs: port-samples by docs/benchmarks.md."""

T = TypeVar("T")


def symptoms_of(topology: Topology, links: int) -> tuple[list[Symptom], list[Symptom]]:
    """Return the begins and the ends of the states of so many ports of hosts."""
    begins: list[Symptom] = []
    ends: list[Symptom] = []
    ports = [link.lower for link in topology.links.values() if topology.devices[link.lower.device].kind == "host"]
    at_ns = BEGIN_NS + ns(60)
    states: dict[CongestionState, Payload] = {
        CongestionState.CNP_THROTTLED: CnpThrottledBegan(BEGIN_NS, 8000),
        CongestionState.SLOWED_BY_CNP: SlowedByCnpBegan(BEGIN_NS, 0.3, 8000),
    }
    for device, port in ports[:links]:
        for state, payload in states.items():
            begins.append(Symptom(device, port, payload, at_ns, source=Source.SOURCE_NIC))
            ended = CongestionEnded(state, at_ns)
            ends.append(Symptom(device, port, ended, at_ns + ns(10), source=Source.SOURCE_NIC))
    return begins, ends


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return a result and the CPU seconds that it took."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def forwarded(outputs: Sequence[Output]) -> list[Message]:
    """Return the messages for `attribute`, as they are after the topic."""
    messages: list[Message] = []
    for output in outputs:
        assert output.message is not None
        record = encode(EPISODES, output.message, key=output.key)
        assert record.value is not None
        messages.append(decode(EPISODES, record.value, record.headers))
    return messages


def main() -> None:
    """Print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=131_072)
    parser.add_argument("--links", type=int, default=131_072)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    topology = Topology(generate(GenerateParams(gpus=options.gpus, jobs=JOBS)))
    correlate, attribute = Correlate(DetectParams()), Attribute(DetectParams())
    correlate.set_topology(topology)
    attribute.set_topology(topology)
    begins, ends = symptoms_of(topology, options.links)
    links = len(begins) // 2
    spent = dict.fromkeys(("correlate", "topic", "attribute", "batch", "snapshot"), 0.0)
    messages = 0
    result: dict[str, Any] = {"gpus": options.gpus, "throttled_links": links}
    for at_ns, symptoms in ((BEGIN_NS + ns(60), begins), (BEGIN_NS + ns(80), ends)):
        outputs, correlate_s = timed(lambda own=symptoms: correlate.process(own))  # type: ignore[misc]
        batch, topic_s = timed(lambda own=outputs: forwarded(own))  # type: ignore[misc]
        _, attribute_s = timed(lambda own=batch: attribute.process(own))  # type: ignore[misc]
        _, batch_s = timed(lambda own=at_ns: attribute.advance_watermark(own))  # type: ignore[misc]
        state, snapshot_s = timed(attribute.snapshot)
        messages += len(batch)
        for name, seconds in zip(spent, (correlate_s, topic_s, attribute_s, batch_s, snapshot_s), strict=True):
            spent[name] += seconds
        result["snapshot_bytes_a_link"] = max(len(state) / links, result.get("snapshot_bytes_a_link", 0))
    result |= {"messages_a_link": messages / links, "us_a_link": {k: 1e6 * v / links for k, v in spent.items()}}
    added_s = spent["topic"] + spent["attribute"] + spent["batch"]
    result["us_a_message"] = 1e6 * added_s / messages
    result["messages_a_second_for_3_percent"] = 0.03 * PIPELINE_S_PER_S / (added_s / messages)
    text = json.dumps(result) if options.json else "\n".join(f"{k:<34}{json.dumps(v)}" for k, v in result.items())
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
