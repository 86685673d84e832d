"""`railsight demo --act`: links that flap until repaired are drained, repaired, proven, restored and watched.

Meanwhile the automation is killed after a drain and before its answer; a drained link gets another name, and a person
repairs and returns it without a report.
"""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
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
        self.approved = self.killed_at = self.renamed = ""

    def printed(self, action: str, text: str, state: str, within_s: float = 240) -> tuple[str, str]:
        """Wait until a revision is printed; return the id and the target."""

        def found() -> tuple[str, str] | None:
            return next(
                ((identity, target) for identity, kind, target, now, more in STATES.findall(self.log.read_text())
                 if kind == action and text in identity + target + more and now == state), None,
            )  # fmt: skip

        return until(found, within_s, f"{action} {text} {state}")

    def approve_rename_and_return(self) -> None:
        """Approve a drain of a host's link, whose repair then waits too; rename its port, and return it by hand."""
        found = until(lambda: APPROVE.search(self.log.read_text()), 240, "a remediation that waits for a person")
        program, *arguments = shlex.split(found[1])
        assert Path(program).name == "railsight"
        self.approved = arguments[1]
        subprocess.run(railsight(*arguments), check=True, timeout=60, capture_output=True)
        _, target = self.printed("DRAIN_LINK", self.approved, "DRAINED")
        host, _, switch = target.partition(" -- ")
        self.renamed = f"{host} -- {switch}-a"
        self._rename(*switch.split("/", 1))
        self.printed("DRAIN_LINK", self.renamed, "DRAINED")
        asyncio.run(self._repair(host, switch))
        self.printed("DRAIN_LINK", self.renamed, "PROBATION")

    def _rename(self, device: str, port: str) -> None:
        """Publish an inventory with another name of a port; the device reports the former name, which is an alias."""
        inventory = self.run / "sim/inventory"
        links = (inventory / "links.csv").read_text()
        assert links.count(f",{device},{port},") == 1
        (inventory / "links.csv").write_text(links.replace(f",{device},{port},", f",{device},{port}-a,"))
        with (inventory / "ports.csv").open("a") as ports:
            ports.write(f"{device},{port}-a,{port},\n")
        config = ("--config", str(self.run / "railsight.toml"))
        command = railsight("inventory", "apply", str(inventory), "--yes", *config)
        done = subprocess.run(command, timeout=60, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    async def _repair(self, host: str, switch: str) -> None:
        """Repair a link and take away its drain, as a person does who reports neither."""
        ends = [end.split("/", 1) for end in (host, switch)]
        named = {end: {"device": device, "port": port} for end, (device, port) in zip("az", ends, strict=True)}
        order = remediation("by-hand", "REPAIR_LINK", target={"id": "x", "role": "host-link"} | named)
        targets = json.loads((self.run / "sim/targets.json").read_text())
        client = GnmiClient({one["name"]: one["address"] for one in targets}, Access())
        params = LinkParams(repair_command=(sys.executable, "-m", "lab.servers.repair", str(self.run / "sim")))
        plan = Links(client, params).plan(order)
        assert plan.operation is not None
        for setting in plan.hold:
            await setting.write(False)
        await plan.operation.run(None)
        for setting in plan.hold:
            await setting.write(True)
        for setting in plan.drain:
            await setting.write([name for name in await setting.read() if name != params.drain_policy])
        await client.close()

    def kill_between(self) -> None:
        """Kill the automation when a drain is in the devices and not yet answered, at the first drain that is alone.

        It runs in steps of milliseconds meanwhile, so that the moment is met on a busy machine too.
        """
        journal, give_up = self.run / "automation-journal.jsonl", time.monotonic() + 240
        while time.monotonic() < give_up:
            time.sleep(0.002)
            while open_drain(entries := entries_of(journal)):
                parts = json.loads((self.run / "parts.json").read_text())
                pid = next(part["pid"] for part in parts if part["name"] == "automation")
                os.kill(pid, signal.SIGSTOP)
                if (own := open_drain(entries := entries_of(journal))) and changes_of(own, entries) == DRAIN_CHANGES:
                    self.killed_at = own["id"][:12]
                    os.kill(pid, signal.SIGKILL)
                    return
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.002)


def open_drain(entries: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the only remediation without an outcome, if it is a drain."""
    finished = {entry["id"] for entry in entries if entry["kind"] == "finished"}
    accepted = [entry["remediation"] for entry in entries if entry["kind"] == "accepted"]
    own = [one for one in accepted if one["id"] not in finished]
    return own[0] if len(own) == 1 and own[0]["action"] == "DRAIN_LINK" else None


def changes_of(own: dict[str, Any], entries: list[dict[str, Any]]) -> int:
    """Return the number of changes of its target that were read back since a remediation was accepted."""
    begin = next(n for n, one in enumerate(entries) if one.get("remediation", {}).get("id") == own["id"])
    return sum(one["kind"] == "confirmed" and one["target"] == own["target_id"] for one in entries[begin:])


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
            parts = [threads.submit(part) for part in (own.approve_rename_and_return, own.kill_between)]
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
    if not demo.killed_at:
        pytest.skip("no drain was alone between its changes and its answer within 240 s, so that nothing was killed")
    entries = entries_of(demo.run / "automation-journal.jsonl")
    assert sum(e["kind"] == "accepted" and e["remediation"]["id"].startswith(demo.killed_at) for e in entries) == 1
    found = [state for identity, _, state, _ in states(acted[0]) if identity == demo.killed_at]
    assert found[:3] == ["APPROVED", "ACCEPTED", "DRAINED"], found
    assert "restarted: " in acted[0]


def test_a_link_that_is_renamed_and_returned_by_a_person_is_in_service(demo: Demo, acted: tuple[str, str]) -> None:
    """The drain follows its link; the automation reports the change by others, and nothing counts as drained."""
    found = re.findall(rf"^{demo.approved[:12]} DRAIN_LINK (.*)\n  \S+ (\w+): (.*)", acted[0], re.MULTILINE)
    own = [(state, reason) for target, state, reason in found if target == demo.renamed]
    assert [state for state, _ in own] == ["DRAINED", "PROBATION", "CLOSED"]
    assert own[0][1].startswith("the inventory names") and own[1][1].startswith("changed by others: back in service")
