"""`railsight demo --act`: links that flap until repaired are drained, repaired, proven, restored and watched.

Meanwhile the automation is killed after a drain and before its answer, a drained link gets another name, and a person
returns a drained link.
"""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from railsight_automation.gnmi_client import Access, GnmiClient
from railsight_automation.links import LinkParams, Links

from tests.e2e.processes import Marked, railsight, until
from tests.fixtures.automation import remediation

pytestmark = pytest.mark.timeout(600)

APPROVE = re.compile(r"^\s+(\S*railsight approve \S+ --bootstrap \S+)$", re.MULTILINE)
STATES = re.compile(r"^([0-9a-f]{12}) (\w+) (.*)\n  \d\d:\d\d:\d\d (\w+)(.*)$", re.MULTILINE)
DRAIN_CHANGES = 4
"""The changes of a drain of a fabric link: two policies at each end."""


class Demo:
    """A demo that acts, in its own folder, and what happens to it meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.run, self.log = folder / "run", folder / "demo.log"
        self.approved = self.killed_at = self.renamed = self.returned = ""

    def printed(self, action: str, text: str, state: str, within_s: float = 240) -> tuple[str, str]:
        """Wait until a revision is printed; return the id and the target."""

        def found() -> tuple[str, str] | None:
            return next(
                ((identity, target) for identity, kind, target, now, more in STATES.findall(self.log.read_text())
                 if kind == action and text in identity + target + more and now == state), None,
            )  # fmt: skip

        return until(found, within_s, f"{action} {text} {state}")

    def command(self, *arguments: str) -> None:
        """Run a command of another terminal."""
        config = ("--config", str(self.run / "railsight.toml"))
        done = subprocess.run(railsight(*arguments, *config), timeout=60, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def approve_and_rename(self) -> None:
        """Approve what waits; give the port of its host another name while the link is out of service."""
        found = until(lambda: APPROVE.search(self.log.read_text()), 120, "a remediation that waits for a person")
        program, *arguments = shlex.split(found[1])
        assert Path(program).name == "railsight"
        self.approved = arguments[1]
        subprocess.run(railsight(*arguments), check=True, timeout=60, capture_output=True)
        _, target = self.printed("DRAIN_LINK", self.approved, "VERIFYING")
        host, switch = target.split(" -- ")
        device, port = host.split("/", 1)
        self.command("exclude", "add", f"link:{host}--{switch}", "--hours", "1")
        inventory, new = self.run / "sim/inventory", f"{port}np0"
        links = (inventory / "links.csv").read_text()
        assert f"{device},{port}," in links
        (inventory / "links.csv").write_text(links.replace(f"{device},{port},", f"{device},{new},"))
        (inventory / "ports.csv").write_text(f"device,port,alias,source\n{device},{new},{port},\n")
        # Later than the end of its finding, so that the score finds that under the former name.
        effective = (datetime.now(UTC) + timedelta(seconds=10)).strftime("%Y-%m-%dT%H:%M:%S%z")
        self.command("inventory", "apply", str(inventory), "--yes", "--effective", effective)
        self.printed("DRAIN_LINK", f"{device}/{new} -- {switch}", "VERIFYING")
        self.command("exclude", "end", f"link:{device}/{new}--{switch}")
        self.printed("RESTORE_LINK", f"{device}/{new} -- {switch}", "CLOSED")
        self.renamed = f"{device}/{new}"

    def kill_between(self) -> None:
        """Kill the automation when a drain is in the devices and not yet answered; try each drain until one is met."""
        journal, seen, size = self.run / "automation-journal.jsonl", 0, 0
        give_up = time.monotonic() + 240
        while time.monotonic() < give_up:
            time.sleep(0.001)
            if not journal.exists() or size == (size := journal.stat().st_size):
                continue
            entries = entries_of(journal)
            done = [entry for entry in entries if entry["kind"] == "confirmed"]
            if len(done) < seen + DRAIN_CHANGES:
                continue
            os.kill(next(part["pid"] for part in json.loads((self.run / "parts.json").read_text())
                         if part["name"] == "automation"), signal.SIGKILL)  # fmt: skip
            last = entries_of(journal)[-1]
            if last["kind"] in ("confirmed", "finished"):
                accepted = [entry for entry in entries if entry["kind"] == "accepted"]
                self.killed_at = accepted[-1]["remediation"]["id"][:12]
                return
            seen = len(done)

    def return_by_hand(self) -> None:
        """Return a drained link by gNMI, as a person does who excludes it before."""
        _, target = self.printed("DRAIN_LINK", "surviving-capacity", "DENIED")
        self.printed("DRAIN_LINK", target, "VERIFYING")
        ends = [end.split("/", 1) for end in target.split(" -- ")]
        self.command("exclude", "add", "link:" + target.replace(" -- ", "--"), "--hours", "1")
        named = {end: {"device": device, "port": port} for end, (device, port) in zip("az", ends, strict=True)}
        order = remediation("by-hand", target={"id": target, "role": "fabric-link"} | named)
        targets = json.loads((self.run / "sim/targets.json").read_text())

        async def set_back() -> None:
            client = GnmiClient({one["name"]: one["address"] for one in targets}, Access())
            for setting in Links(client, LinkParams()).plan(order).drain:
                present = await setting.read()
                await setting.write([name for name in present if name != LinkParams().drain_policy])
            await client.close()

        asyncio.run(set_back())
        self.printed("DRAIN_LINK", "changed by others", "PROBATION")
        self.returned = target


def entries_of(journal: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a journal."""
    text = journal.read_text() if journal.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Return a demo that has ended well."""
    folder = tmp_path_factory.mktemp("act")
    own, report = Demo(folder), folder / "report.txt"
    with report.open("wb") as out:
        command = railsight("demo", "--act", "--headless", "--seconds", "200", "--run-dir", str(own.run))
        process = Marked(command, own.log, stdout=out)
    try:
        with ThreadPoolExecutor() as threads:
            parts = [threads.submit(part) for part in (own.approve_and_rename, own.kill_between, own.return_by_hand)]
        for part in parts:
            part.result()
        code = process.process.wait(300)
        assert code == 0, own.log.read_text() + report.read_text()
        assert process.left() == []
    finally:
        process.end()
    with own.log.open("a") as log:
        log.write(report.read_text())
    return own


@pytest.fixture(scope="session")
def acted(demo: Demo) -> tuple[str, str]:
    """Return what the demo printed, and the id of the remediation that was approved from a second terminal."""
    return demo.log.read_text(), demo.approved


def states(text: str) -> list[tuple[str, str, str, str]]:
    """Return the id, action, state and first line of the reason of each revision."""
    return [(identity, action, state, reason) for identity, action, _, state, reason in STATES.findall(text)]


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


def test_an_automation_that_dies_before_its_answer_is_replaced(demo: Demo, acted: tuple[str, str]) -> None:
    """Its successor answers what it finds done: the link is drained once, and its life cycle goes on."""
    assert demo.killed_at, "no kill met the moment"
    entries = entries_of(demo.run / "automation-journal.jsonl")
    assert sum(e["kind"] == "accepted" and e["remediation"]["id"].startswith(demo.killed_at) for e in entries) == 1
    found = [state for identity, _, state, _ in states(acted[0]) if identity == demo.killed_at]
    assert found[:3] == ["APPROVED", "ACCEPTED", "DRAINED"], found
    assert "restarted: " in acted[0]


def test_a_link_that_is_renamed_while_it_is_drained_is_restored(demo: Demo) -> None:
    """The exclusion holds under the new name, and automation undoes the changes that it made under the former one."""
    assert demo.renamed


def test_a_link_that_a_person_returned_is_in_service(demo: Demo, acted: tuple[str, str]) -> None:
    """The automation reports it, and nothing counts the link as drained any more."""
    assert demo.returned
    assert "back in service by another party" in acted[0]
