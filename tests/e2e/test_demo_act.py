"""`railsight demo --act`: links that flap until repaired are drained, repaired, proven, restored and watched."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.processes import Marked, railsight, until

pytestmark = pytest.mark.timeout(420)

APPROVE = re.compile(r"^\s+(\S*railsight approve \S+ --bootstrap \S+)$", re.MULTILINE)
STATES = re.compile(r"^([0-9a-f]{12}) (\w+) .*\n  \d\d:\d\d:\d\d (\w+)(.*)$", re.MULTILINE)


@pytest.fixture(scope="session")
def acted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return what a demo printed, and the id of the remediation that was approved from a second terminal."""
    folder = tmp_path_factory.mktemp("act")
    log, report = folder / "demo.log", folder / "report.txt"
    with report.open("wb") as out:
        demo = Marked(railsight("demo", "--act", "--headless"), log, stdout=out)
    try:
        found = until(lambda: APPROVE.search(log.read_text()), 120, "a remediation that waits for a person")
        program, *arguments = shlex.split(found[1])
        assert Path(program).name == "railsight"
        subprocess.run(railsight(*arguments), check=True, timeout=60, capture_output=True)
        code = demo.process.wait(300)
        assert code == 0, log.read_text() + report.read_text()
        assert demo.left() == []
    finally:
        demo.end()
    return log.read_text() + report.read_text(), arguments[1]


def states(text: str) -> list[tuple[str, str, str, str]]:
    """Return the id, action, state and first line of the reason of each revision."""
    return STATES.findall(text)


def test_every_bad_link_is_drained_and_no_sound_one(acted: tuple[str, str]) -> None:
    """The score of actions stands beside that of findings."""
    text, _ = acted
    (right, wrong, missing) = re.findall(r"^actions: (\d+) right, (\d+) wrong, (\d+) missing$", text, re.MULTILINE)[0]
    assert (int(right) >= 3, wrong, missing) == (True, "0", "0"), text
    assert "precision 1, recall 1" in text


def test_a_repaired_link_passes_the_whole_life_cycle(acted: tuple[str, str]) -> None:
    """Drained, repaired, verified, restored and watched, in this order; it closes after its probation."""
    by_id: dict[str, list[str]] = {}
    for identity, action, state, reason in states(acted[0]):
        if action == "DRAIN_LINK":
            by_id.setdefault(identity, []).append("WATCHED" if "no change within" in reason else state)
    whole = ["APPROVED", "ACCEPTED", "DRAINED", "VERIFYING", "RESTORING", "PROBATION", "WATCHED"]
    assert whole in by_id.values(), json.dumps(by_id, indent=1)


def test_a_fake_repair_relapses_and_escalates(acted: tuple[str, str]) -> None:
    """Each relapse on probation is the next attempt, and the third waits for a person."""
    reasons = [state + reason for _, _, state, reason in states(acted[0])]
    for number, state in ((1, "CLOSED"), (2, "CLOSED"), (3, "ESCALATED")):
        assert any(line.startswith(f"{state}: relapse {number} on probation") for line in reasons), reasons


def test_a_second_link_of_a_switch_is_denied_with_its_constraint(acted: tuple[str, str]) -> None:
    """The guard's number and name, what it observed and its limit."""
    reasons = [state + reason for _, _, state, reason in states(acted[0])]
    assert any(re.match(r"DENIED: guard 8 surviving-capacity \(observed 0\.\d+, limit 0\.75\)", r) for r in reasons)


def test_an_approval_from_a_second_terminal_is_carried_out(acted: tuple[str, str]) -> None:
    """WAITING with the reason, then approved, accepted and drained by the automation."""
    text, approved = acted
    found = [state for identity, _, state, _ in states(text) if approved.startswith(identity)]
    assert found[:4] == ["WAITING", "APPROVED", "ACCEPTED", "DRAINED"]
