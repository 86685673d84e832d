"""host/thermal-throttle: GPUs and modules at their limit; the table of what must not fire comes first."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import Cause, Finding, Message, RowKind, Samples, Severity, Status, Symptom
from streams.wire.symptoms import SymptomKind
from tests.worlds.host_world import FULL, GPUS, HOST, pcie
from tests.worlds.measure_stage import detected
from tests.worlds.observations import after, samples
from tests.worlds.small_fabric import topology
from tests.worlds.small_world import findings, play

COOL, HOT = 62.0, 91.0
NICS = tuple(f"mlx5_{n}" for n in range(8))
ROUNDS = range(0, 600, 10)


def gpus(t: float, celsius: Mapping[int, float] | None = None, count: int = 8) -> Samples:
    """Return one reading of a host's GPUs, 62 °C unless given by their number."""
    own = GPUS[:count]
    read = dict.fromkeys(own, COOL) | {GPUS[number]: value for number, value in (celsius or {}).items()}
    busy = dict.fromkeys(own, 0.97)
    return pcie("p1-h1", t, dict.fromkeys(own, FULL), busy=busy, celsius=read, sequence=round(t) + 1)


def modules(device: str, t: float, celsius: Mapping[str, float]) -> Samples:
    """Return one reading of the modules of a device's ports."""
    read = samples(device, t, {Metric.MODULE_TEMPERATURE_C: dict(celsius)}, source=HOST, sequence=round(t) + 1)
    return replace(read, row_kind=RowKind.ROW_KIND_PORT)


def found(*emitted: Message) -> list[Finding]:
    """Return the final findings."""
    return findings(play(emitted))


NOTHING: dict[str, list[Message]] = {
    "all are cool": [gpus(t) for t in ROUNDS],
    "all are hot: the room": [gpus(t, dict.fromkeys(range(8), HOT)) for t in ROUNDS],
    "five of eight are hot": [gpus(t, dict.fromkeys(range(5), HOT)) for t in ROUNDS],
    "just below the limit": [gpus(t, {3: 84.9}) for t in ROUNDS],
    "at the limit, beside others that are nearly as hot": [
        gpus(t, dict.fromkeys(range(8), 80.0) | {3: 86.0}) for t in ROUNDS
    ],
    "hot for half a minute": [gpus(t, {3: HOT if 100 <= t < 130 else COOL}) for t in ROUNDS],
    "one GPU without two peers": [gpus(t, {1: HOT}, count=2) for t in ROUNDS],
    "a module at 75 °C": [modules("p1-h1", t, dict.fromkeys(NICS, 50.0) | {"mlx5_3": 75.0}) for t in ROUNDS],
    "a module of a switch": [
        modules("p1-l0", t, {f"d{n}": 50.0 for n in range(4)} | {"d1": HOT}) for t in ROUNDS
    ],
    "a gauge that is absent": [gpus(t, {3: float("nan")}) for t in ROUNDS],
}  # fmt: skip


@pytest.mark.parametrize("emitted", NOTHING.values(), ids=list(NOTHING))
def test_what_does_not_fire(emitted: list[Message]) -> None:
    """Warm rooms, short peaks, parts without peers, and modules of switches."""
    assert found(*emitted) == []


def test_a_gpu_at_its_limit_opens_after_a_minute() -> None:
    """It names the GPU, its temperature and its peers'."""
    (own,) = found(*(gpus(t, {3: HOT if t >= 100 else COOL}) for t in ROUNDS))
    assert (own.detector, own.subject.id) == ("host/thermal-throttle", f"port:p1-h1/{GPUS[3]}")
    assert (after(own.started_at_ns), after(own.detected_at_ns), own.status) == (100, 160, Status.OPEN)
    assert (own.cause, own.severity) == (Cause.GPU, Severity.WARNING)
    (evidence,) = own.evidence[:1]
    assert (evidence.observed, evidence.expected, evidence.metric) == (HOT, 85.0, "gpu_temperature_c")
    assert "62 °C" in evidence.statement


def test_a_module_at_its_limit_is_found() -> None:
    """Its cause is the module."""
    (own,) = found(*(modules("p1-h1", t, dict.fromkeys(NICS, 50.0) | {"mlx5_3": 84.0}) for t in ROUNDS))
    assert (own.subject.id, own.cause) == ("port:p1-h1/mlx5_3", Cause.OPTIC)


def test_it_resolves_once_the_part_has_been_cool_for_two_minutes() -> None:
    """At its first cool reading, and final after the lateness."""
    (own,) = found(*(gpus(t, {3: HOT if 100 <= t < 300 else COOL}) for t in ROUNDS))
    assert (after(own.started_at_ns), after(own.resolved_at_ns), own.final) == (100, 300, True)


def test_a_part_that_throttles_and_recovers_in_turn_is_one_finding() -> None:
    """Cool for 60 s out of every 160: one episode from the first to the last."""
    (own,) = found(*(gpus(t, {3: COOL if t % 160 < 60 else HOT}) for t in range(0, 1600, 10)), gpus(1610))
    assert (after(own.started_at_ns), own.occurrences) == (60, 1)


def test_a_silent_host_keeps_its_finding_open() -> None:
    """Missing data is not a cool part."""
    emitted = [gpus(t, {3: HOT}) for t in range(0, 300, 10)]
    own = next(f for f in found(*emitted) if f.detector == "host/thermal-throttle")
    assert own.status is Status.OPEN


def test_only_changes_are_emitted() -> None:
    """Sixty readings of a hot GPU are one symptom; a repeated message is none."""
    stage = Measure(DetectParams())
    stage.set_topology(topology())
    messages = [m for t in ROUNDS for m in (gpus(t, {3: HOT}),) * 2] + [gpus(600)]
    emitted = [output.message for m in messages for output in detected(stage.process([m]))]
    assert [(s.kind, s.port) for s in emitted if isinstance(s, Symptom)] == [
        (SymptomKind.LEVEL_BEYOND_LIMIT, GPUS[3]), (SymptomKind.LEVEL_WITHIN_LIMIT, GPUS[3]),
    ]  # fmt: skip
