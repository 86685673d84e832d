"""The generated code and the plain models equal the .proto files."""

import dataclasses
import subprocess
import sys
from pathlib import Path

from streams.fabric.catalogue import Metric
from streams.wire import codec, symptoms
from streams.wire.v1 import internal_pb2, metric_pb2

ROOT = Path(__file__).parents[3]


def test_generated_code_is_current(tmp_path: Path) -> None:
    """A change of a .proto file includes the generated code (`make proto`)."""
    subprocess.run([sys.executable, ROOT / "proto/generate.py", "--check", tmp_path], check=True)
    fresh = {p.relative_to(tmp_path): p.read_text() for p in tmp_path.rglob("*.py*")}
    assert Path("streams/wire/v1/messages.py") in fresh
    assert {path: (ROOT / path).read_text() for path in fresh} == fresh


def test_every_metric_has_its_number_and_a_spec() -> None:
    """The metrics of the catalogue have the numbers of metric.proto, and each has a kind and a unit."""
    numbers = {name: number for name, number in metric_pb2.Metric.items() if number}
    assert {metric.name: int(metric) for metric in Metric} == numbers


def test_every_enum_that_is_written_by_hand_equals_that_of_the_wire() -> None:
    """Names and numbers are equal on both sides, without the zero: a message that leaves the enum out is rejected."""
    pairs = {
        symptoms.PortChange: internal_pb2.PortTransition.Change,
        symptoms.Fault: internal_pb2.PortFault.Fault,
        symptoms.PauseDirection: internal_pb2.PauseBegan.Direction,
        symptoms.IncastReason: internal_pb2.IncastBegan.Reason,
        symptoms.CongestionState: internal_pb2.CongestionEnded.State,
    }
    for ours, theirs in pairs.items():
        assert {item.name: item.value for item in ours} == {k: v for k, v in theirs.items() if v}, ours


def test_every_field_of_the_wire_is_in_the_model() -> None:
    """A field of a .proto file without a field in the model would be lost."""
    for model, message in codec._CLASSES.items():
        own = {field.name for field in dataclasses.fields(model)}
        stems = {name.removesuffix("_ns") for name in own}
        wire = set(message.DESCRIPTOR.fields_by_name)
        for oneof in message.DESCRIPTOR.oneofs_by_name.values():
            if oneof.name in own:
                wire -= {field.name for field in oneof.fields}
        assert {name for name in wire if name not in own and name not in stems} == set(), model
