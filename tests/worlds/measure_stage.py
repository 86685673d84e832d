"""A measure stage of the small fabric, and the symptoms that it emits."""

from collections.abc import Iterable, Sequence
from typing import Any

import cramjam
import orjson

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.inventory import PortName
from streams.wire.models import (
    Message,
    PortReaders,
    Symptom,
)
from streams.wire.stage import Output
from streams.wire.topics import PORT_STATES, SYMPTOMS
from tests.worlds.small_fabric import inventory, topology

UP, ADMIN, DOWNS, TURNS = Metric.OPER_UP, Metric.ADMIN_UP, Metric.LINK_DOWN_EVENTS, Metric.LINK_TRANSITIONS


def stage() -> Measure:
    """A stage that knows the fabric; `mlx5_0` is another name of p1-h1's e0."""
    made = Measure(DetectParams())
    made.start_epoch(1)
    made.set_topology(topology(inventory(ports=[PortName(device="p1-h1", port="e0", alias="mlx5_0")])))
    return made


def detected(outputs: Iterable[Output]) -> list[Output]:
    """Return the outputs for detection: all but the states of ports, which depend on batches."""
    return [one for one in outputs if one.topic is not PORT_STATES and not isinstance(one.message, PortReaders)]


def symptoms_of(own: Measure, messages: Sequence[Message]) -> list[Symptom]:
    """The symptoms, once each."""
    outputs = [output for message in messages for output in detected(own.process([message]))]
    assert all(output.topic is SYMPTOMS for output in outputs)
    return list(dict.fromkeys(o.message for o in outputs if isinstance(o.message, Symptom)))


def snapshot_head(own: Measure) -> dict[str, Any]:
    """Return the JSON head of a stage's snapshot, which shows what it retains beside the arrays."""
    data = own.snapshot()
    return dict(orjson.loads(bytes(cramjam.lz4.decompress(data[8 : 8 + int.from_bytes(data[:8], "little")]))))
