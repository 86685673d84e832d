"""The list of faults on the demo's screen: every condition of the simulation, at 80 columns and without colors."""

from io import StringIO

from rich.console import Console

from lab.demo.screen import fault_list
from lab.world.faults import FAULT_OF
from streams.replay.score import Truth
from streams.wire.models import Condition, Finding, Severity, Status
from tests.fixtures.findings import NS, finding

LONG = "a-leaf-with-a-long-name-of-a-site"


def lines(truths: list[Truth], findings: list[Finding], width: int = 80) -> list[str]:
    console = Console(file=StringIO(), width=width, no_color=True)
    console.print(fault_list(truths, findings, 200 * NS))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_every_condition_of_the_simulation_is_listed() -> None:
    """Also those that this demo does not inject, by name; the legend explains each state."""
    for truths in ([], [Truth(NS, 2 * NS, Condition.LINK_FLAP, "leaf1", "e1")]):
        shown = lines(truths, [])
        text = " ".join(" ".join(shown).split())
        assert [slug for slug in FAULT_OF if slug not in text] == []
        assert all(f"{state}:" in shown[0] for state in ("found", "waiting", "planned"))
        others = text.partition("can also inject: ")[2].split(", ")
        assert set(others) == FAULT_OF.keys() - {truth.condition.slug for truth in truths}


def test_a_fault_has_its_state_severity_and_finding() -> None:
    """Found by a finding at the same place; waiting for one; planned for later. No line is longer than 80 columns."""
    one = finding("c0ffee000000aaaa", severity=Severity.CRITICAL)
    assert one.subject.a is not None
    found = Truth(one.started_at_ns, one.started_at_ns + NS, one.condition, one.subject.a.device, one.subject.a.port)
    waiting = Truth(150 * NS, 300 * NS, Condition.LINK_FLAP, LONG, "Ethernet1/1")
    planned = Truth(500 * NS, 600 * NS, Condition.DEVICE_DOWN, "spine1", "")
    for width in (80, 200):
        shown = lines([planned, waiting, found], [one], width)
        (row,) = [line for line in shown if line.startswith("found ")]
        assert one.condition.slug in row and "CRITICAL" in row and row.endswith("c0ffee000000")
        assert [line.split()[1] for line in shown if line.startswith("waiting ")] == ["link/flap"]
        assert [line.split()[1] for line in shown if line.startswith("planned ")] == ["device/down"]
        rows = [line for line in shown if line.split()[:1] in (["found"], ["waiting"], ["planned"])]
        assert max(map(len, rows)) <= 78


def test_a_finding_elsewhere_or_of_another_time_or_retracted_is_not_that_of_the_fault() -> None:
    """The place, the time and the status count."""
    one = finding("c0ffee000000aaaa")
    assert one.subject.a is not None
    start = one.started_at_ns
    elsewhere = Truth(start, start + NS, one.condition, "another", "e1")
    later = Truth(start + 100 * NS, start + 200 * NS, one.condition, one.subject.a.device, "", 15)
    here = Truth(start, start + NS, one.condition, one.subject.a.device, "")
    retracted = finding("c0ffee000000aaaa", status=Status.RETRACTED)
    for truth, known in ((elsewhere, one), (later, one), (here, retracted)):
        assert not [line for line in lines([truth], [known]) if line.startswith("found ")]
    assert [line for line in lines([here], [one]) if line.startswith("found ")]
