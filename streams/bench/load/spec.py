"""What the load generator is asked, and what it says: the two files between it and the benchmark."""

from dataclasses import dataclass
from pathlib import Path

import orjson
from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class Spec:
    """One run of the load: faults begin `warm_s` after its start and fall into `seconds`."""

    bootstrap: str
    fabric_path: str
    report_path: str
    partitions: int
    cadence_s: float
    warm_s: float
    seconds: float
    seed: int
    compression: str
    slot_s: float
    senders: int


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One fault as it happened: what, where, and when its changes were sent."""

    kind: str
    device: str
    port: str
    at_ns: list[int]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What Kafka has of the load by now; `marks` are (time, messages, rows) of samples about each second.

    `bytes` are those of values before compression; `refused` messages were given up by the client.
    """

    done: bool
    began_ns: int
    over_ns: int
    """When the last fault ends."""
    messages: dict[str, int]
    rows: int
    bytes: int
    refused: int
    late_max_s: float
    late_p99_s: float
    marks: list[tuple[int, int, int]]
    faults: list[InjectedFault]
    batches: int = 0


_SPEC, _SENT = TypeAdapter(Spec), TypeAdapter(LoadReport)


def read_spec(path: Path) -> Spec:
    """What was asked."""
    return _SPEC.validate_json(path.read_bytes())


def read_report(path: Path) -> LoadReport | None:
    """What was said last, None before anything was."""
    return _SENT.validate_json(path.read_bytes()) if path.exists() else None


def write_spec(spec: Spec, path: Path) -> None:
    """Ask."""
    path.write_bytes(orjson.dumps(spec))
