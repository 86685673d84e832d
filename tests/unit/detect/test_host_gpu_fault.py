"""host/gpu-fault: negative cases first, then the driver's reports of a GPU, and how a fault ends."""

import re
from pathlib import Path

import pytest

from lab.constants import with_constants
from streams.decide.params import DecideParams
from streams.detect.detectors.host_gpu_fault.xids import Grade, catalogue, grade, report
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
from tests.worlds.measure_stage import UP
from tests.worlds.observations import after, at, samples
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


LINK = "XC0 i0 Link"
NOTHING: dict[str, list[Message]] = {
    "a page fault of the program": [xid(GPU, 100, 31)],
    "an exception of the program": [xid(GPU, 100, 13), xid(GPU, 101, 43), xid(GPU, 102, 45)],
    "a recovery action alone": [xid(GPU, 100, 154), xid(GPU, 200, RECOVERED)],
    "an NVLink error that the catalog ignores": [
        xid(GPU, 100, 145, f"RLW_RXPIPE Nonfatal {LINK} 13 (0x0409a0c2 0x00000008 0x00000001)"),
        xid(GPU, 200, 149, f"NETIR_LINK_EVT Fatal {LINK} 00 (0x026001c6 0x00000000 0x00000000)"),
    ],
    "codes that the catalog ignores": [xid(GPU, 100, code) for code in (108, 160, 161, 162)],
    "a reset of AMD's driver that succeeded": [words(100, "amdgpu 0000:68:00.0: amdgpu: GPU reset(2) succeeded!")],
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
        (145, Severity.WARNING, Cause.NVLINK),
        (163, Severity.WARNING, Cause.GPU),
        (172, Severity.WARNING, Cause.GPU_MEMORY),
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


LINES: dict[str, tuple[int, str, Severity, str]] = {
    "a fatal status": (
        144, f"SAW_MVB Fatal {LINK} 00 (0x21 0x2 0x0 0x0)", Severity.CRITICAL, "NVLink error, fatal in SAW_MVB",
    ),
    "one bit of a status": (145, f"RLW_REMAP Fatal {LINK} 00 (0x82 0x140 0x0)", Severity.CRITICAL, "in RLW_REMAP"),
    "a fault of the peer": (
        149, f"NETIR_LINK_EVT  Fatal   {LINK} 00 (0x025001c6 0x00000000)", Severity.CRITICAL, "in NETIR_LINK_EVT",
    ),
    "after the process": (
        145, "pid=4, name=<unknown>, RLW_SRC_TRACK Fatal XC0 i1 Link 00 (0x1 0x10)", Severity.CRITICAL, "RLW_SRC_TRACK",
    ),
    "promoted to fatal": (145, f"RLW_RXPIPE Fatal {LINK} 13 (0x4c2 0x1)", Severity.CRITICAL, "fatal in RLW_RXPIPE"),
    "a unit without a row": (147, f"NEW_UNIT Fatal {LINK} 00 (0x1 0x1)", Severity.CRITICAL, "fatal in NEW_UNIT"),
    "nonfatal with a status of resets": (
        145, f"RLW_REMAP Nonfatal {LINK} 00 (0x82 0x40)", Severity.WARNING, "nonfatal in RLW_REMAP",
    ),
    "one that Xid 154 decides": (145, f"RLW_SRC_TRACK Nonfatal {LINK} 12 (0x0 0x8)", Severity.WARNING, "RLW_SRC_TRACK"),
    "bit errors": (149, f"NETIR_BER_EVENT Nonfatal {LINK} 03 (0x00086226 0x1)", Severity.WARNING, "check its cable"),
    "the watchdog": (150, f"MSE_WATCHDOG Fatal {LINK} 00 (0x0 0x0)", Severity.CRITICAL, "fatal in MSE_WATCHDOG"),
    "a reboot that is required": (
        154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", Severity.CRITICAL,
        "the driver asks for: Node Reboot Required",
    ),
    "a drain that is required": (
        154, "GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", Severity.WARNING, "Drain P2P",
    ),
    "an action of a later driver": (
        154, "GPU recovery action changed from 0x0 (None) to 0x9 (Something Else)", Severity.WARNING, "Something Else",
    ),
    "a code of a later driver": (210, "text", Severity.WARNING, "Xid 210, which is unknown to the catalog of 20"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "detail", "severity", "headline"), LINES.values(), ids=list(LINES))
def test_the_words_of_a_line_grade_it_first(code: int, detail: str, severity: Severity, headline: str) -> None:
    """Fatal and Nonfatal, the status, the recovery action; the code alone decides no cordon then."""
    (own,) = found(xid(GPU, 100, code, detail))
    assert own.severity is severity and headline in own.summary


@pytest.mark.parametrize(
    ("line", "severity", "headline"),
    [
        ("amdgpu 0000:68:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!", Severity.CRITICAL,
         "uncorrectable hardware errors"),
        ("amdgpu 0000:68:00.0: amdgpu: socket: 0, die: 1, 2 new uncorrectable hardware errors detected in umc block",
         Severity.CRITICAL, "2 uncorrectable hardware errors"),
        ("amdgpu 0000:68:00.0: amdgpu: socket: 0, die: 1, 2 new deferred hardware errors detected in umc block",
         Severity.WARNING, "2 deferred hardware errors"),
        ("amdgpu 0000:68:00.0: amdgpu: GPU reset(2) failed", Severity.CRITICAL, "its reset failed"),
        ("amdgpu 0000:68:00.0: amdgpu: GPU reset end with ret = -110", Severity.CRITICAL, "its reset failed"),
        ("amdgpu 0000:68:00.0: amdgpu: GPU reset begin!", Severity.WARNING, "the driver resets it"),
    ],
)  # fmt: skip
def test_amds_driver_has_no_xids(line: str, severity: Severity, headline: str) -> None:
    """Its lines are graded by their text; a reset that succeeds ends the fault."""
    (own,) = found(words(100, line))
    assert own.severity is severity and own.summary.endswith(headline)
    (own,) = found(words(100, line), words(130, "amdgpu 0000:68:00.0: amdgpu: GPU reset(2) succeeded!"))
    assert after(own.resolved_at_ns) == 130


def test_a_code_ends_the_one_that_it_cancels_and_no_other() -> None:
    """Power smoothing engages again (162) after its loss (163); a fault of memory stays."""
    (own,) = found(xid(GPU, 100, 163), xid(GPU, 200, 162))
    assert after(own.resolved_at_ns) == 200
    (own,) = found(xid(GPU, 100, 163), xid(GPU, 110, 48), xid(GPU, 200, 162))
    assert own.resolved_at_ns is None and own.severity is Severity.CRITICAL


def test_the_catalog_is_data_with_a_source_and_a_date() -> None:
    """Each row is found by its own words, and no code has two actions."""
    known = catalogue()
    assert known.source.startswith("https://") and known.date.year >= 2026
    codes = [code for listed in known.actions.values() for code in listed]
    assert len(set(codes)) == len(codes) and not set(codes) & {row.code for row in known.lines}
    grades = {"IGNORE": Grade.NONE, "RESET_GPU": Grade.UNCORRECTABLE, "XID_154_EVAL": Grade.CONTAINED,
              "INVESTIGATE_CABLE": Grade.CORRECTED}  # fmt: skip
    for row in known.lines:
        for info, status in [(r << 20, 0) for r in row.reasons] or [(0, s) for s in row.statuses] or [(0, 0)]:
            words_of_it = f"{row.unit}X {row.severity.capitalize()} XC0 (0x{info:08x} 0x{status:08x})"
            line = f"NVRM: Xid (PCI:0): {row.code}, {words_of_it}"
            assert report(row.code, line).grade is grades[row.action], line


def test_counted_errors_are_a_fault_without_a_log() -> None:
    """The kernel log may be unreadable; the counter still grows."""
    (own,) = found(*(pcie("p1-h1", t, {}, ecc={GPUS[0]: n}, sequence=t) for t, n in ((100, 7), (110, 9))))
    assert (own.severity, own.evidence[0].observed, after(own.started_at_ns)) == (Severity.WARNING, 2, 110)


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
    asks = Action.CORDON_HOST, Verdict.NEEDS_APPROVAL, "age of jobs"  # no scheduler has answered
    assert (grave.action, grave.verdict, grave.constraint) == asks
    assert mild.action is Action.OBSERVE


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
