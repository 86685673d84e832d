"""host/gpu-fault: negative cases first, then the driver's reports of a GPU, and how a fault ends."""

import random
import re
from pathlib import Path

import pytest

from lab.constants import with_constants
from streams.decide.params import DecideParams
from streams.detect.detectors.host_gpu_fault import Grade, grade
from streams.detect.params import DetectParams
from streams.wire.models import (
    Action,
    Cause,
    Event,
    EventKind,
    Finding,
    Message,
    Remediation,
    Severity,
    Status,
    Verdict,
)
from tests.worlds.host_world import GPUS, HOST, RECOVERED, pcie, xid
from tests.worlds.live_stages import final_findings, in_order, run, shuffled
from tests.worlds.measure_stage import UP
from tests.worlds.observations import after, at, samples
from tests.worlds.small_fabric import topology
from tests.worlds.small_world import findings, play

GPU = f"p1-h1/{GPUS[0]}"
PAGE = Path(__file__).parents[3] / "docs/detectors/host.md"


def beats(until: float, boots: float = 1e9) -> list[Message]:
    """The host is read, so that time goes on; from `boots` on it is in another life."""
    return [
        samples("p1-h1", t, {UP: {"e0": 1}}, source=HOST, boot_id=1 + (t >= boots), sequence=t)
        for t in range(0, int(until), 20)
    ]


def found(*emitted: Message, until: float = 1200, boots: float = 1e9) -> list[Finding]:
    """Return the final findings."""
    return [f for f in findings(play([*beats(until, boots), *emitted])) if f.detector == "host/gpu-fault"]


def words(t: float, detail: str, port: str = GPUS[0]) -> Event:
    """A line of the driver without an Xid."""
    return Event("p1-h1", port, EventKind.LOG, at(t), at(t), HOST, detail=detail)


NOTHING: dict[str, list[Message]] = {
    "a page fault of the program": [xid(GPU, 100, 31)],
    "an exception of the program": [xid(GPU, 100, 13), xid(GPU, 101, 43), xid(GPU, 102, 45)],
    "a recovery action alone": [xid(GPU, 100, 154), xid(GPU, 200, RECOVERED)],
    "some other line about a GPU": [words(100, "nvidia 0000:1b:00.0: enabling device")],
    "a line that names no GPU": [words(100, "NVRM: GPU has fallen off the bus", port="")],
    "a code that is no Xid": [xid(GPU, 100, -1), xid(GPU, 200, 1 << 32)],
    "a count that is met first": [pcie("p1-h1", 100, {}, ecc={GPUS[0]: 7})],
    "a count that stands still": [pcie("p1-h1", t, {}, ecc={GPUS[0]: 7}, sequence=t) for t in (100, 110, 120)],
    "a count that restarts": [pcie("p1-h1", t, {}, ecc={GPUS[0]: n}, sequence=t) for t, n in ((100, 7), (110, 0))],
}


@pytest.mark.parametrize("emitted", NOTHING.values(), ids=list(NOTHING))
def test_what_is_no_fault_of_the_gpu(emitted: list[Message]) -> None:
    """Programs that fail, counts that do not grow, and Xids for information."""
    assert found(*emitted) == []


@pytest.mark.parametrize(
    ("code", "severity", "cause"),
    [
        (63, Severity.WARNING, Cause.GPU_MEMORY),
        (92, Severity.WARNING, Cause.GPU_MEMORY),
        (94, Severity.WARNING, Cause.GPU_MEMORY),
        (61, Severity.WARNING, Cause.GPU),
        (999, Severity.WARNING, Cause.GPU),
        (48, Severity.CRITICAL, Cause.GPU_MEMORY),
        (95, Severity.CRITICAL, Cause.GPU_MEMORY),
        (74, Severity.CRITICAL, Cause.NVLINK),
        (145, Severity.CRITICAL, Cause.NVLINK),
        (119, Severity.CRITICAL, Cause.GPU),
        (79, Severity.CRITICAL, Cause.GPU_OFF_BUS),
    ],
)
def test_the_xid_determines_the_severity(code: int, severity: Severity, cause: Cause) -> None:
    """Corrected, contained and unknown warn; uncorrectable and off the bus are critical (DETECTION 3a)."""
    (own,) = found(xid(GPU, 100, code))
    assert (own.severity, own.cause, after(own.started_at_ns)) == (severity, cause, 100)
    assert (own.subject.id, own.blast_radius and own.blast_radius.gpus) == (f"port:{GPU}", 1)


@pytest.mark.parametrize(
    ("published", "code"),
    [
        ("NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.", 79),
        ("NVRM: GPU 0000:1b:00.0: RmInitAdapter failed! (0x24:0xffff)", 143),
    ],
)
def test_driver_messages_are_equivalent_to_an_xid(published: str, code: int) -> None:
    """A GPU that disappears before the driver logs its Xid is off the bus as well."""
    (own,) = found(words(100, published))
    assert own.severity is Severity.CRITICAL
    assert f"Xid {code}" in own.summary


def test_counted_errors_are_a_fault_without_a_log() -> None:
    """The kernel log may be unreadable; the counter still grows."""
    (own,) = found(*(pcie("p1-h1", t, {}, ecc={GPUS[0]: n}, sequence=t) for t, n in ((100, 7), (110, 9))))
    assert (own.severity, own.evidence[0].observed, after(own.started_at_ns)) == (Severity.WARNING, 2, 110)


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_counts_within_the_lateness_changes_nothing(seed: int) -> None:
    """A late reading in between divides the growth of two readings, which is not counted twice."""
    chance, count, emitted = random.Random(seed), 7, list[Message](beats(1500))
    for t in range(0, 1500, 10):
        count += chance.randrange(3) * (100 < t < 300 and chance.random() < 0.3)
        emitted.append(pcie("p1-h1", t, {}, ecc={GPUS[0]: count}, sequence=t))
    arrived = shuffled(emitted, 18, chance, keep_order=False)
    assert final_findings(run(arrived, topology())) == final_findings(run(in_order(emitted), topology())) != []


def test_the_gravest_of_several_names_it() -> None:
    """A contained error, then the GPU is gone: one finding, CRITICAL from then on, with its first beginning."""
    published = [f for f in play([*beats(600), xid(GPU, 100, 94), xid(GPU, 160, 79)]) if isinstance(f, Finding)]
    assert len({f.id for f in published}) == 1
    assert [f.severity for f in published] == [Severity.WARNING, Severity.CRITICAL]
    assert after(published[-1].started_at_ns) == 100
    assert [e.statement for e in published[-1].evidence] == [
        "Xid 79, it has fallen off the bus", "Xid 94, contained ECC error",
    ]  # fmt: skip


ENDS: dict[str, tuple[list[Message], float, float | None]] = {
    "a restart of the host": ([xid(GPU, 100, 79)], 400, 400),
    "the driver's recovery message": ([xid(GPU, 100, 95), xid(GPU, 300, RECOVERED)], 1e9, 300),
    "an hour of quiet after what was contained": ([xid(GPU, 100, 94)], 1e9, 100),
    "nothing, while it needs a reset": ([xid(GPU, 100, 48)], 1e9, None),
}


@pytest.mark.parametrize(("emitted", "boots", "over"), ENDS.values(), ids=list(ENDS))
def test_it_is_over_by(emitted: list[Message], boots: float, over: float | None) -> None:
    """A contained error resolves by itself; a fault that needs a reset does not."""
    (own,) = found(*emitted, until=4000, boots=boots)
    assert after(own.resolved_at_ns) == over
    assert own.final is (over is not None)
    assert own.status is (Status.RESOLVED if over is not None else Status.OPEN)


def test_a_fault_after_the_restart_is_another() -> None:
    """The GPU is off the bus again in the next boot: a second finding, and a second occurrence."""
    first, second = found(xid(GPU, 100, 79), xid(GPU, 500, 79), boots=400)
    assert (after(first.resolved_at_ns), after(second.resolved_at_ns)) == (400, None)
    assert (first.occurrences, second.occurrences) == (1, 2)


def test_no_host_is_taken_out_without_a_person() -> None:
    """CRITICAL asks to cordon it, and that needs an approval; a warning is observed."""
    act = with_constants(DecideParams, freshness_s=1e9)(mode="act")
    published = play([*beats(600), xid(GPU, 100, 79), xid(f"p1-h2/{GPUS[1]}", 100, 94)], decide=act)
    asked = {one.target.id: one for one in published if isinstance(one, Remediation)}
    grave, mild = asked["device:p1-h1"], asked[f"port:p1-h2/{GPUS[1]}"]
    assert (grave.action, grave.verdict, grave.constraint) == (Action.CORDON_HOST, Verdict.NEEDS_APPROVAL, "job")
    assert mild.action is Action.OBSERVE


def test_a_driver_that_repeats_itself_keeps_state_bounded() -> None:
    """A thousand Xids are one finding that keeps its id and its beginning."""
    published = found(*(xid(GPU, 100 + t, 94) for t in range(1000)))
    assert len(published) == 1
    assert (after(published[0].started_at_ns), after(published[0].evidence[0].window_end_ns)) == (100, 1099)


def test_the_page_lists_each_xid_where_the_code_grades_it() -> None:
    """Every number in the page's table, in the row of its grade."""
    names = {"off the bus": Grade.OFF_BUS, "uncorrectable": Grade.UNCORRECTABLE, "contained": Grade.CONTAINED,
             "corrected": Grade.CORRECTED, "caused by the application": Grade.NONE}  # fmt: skip
    listed: dict[int, Grade] = {}
    for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        for known_grade in (g for name, g in names.items() if row[0].startswith(name)):
            for first, last in re.findall(r"(\d+)(?: to (\d+))?", row[1]):
                listed |= dict.fromkeys(range(int(first), int(last or first) + 1), known_grade)
    known = {code: grade(code) for code in range(1, 200) if grade(code) is not Grade.UNKNOWN}
    assert listed == known


def test_a_reset_has_a_longer_quiet_time() -> None:
    """A fault that needs a reset stays open longer than one that does not."""
    own = DetectParams().gpu
    assert own.quiet_s < own.reset_quiet_s
