"""The generated code and the plain models equal the .proto files."""

import dataclasses
import subprocess
import sys
from pathlib import Path

from streams.fabric.catalogue import Metric
from streams.wire import codec, models, symptoms
from streams.wire.v1 import findings_pb2, internal_pb2, metric_pb2, telemetry_pb2

ROOT = Path(__file__).parents[3]


def test_generated_code_is_current(tmp_path: Path) -> None:
    """A change of a .proto file includes the generated code (`make proto`)."""
    subprocess.run([sys.executable, ROOT / "proto/generate.py", "--check", tmp_path], check=True)
    fresh = {p.relative_to(tmp_path): p.read_text() for p in tmp_path.rglob("*_pb2*")}
    assert fresh
    assert {path: (ROOT / path).read_text() for path in fresh} == fresh


def test_every_metric_has_its_number_and_a_spec() -> None:
    """The metrics of the catalogue have the numbers of metric.proto, and each has a kind and a unit."""
    numbers = {name: number for name, number in metric_pb2.Metric.items() if number}
    assert {metric.name: int(metric) for metric in Metric} == numbers


def test_every_enum_of_the_wire_equals_the_model() -> None:
    """Names and numbers are equal on both sides."""
    pairs = {
        models.Source: telemetry_pb2.Source,
        models.RowKind: telemetry_pb2.RowKind,
        models.EventKind: telemetry_pb2.Event.Kind,
        models.Condition: findings_pb2.Finding.Condition,
        models.Severity: findings_pb2.Finding.Severity,
        models.Status: findings_pb2.Finding.Status,
        models.Action: findings_pb2.Remediation.Action,
        models.Verdict: findings_pb2.Remediation.Verdict,
        models.RemediationState: findings_pb2.RemediationState,
        models.Outcome: findings_pb2.RemediationResult.Outcome,
        models.ControlKind: findings_pb2.Control.Kind,
    }
    for ours, theirs in pairs.items():
        assert {item.name: item.value for item in ours} == dict(theirs.items()), ours
    required = {
        models.PeerGroup: internal_pb2.PeerWindow.Group,
        symptoms.PortChange: internal_pb2.PortTransition.Change,
        symptoms.PauseDirection: internal_pb2.PauseBegan.Direction,
        symptoms.IncastReason: internal_pb2.IncastBegan.Reason,
        symptoms.CongestionState: internal_pb2.CongestionEnded.State,
    }
    for ours, theirs in required.items():  # a message that leaves it out is rejected
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
