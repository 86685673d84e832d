"""Reads and writes the files between the load generator and the benchmark: specification, fabric arrays, report."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import orjson
from pydantic import TypeAdapter

from lab.world.fabric_arrays import FabricArrays
from streams.wire.models import Condition


@dataclass(frozen=True, slots=True)
class Spec:
    """One run of the load: faults start `warm_s` after its start and lie within `seconds`."""

    config: str
    """The path of the configuration with the login to Kafka."""
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
    is_healthy: bool = False
    """True if no faults are injected."""


@dataclass(frozen=True, slots=True)
class ReportedFault:
    """One fault with a truth as it was played: its kind and place, and the times at which its changes were sent.

    `appended_ns` are the times at which the broker had the event of each change at this port; 0 if there was none.
    """

    kind: str
    condition: Condition
    device: str
    port: str
    at_ns: list[int]
    appended_ns: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Counts of acknowledged messages; `marks` has (time, messages, rows) of samples, about one per second.

    `bytes` counts values before compression; `refused` counts messages that the client gave up.
    """

    done: bool
    began_ns: int
    over_ns: int
    """The end of the last fault."""
    messages: dict[str, int]
    rows: int
    bytes: int
    refused: int
    late_max_s: float
    late_p99_s: float
    marks: list[tuple[int, int, int]]
    faults: list[ReportedFault]
    batches: int = 0


_SPEC, _REPORT = TypeAdapter(Spec), TypeAdapter(LoadReport)


def read_spec(path: Path) -> Spec:
    """Return the specification."""
    return _SPEC.validate_json(path.read_bytes())


def read_report(path: Path) -> LoadReport | None:
    """Return the newest report; None before the first one."""
    return _REPORT.validate_json(path.read_bytes()) if path.exists() else None


def write_spec(spec: Spec, path: Path) -> None:
    """Write the specification."""
    path.write_bytes(orjson.dumps(spec))


def save(fabric: FabricArrays, path: Path) -> None:
    """Write the arrays for the load generator's process."""
    models = list(dict.fromkeys(fabric.ports))
    model_of = {rows: i for i, rows in enumerate(models)}
    content = {
        "devices": fabric.devices,
        "is_host": fabric.is_host,
        "models": models,
        "model": [model_of[rows] for rows in fabric.ports],
        "links": fabric.links,
    }
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY))


def load(path: Path) -> FabricArrays:
    """Read arrays that `save` wrote."""
    content = orjson.loads(path.read_bytes())
    models = [tuple(rows) for rows in content["models"]]
    return FabricArrays(
        tuple(content["devices"]),
        tuple(content["is_host"]),
        tuple(models[i] for i in content["model"]),
        np.array(content["links"], np.int64).reshape(-1, 2),
    )
