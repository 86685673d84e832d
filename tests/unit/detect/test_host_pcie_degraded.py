"""host/pcie-degraded: links of NICs and GPUs that trained low; what is not that comes first."""

from collections.abc import Mapping

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.wire.models import Cause, Finding, Message, Samples, Severity, Status, Symptom
from streams.wire.symptoms import PcieLinkState, SymptomKind
from tests.worlds.host_world import FULL, GPUS, Pcie, pcie
from tests.worlds.measure_stage import detected
from tests.worlds.observations import after
from tests.worlds.small_world import findings, play

NARROW, SLOW, IDLE = (8.0, 32.0), (16.0, 16.0), (16.0, 2.5)
NICS = tuple(f"mlx5_{n}" for n in range(8))


def nics(t: float, **links: Pcie | None) -> Samples:
    """Return one reading of eight NICs, at full width unless given."""
    return pcie("p1-h1", t, {**dict.fromkeys(NICS, FULL), **links}, sequence=round(t))


def gpus(t: float, links: Mapping[str, Pcie | None], busy: float | None) -> Samples:
    """Return one reading of eight GPUs, at full width unless given; None: their utilization is unknown."""
    published = {} if busy is None else dict.fromkeys(GPUS, busy)
    return pcie("p1-h1", t, {**dict.fromkeys(GPUS, FULL), **links}, busy=published, sequence=round(t) + 1)


def found(*emitted: Message) -> list[Finding]:
    """Return the final findings."""
    return findings(play(emitted))


ROUNDS = range(0, 600, 10)
NOTHING: dict[str, list[Message]] = {
    "all is full": [nics(t) for t in ROUNDS],
    "a GPU that idles": [gpus(t, {GPUS[0]: IDLE}, 0.0) for t in ROUNDS],
    "all GPUs idle": [gpus(t, dict.fromkeys(GPUS, IDLE), 0.0) for t in ROUNDS],
    "a GPU of unknown utilization": [gpus(t, {GPUS[0]: IDLE}, None) for t in ROUNDS],
    "a GPU that is still slow as it wakes": [gpus(t, {GPUS[0]: IDLE if t % 100 < 30 else FULL}, 0.9) for t in ROUNDS],
    "a machine that is set up so": [nics(t, **dict.fromkeys(NICS, SLOW)) for t in ROUNDS],
    "five of eight slots wired for less": [nics(t, **dict.fromkeys(NICS[:5], NARROW)) for t in ROUNDS],
    "one that retrains for half a minute": [nics(t, mlx5_3=NARROW if 100 <= t < 130 else FULL) for t in ROUNDS],
    "one that is gone": [nics(t, mlx5_3=None if t >= 100 else FULL) for t in ROUNDS],
    "the only one, full": [pcie("p1-h1", t, {"mlx5_0": FULL}, sequence=t) for t in ROUNDS],
    "two alike": [pcie("p1-h1", t, {"mlx5_0": SLOW, "mlx5_1": SLOW}, sequence=t) for t in ROUNDS],
}


@pytest.mark.parametrize("emitted", NOTHING.values(), ids=list(NOTHING))
def test_what_is_no_degraded_link(emitted: list[Message]) -> None:
    """Power saving, the configuration of a machine, retraining, and missing components."""
    assert found(*emitted) == []


LOW: dict[str, tuple[list[Message], str, Cause]] = {
    "a NIC with half its lanes": ([nics(t, mlx5_3=NARROW) for t in ROUNDS], "mlx5_3", Cause.PCIE_WIDTH),
    "a NIC at half its speed": ([nics(t, mlx5_3=SLOW) for t in ROUNDS], "mlx5_3", Cause.PCIE_SPEED),
    "a GPU at work": ([gpus(t, {GPUS[5]: NARROW}, 0.9) for t in ROUNDS], GPUS[5], Cause.PCIE_WIDTH),
    "the only NIC": ([pcie("p1-h1", t, {"mlx5_0": NARROW}, sequence=t) for t in ROUNDS], "mlx5_0", Cause.PCIE_WIDTH),
    "one of two": (
        [pcie("p1-h1", t, {"mlx5_0": FULL, "mlx5_1": NARROW}, sequence=t) for t in ROUNDS], "mlx5_1", Cause.PCIE_WIDTH),
    "one lower than the others, which are set up so": (
        [nics(t, **{**dict.fromkeys(NICS, SLOW), "mlx5_2": (8.0, 16.0)}) for t in ROUNDS], "mlx5_2", Cause.PCIE_WIDTH),
}  # fmt: skip


@pytest.mark.parametrize(("emitted", "part", "cause"), LOW.values(), ids=list(LOW))
def test_what_is(emitted: list[Message], part: str, cause: Cause) -> None:
    """It opens after a minute, names the part, and its cause is width or speed."""
    (own,) = found(*emitted)
    assert (own.detector, own.subject.id, own.cause) == ("host/pcie-degraded", f"port:p1-h1/{part}", cause)
    assert (after(own.started_at_ns), after(own.detected_at_ns), own.status) == (0, 60, Status.OPEN)
    assert own.severity is Severity.WARNING


def test_it_is_over_once_it_was_full_for_a_minute() -> None:
    """Resolved at its first full reading, which is known a minute later, and final after the lateness."""
    (own,) = found(*(nics(t, mlx5_3=NARROW if 100 <= t < 300 else FULL) for t in ROUNDS))
    assert (after(own.started_at_ns), after(own.resolved_at_ns), own.final) == (100, 300, True)


def test_one_that_trains_up_and_down_is_one_finding() -> None:
    """Full for 30 s out of every 100: one episode from the first to the last."""
    (own,) = found(*(nics(t, mlx5_3=FULL if t % 100 < 30 else NARROW) for t in range(0, 1000, 10)), nics(1010))
    assert (after(own.started_at_ns), own.occurrences) == (30, 1)


def test_a_gpu_that_falls_idle_stays_what_it_was() -> None:
    """Low at work, then idle: neither better nor worse is known of it, so its finding stays open."""
    emitted = [gpus(t, {GPUS[5]: NARROW}, 0.9) for t in range(0, 200, 10)]
    emitted += [gpus(t, dict.fromkeys(GPUS, IDLE), 0.0) for t in range(200, 600, 10)]
    (own,) = found(*emitted)
    assert own.status is Status.OPEN


def test_only_changes_are_emitted() -> None:
    """Sixty readings of a low link are one symptom; a repeated message is none."""
    stage = Measure(DetectParams())
    messages = [m for t in ROUNDS for m in (nics(t, mlx5_3=NARROW),) * 2] + [nics(600)]
    emitted = [o.message for m in messages for o in detected(stage.process([m]))]
    assert [(s.kind, s.port, _permille(s)) for s in emitted if isinstance(s, Symptom)] == [
        (SymptomKind.PCIE_DEGRADED, "mlx5_3", 500), (SymptomKind.PCIE_RESTORED, "mlx5_3", 1000),
    ]  # fmt: skip


LATE: dict[str, tuple[list[Message], list[tuple[SymptomKind, float, int]]]] = {
    "low earlier than it seemed": (
        [nics(0), nics(20, mlx5_3=NARROW), nics(10, mlx5_3=NARROW)],
        [(SymptomKind.PCIE_DEGRADED, 20, 500), (SymptomKind.PCIE_DEGRADED, 10, 500)]),
    "low between two that are full": (
        [nics(0), nics(20), nics(10, mlx5_3=NARROW)],
        [(SymptomKind.PCIE_DEGRADED, 10, 500), (SymptomKind.PCIE_RESTORED, 20, 1000)]),
    "full between two that are low": (
        [nics(0, mlx5_3=NARROW), nics(20, mlx5_3=NARROW), nics(10)],
        [(SymptomKind.PCIE_DEGRADED, 0, 500), (SymptomKind.PCIE_RESTORED, 10, 1000),
         (SymptomKind.PCIE_DEGRADED, 20, 500)]),
    "the first of all, and low": (
        [nics(10, mlx5_3=NARROW), nics(0, mlx5_3=NARROW)],
        [(SymptomKind.PCIE_DEGRADED, 10, 500), (SymptomKind.PCIE_DEGRADED, 0, 500)]),
    "as its like": ([nics(0), nics(20), nics(10, **dict.fromkeys(NICS, SLOW))], []),
    "too late": ([nics(0), nics(10), nics(20), nics(60), nics(5, mlx5_3=NARROW)], []),
    "a GPU's": ([gpus(0, {}, 0.9), gpus(20, {}, 0.9), gpus(10, {GPUS[5]: NARROW}, 0.9)], []),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "published"), LATE.values(), ids=list(LATE))
def test_symptoms_of_a_late_reading(messages: list[Message], published: list[tuple[SymptomKind, float, int]]) -> None:
    """It shows what it would have shown in time, where the readings beside it are known, and only once."""
    stage = Measure(DetectParams())
    emitted = [o.message for m in (*messages, messages[-1]) for o in detected(stage.process([m]))]
    assert [(s.kind, after(s.at_ns), _permille(s)) for s in emitted if isinstance(s, Symptom)] == published


def _permille(symptom: Symptom) -> int:
    assert isinstance(symptom.payload, PcieLinkState)
    return round(symptom.payload.capacity_ratio * 1000)
