"""`railsight demo --act --disturb`: links that flap until repaired are drained, repaired, proven, restored and watched.

Meanwhile the automation is killed between a drain and its answer; a drained link gets another name, and a person
repairs and returns it without a report.
"""

import json
import re
from pathlib import Path

import pytest

from tests.e2e.processes import Marked, railsight

pytestmark = pytest.mark.timeout(600)

STATES = re.compile(r"^([0-9a-f]{12}) (\w+) (.*)\n  \d\d:\d\d:\d\d (\w+)(.*)$", re.MULTILINE)


@pytest.fixture(scope="session")
def acted(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what a demo that ended well printed, and its report."""
    folder = tmp_path_factory.mktemp("act")
    log, report = folder / "demo.log", folder / "report.txt"
    with report.open("wb") as out:
        command = railsight("demo", "--act", "--disturb", "--headless", "--run-dir", str(folder / "run"))
        process = Marked(command, log, stdout=out)
    try:
        code = process.process.wait(500)
        assert code == 0, log.read_text() + report.read_text()
        assert process.left() == []
    finally:
        process.end()
    return log.read_text() + Path(report).read_text()


def states(text: str) -> list[tuple[str, str, str, str]]:
    """Return the id, action, state and first line of the reason of each revision."""
    return [(identity, action, state, reason) for identity, action, _, state, reason in STATES.findall(text)]


def test_every_bad_link_is_drained_and_no_sound_one(acted: str) -> None:
    """The score of actions stands beside that of findings."""
    text = acted
    (right, wrong, missing) = re.findall(r"^actions: (\d+) right, (\d+) wrong, (\d+) missing$", text, re.MULTILINE)[0]
    assert (int(right) >= 3, wrong, missing) == (True, "0", "0"), text
    assert "precision 1, recall 1" in text


def test_a_repaired_link_passes_the_whole_life_cycle(acted: str) -> None:
    """Drained, repaired, verified, restored and watched, in this order; it closes after its probation."""
    by_id: dict[str, list[str]] = {}
    for identity, action, state, reason in states(acted):
        if action == "DRAIN_LINK":
            by_id.setdefault(identity, []).append("WATCHED" if "no change within" in reason else state)
    whole = ["APPROVED", "ACCEPTED", "DRAINED", "VERIFYING", "RESTORING", "PROBATION", "WATCHED"]
    assert whole in by_id.values(), json.dumps(by_id, indent=1)


def test_a_fake_repair_relapses_and_escalates(acted: str) -> None:
    """Each relapse on probation is the next attempt, and the third waits for a person."""
    reasons = [state + reason for _, _, state, reason in states(acted)]
    for number, state in ((1, "CLOSED"), (2, "CLOSED"), (3, "ESCALATED")):
        assert any(line.startswith(f"{state}: relapse {number} on probation") for line in reasons), reasons


def test_a_second_link_of_a_switch_is_denied_with_its_constraint(acted: str) -> None:
    """The guard's number and name, what it observed and its limit."""
    reasons = [state + reason for _, _, state, reason in states(acted)]
    assert any(re.match(r"DENIED: guard 8 surviving-capacity \(observed 0\.\d+, limit 0\.75\)", r) for r in reasons)


def test_an_automation_that_dies_before_its_answer_is_replaced(acted: str) -> None:
    """It is approved from a second terminal; the successor answers what it finds done, and its life cycle goes on."""
    line = "automation killed between a drain and its answer: WAITING → APPROVED → ACCEPTED → DRAINED"
    assert line in acted and re.search(r"^restarted: .*automation 1×", acted, re.MULTILINE), acted


def test_a_link_that_is_renamed_and_returned_by_a_person_is_in_service(acted: str) -> None:
    """The drain follows its link; the automation reports the change by others, and nothing counts as drained."""
    assert "its drain removed by another party: DRAINED → PROBATION" in acted
    assert re.search(r"^drained link with another name: link:\S+-a$", acted, re.MULTILINE)
    assert re.search(r"DRAINED: the inventory names", acted) and "changed by others: back in service" in acted
