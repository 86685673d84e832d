"""Tests the engine of the automation: what it accepts, changes and answers, and a crash at each of its steps."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from railsight_automation.engine import Engine
from railsight_automation.journal import Journal
from railsight_automation.messages import rfc3339

from tests.fixtures.automation import (
    ACTOR,
    MINUTE_NS,
    NOW_NS,
    TARGET,
    Crash,
    Devices,
    Fuse,
    MemoryOperation,
    MemoryPlanner,
    RecordedAnswers,
    remediation,
)

OWN = "own instance"
DRAINED = {"a policy": "out", "z policy": "out"}


class CrashingJournal(Journal):
    """A journal that can end the process before and after each entry."""

    fuse = Fuse()

    def _append(self, entry: dict[str, Any]) -> None:
        self.fuse.step()
        super()._append(entry)
        self.fuse.step()


class Automation:
    """An engine on settings in memory; `restart` makes another one over the same devices and journal."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal.jsonl"
        self.devices = Devices()
        self.sent = RecordedAnswers()
        self.operation_error = ""
        self.now_ns = NOW_NS
        self.confirm_s = 5.0
        self.confirms = True
        self.device = ""
        self.journal: CrashingJournal | None = None
        self.restart()

    def close(self) -> None:
        """Close the journal."""
        assert self.journal is not None
        self.journal.close()

    def restart(self, fuse: Fuse | None = None, operation: MemoryOperation | None = None) -> None:
        """Begin again after a crash, with the next crash at the fuse's step, or with another operation on hosts."""
        if self.journal is not None:
            self.journal.close()
        fuse = fuse or Fuse()
        self.journal = CrashingJournal(self.path)
        self.journal.fuse = fuse
        self.sent.fuse = fuse
        planner = MemoryPlanner(self.devices, fuse, self.operation_error, operation, self.device)
        self.engine = Engine(
            self.journal, planner, self.sent, ACTOR, lambda: self.now_ns, confirm_s=self.confirm_s, retry_s=0.001
        )
        self.sent.engine = self.engine if self.confirms else None

    async def deliver(self, identity: str = "r1", action: str = "DRAIN_LINK", **more: Any) -> None:
        """Deliver a remediation, as the service does."""
        await self.engine.observe(remediation(identity, action, **more))
        await self.engine.carry_out(identity)

    async def recover(self) -> None:
        """Resume what was interrupted, as the service does at its start."""
        for identity in self.engine.interrupted():
            await self.engine.resume(identity)

    @property
    def changed(self) -> dict[str, str]:
        """Return the values that are not as they were at first."""
        return {address: value for address, value in self.devices.values.items() if value != "in"}

    @property
    def journaled(self) -> list[str]:
        """Return the addresses of the changes in effect."""
        assert self.journal is not None
        return [change.address for change in self.journal.changes_of(TARGET)]


@pytest.fixture
def automation(tmp_path: Path) -> Iterator[Automation]:
    """Yield an automation with an empty journal."""
    with closing(Automation(tmp_path)) as made:
        yield made


async def test_a_drain_is_accepted_and_done_and_a_restore_undoes_it(automation: Automation) -> None:
    """Each answer names what was changed."""
    await automation.deliver()
    assert automation.sent.outcomes() == ["ACCEPTED", "DONE"] and automation.changed == DRAINED
    assert automation.sent.detail() == "changed z policy, a policy"
    assert automation.sent.prior_values == {"a policy": '"in"', "z policy": '"in"'}
    await automation.deliver("r2", "RESTORE_LINK")
    assert automation.sent.outcomes("r2") == ["ACCEPTED", "DONE"] and automation.changed == {}
    assert automation.journaled == []


async def test_an_id_is_carried_out_once(automation: Automation) -> None:
    """Neither a repeated record, nor a higher revision, nor a restart does it again."""
    await automation.deliver()
    await automation.deliver()
    await automation.deliver(revision=2)
    automation.restart()
    await automation.recover()
    await automation.deliver(revision=3)
    assert len(automation.sent.sent) == 2
    assert automation.devices.taken_out == {"a policy": 1, "z policy": 1}


@pytest.mark.parametrize(
    "more",
    [
        {"verdict": "DENIED"}, {"verdict": "SHADOW"}, {"verdict": "NEEDS_APPROVAL"}, {"verdict": "REVOKED"},
        {"verdict": "NEW"}, {"expiresAt": "2023-11-14T22:13:20.000000000Z"}, {"action": "OBSERVE"},
        {"action": "TUNE_CONGESTION", "verdict": "DENIED"}, {"state": "ACCEPTED", "actor": "other"},
        {"state": "DRAINED"},
    ],
)  # fmt: skip
async def test_what_is_not_approved_or_expired_or_for_people_is_not_answered(
    automation: Automation, more: dict[str, str]
) -> None:
    """Neither accepted nor rejected."""
    await automation.deliver(**({"action": "DRAIN_LINK"} | more))
    assert automation.sent.sent == [] and automation.devices.values == {}


async def test_what_is_not_configured_is_rejected_once_with_its_reason(automation: Automation) -> None:
    """Nothing is in the journal, so that it may be accepted after a restart with another configuration."""
    for revision in (1, 2):
        await automation.deliver("r1", "TUNE_CONGESTION", revision=revision)
    assert automation.sent.sent == [("r1", "REJECTED", "TUNE_CONGESTION is not configured")]
    assert automation.devices.values == {}
    automation.restart()
    await automation.recover()
    assert automation.journal is not None and automation.journal.intents == {}
    await automation.deliver("r1", "DRAIN_LINK", revision=3)
    assert automation.sent.outcomes() == ["REJECTED", "ACCEPTED", "DONE"]


async def test_an_older_revision_does_not_replace_a_newer_one(automation: Automation) -> None:
    """An approval that arrives after its revocation is not carried out."""
    await automation.deliver(revision=5, verdict="REVOKED")
    await automation.deliver(revision=4)
    assert automation.sent.sent == []


async def test_an_approval_that_is_revoked_after_it_was_accepted_changes_nothing(automation: Automation) -> None:
    """The highest revision counts until the first change."""

    class Revoking(RecordedAnswers):
        async def send(
            self, remediation_id: str, outcome: str, detail: str, prior_values: Mapping[str, str], instance: str
        ) -> None:
            await super().send(remediation_id, outcome, detail, prior_values, instance)
            await automation.engine.observe(remediation(revision=200, verdict="REVOKED", state="ACCEPTED"))

    automation.sent = Revoking()
    automation.restart()
    await automation.deliver()
    assert automation.sent.outcomes() == ["ACCEPTED", "FAILED"] and automation.devices.values == {}
    assert automation.sent.detail() == "revision 200 is REVOKED; nothing was changed"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"state": "ACCEPTED", "actor": ACTOR, "instance": OWN}, ""),
        ({"state": "ACCEPTED", "actor": "other", "instance": OWN}, "accepted by other "),
        ({"state": "ACCEPTED", "actor": ACTOR, "instance": "h2/0a1b"}, "accepted by netbot h2/0a1b"),
        ({"state": "ACCEPTED", "actor": ACTOR}, "accepted by netbot"),
        ({"state": "DENIED", "actor": "decide", "verdict": "DENIED"}, "revision 3 is DENIED"),
        ({"state": "ACCEPTED", "actor": ACTOR, "instance": OWN, "verdict": "REVOKED"}, "revision 4 is REVOKED"),
        (None, "the acceptance was not confirmed"),
    ],
)  # fmt: skip
async def test_the_first_change_waits_for_the_confirmation_of_the_acceptance(
    automation: Automation, more: dict[str, str] | None, why: str
) -> None:
    """`decide` evaluates its guards again when it is accepted; of two with one actor, one instance is confirmed."""
    automation.confirm_s, automation.confirms = 5.0 if more else 0.01, False
    automation.restart()
    assert automation.journal is not None
    own = automation.journal.instance
    more = None if more is None else {name: text.replace(OWN, own) for name, text in more.items()}
    task = asyncio.create_task(automation.deliver(state="APPROVED"))
    while not automation.sent.sent:  # noqa: ASYNC110 — the answers have no event
        await asyncio.sleep(0)
    if more:
        await automation.engine.observe(remediation(revision=2, state="APPROVED"))
        await asyncio.sleep(0)
        assert not task.done() and automation.devices.values == {}
        await automation.engine.observe(remediation(revision=3, **more))
        if more["state"] == "ACCEPTED":  # a second finding joins it
            await automation.engine.observe(remediation(revision=4, **(more | {"actor": "decide"})))
    await task
    assert automation.sent.outcomes() == ["ACCEPTED", "FAILED" if why else "DONE"]
    if why:
        assert automation.sent.detail() == f"{why + own if why.endswith(' ') else why}; nothing was changed"
        assert automation.devices.values == {}


async def test_a_failed_change_undoes_the_others(automation: Automation) -> None:
    """A value that is not read back as it was set fails the action."""
    automation.devices.ignored.add("z policy")
    await automation.deliver()
    assert automation.sent.outcomes() == ["ACCEPTED", "FAILED"] and automation.changed == {}
    assert "z policy: set to 'out', but 'in' was read back; every change was undone" in automation.sent.detail()


async def test_a_foreign_change_is_not_undone(automation: Automation) -> None:
    """A restore undoes own changes only, and fails if the link is out of use by another party."""
    automation.devices.values["a policy"] = "foreign"
    await automation.deliver()
    assert automation.sent.outcomes() == ["ACCEPTED", "DONE"] and automation.journaled == ["z policy"]
    await automation.deliver("r2", "RESTORE_LINK")
    assert automation.devices.values == {"a policy": "foreign", "z policy": "in"}
    assert automation.sent.outcomes("r2") == ["ACCEPTED", "FAILED"]
    assert automation.sent.detail("r2") == "a policy remains out of use: not by a change of this automation"


async def test_a_repair_disables_the_port_only_meanwhile(automation: Automation) -> None:
    """The policies remain after it, for qualification; a restore removes them."""
    await automation.deliver("r1", "REPAIR_LINK")
    assert automation.sent.outcomes() == ["ACCEPTED", "DONE"] and automation.sent.detail() == "cleaned"
    assert automation.changed == DRAINED
    assert automation.devices.taken_out == {"a policy": 1, "z policy": 1, "a enabled": 1, "z enabled": 1}
    await automation.deliver("r2", "RESTORE_LINK")
    assert automation.changed == {}


async def test_a_failed_repair_of_a_drained_link_leaves_it_drained(automation: Automation) -> None:
    """The drain belongs to another remediation."""
    automation.operation_error = "no robot"
    automation.restart()
    await automation.deliver("r1", "DRAIN_LINK")
    await automation.deliver("r2", "REPAIR_LINK")
    assert automation.sent.outcomes("r2") == ["ACCEPTED", "FAILED"]
    assert automation.sent.detail("r2") == "no robot; every change was undone" and automation.changed == DRAINED


async def test_a_reboot_leaves_the_host_cordoned_until_its_restore(automation: Automation) -> None:
    """It returns by UNCORDON_HOST, after it qualified."""
    await automation.deliver("r1", "REBOOT_HOST")
    assert automation.sent.outcomes() == ["ACCEPTED", "DONE"] and automation.sent.detail() == "cleaned"
    assert automation.changed == {"cordon": "out", "boot": "start 1"}
    await automation.deliver("r2", "UNCORDON_HOST")
    assert automation.sent.outcomes("r2") == ["ACCEPTED", "DONE"] and automation.changed == {"boot": "start 1"}


@pytest.mark.parametrize("action", ["REBOOT_HOST", "RESET_NIC", "UPGRADE_FIRMWARE"])
async def test_an_operation_on_a_host_in_use_is_not_begun(automation: Automation, action: str) -> None:
    """Its cordon is undone."""
    automation.devices.busy = True
    await automation.deliver("r1", action)
    assert automation.sent.outcomes() == ["ACCEPTED", "FAILED"] and automation.changed == {}
    assert automation.sent.detail() == "not idle: job 7; every change was undone"


async def test_an_approval_that_is_revoked_while_a_host_becomes_idle_begins_no_operation(
    automation: Automation,
) -> None:
    """The highest revision counts until the operation begins."""

    class Revoked(MemoryOperation):
        async def prepare(self) -> str | None:
            await automation.engine.observe(remediation(revision=200, verdict="REVOKED"))
            return await super().prepare()

    automation.restart(operation=Revoked(automation.devices, Fuse(), "", has_state=True))
    await automation.deliver("r1", "REBOOT_HOST")
    assert automation.sent.outcomes() == ["ACCEPTED", "FAILED"] and automation.devices.boots == 0
    assert automation.sent.detail() == "revision 200 is REVOKED; every change was undone"
    assert automation.changed == {}


async def test_a_setting_of_an_operation_is_released_as_soon_as_its_device_answers(automation: Automation) -> None:
    """The operation is done, and its answer waits for the release."""

    class Away(MemoryOperation):
        async def run(self, before: str | None) -> str:
            automation.devices.errors.add("cordon")
            asyncio.get_running_loop().call_later(0.05, automation.devices.errors.clear)
            return await super().run(before)

    automation.restart(operation=Away(automation.devices, Fuse(), "", has_state=True))
    await automation.deliver("r1", "UPGRADE_FIRMWARE")
    assert automation.sent.outcomes() == ["ACCEPTED", "DONE"] and automation.changed == {"boot": "start 1"}


async def test_a_second_drain_of_a_link_is_read_and_not_assumed(automation: Automation) -> None:
    """A person removed one of the policies of the first drain: only that one is set again."""
    await automation.deliver("r1")
    await automation.deliver("r2")
    assert automation.sent.outcomes("r2") == ["ACCEPTED", "DONE"]
    assert automation.sent.detail("r2") == "nothing changed"
    automation.devices.values["a policy"] = "in"
    await automation.deliver("r3")
    assert automation.sent.detail("r3") == "changed a policy"
    assert automation.devices.taken_out == {"a policy": 2, "z policy": 1} and automation.changed == DRAINED
    await automation.deliver("r4", "RESTORE_LINK")
    assert automation.changed == {} and automation.journaled == []


async def test_expired_revisions_are_forgotten(automation: Automation) -> None:
    """Memory is bounded by the remediations of a day: what was revoked long ago is not known any more."""
    for number in range(12_000):
        automation.now_ns = NOW_NS + number * MINUTE_NS
        expiry = rfc3339(automation.now_ns + MINUTE_NS)
        await automation.engine.observe(remediation(f"x{number}", verdict="DENIED", expiresAt=expiry))
    automation.sent.expires_ns = automation.now_ns + MINUTE_NS
    await automation.deliver("x0", revision=0, expiresAt=expiry)
    assert automation.sent.outcomes("x0") == ["ACCEPTED", "DONE"]
    await automation.deliver("x11999", revision=0, expiresAt=expiry)
    assert automation.sent.outcomes("x11999") == []


async def test_a_failed_restore_can_be_tried_again(automation: Automation) -> None:
    """The changes that remain are in the journal."""
    await automation.deliver()
    automation.devices.errors.add("a policy")
    await automation.deliver("r2", "RESTORE_LINK")
    assert automation.sent.outcomes("r2") == ["ACCEPTED", "FAILED"] and automation.journaled == ["a policy"]
    automation.devices.errors.clear()
    await automation.deliver("r3", "RESTORE_LINK")
    assert automation.sent.outcomes("r3") == ["ACCEPTED", "DONE"] and automation.changed == {}


async def until_crash(automation: Automation, identity: str, action: str, fuse: Fuse) -> bool:
    """Deliver a remediation with a crash at a step; return whether it crashed."""
    automation.restart(fuse)
    try:
        await automation.recover()
        await automation.deliver(identity, action)
    except Crash:
        return True
    return False


def assert_consistent(automation: Automation, identity: str, drained: dict[str, str]) -> str:
    """Check that the answer is equal to the state of the devices; return the outcome."""
    outcomes = [outcome for outcome in automation.sent.outcomes(identity) if outcome != "ACCEPTED"]
    assert len(outcomes) == 1, automation.sent.sent
    assert automation.sent.outcomes(identity)[0] == "ACCEPTED"
    changed = {address: value for address, value in automation.changed.items() if address != "boot"}
    assert changed == (drained if outcomes == ["DONE"] else {})
    assert sorted(automation.journaled) == sorted(changed)
    assert set(automation.devices.taken_out.values()) <= {1}
    return outcomes[0]


@pytest.mark.parametrize(
    ("action", "steps", "drained"),
    [
        ("DRAIN_LINK", 24, DRAINED), ("REPAIR_LINK", 48, DRAINED), ("REBOOT_HOST", 22, {"cordon": "out"}),
        ("UPGRADE_FIRMWARE", 26, {}), ("RESET_NIC", 26, {}),
    ],
)  # fmt: skip
async def test_a_crash_at_any_step_takes_nothing_out_twice(
    tmp_path: Path, action: str, steps: int, drained: dict[str, str]
) -> None:
    """Killed at each step and begun again, the answer is what the devices have, and nothing was done twice."""
    outcomes = {"DONE": 0, "FAILED": 0}
    for step in range(1, 100):
        with closing(Automation(tmp_path / str(step))) as automation:
            crashed = await until_crash(automation, "r1", action, Fuse(step))
            automation.restart()
            await automation.recover()
            await automation.deliver("r1", action)
            outcome = assert_consistent(automation, "r1", drained)
            outcomes[outcome] += crashed
            if action in ("REBOOT_HOST", "UPGRADE_FIRMWARE"):
                assert automation.devices.boots == (outcome == "DONE")
        if not crashed:
            break
    assert not crashed and min(outcomes.values()) > 0
    assert sum(outcomes.values()) == steps


async def test_a_crash_at_any_step_of_a_recovery_takes_nothing_out_twice(tmp_path: Path) -> None:
    """A second crash, at each step of the recovery from the first."""
    for first in range(1, 25, 2):
        for second in range(1, 40):
            with closing(Automation(tmp_path / f"{first}-{second}")) as automation:
                assert await until_crash(automation, "r1", "DRAIN_LINK", Fuse(first))
                crashed = await until_crash(automation, "r1", "DRAIN_LINK", Fuse(second))
                automation.restart()
                await automation.recover()
                await automation.deliver()
                assert_consistent(automation, "r1", DRAINED)
            if not crashed:
                break


async def test_a_crash_at_any_step_of_a_restore_ends_with_the_link_in_use(tmp_path: Path) -> None:
    """A restore is repeated, because it undoes only own changes."""
    for step in range(1, 100):
        with closing(Automation(tmp_path / str(step))) as automation:
            await automation.deliver()
            crashed = await until_crash(automation, "r2", "RESTORE_LINK", Fuse(step))
            automation.restart()
            await automation.recover()
            await automation.deliver("r2", "RESTORE_LINK")
            assert automation.sent.outcomes("r2") == ["ACCEPTED", "DONE"]
            assert automation.changed == {} and automation.journaled == []
        if not crashed:
            break
    assert not crashed


async def test_an_approval_that_expired_during_a_restart_is_not_carried_out(automation: Automation) -> None:
    """It was accepted, so that it is answered."""
    assert await until_crash(automation, "r1", "DRAIN_LINK", Fuse(3))
    automation.now_ns += 11 * MINUTE_NS
    automation.restart()
    await automation.recover()
    assert automation.sent.outcomes() == ["ACCEPTED", "FAILED"]
    assert automation.sent.detail() == "expired; nothing was changed" and automation.devices.values == {}


async def test_an_undone_change_of_a_person_is_not_repeated_after_a_crash(automation: Automation) -> None:
    """Between the crash and the restart a person put the first end back: the action fails and the rest is undone."""
    assert await until_crash(automation, "r1", "DRAIN_LINK", Fuse(12))
    assert automation.devices.values == {"a policy": "out"}
    automation.devices.values["a policy"] = "in"
    automation.restart()
    await automation.recover()
    assert automation.sent.outcomes() == ["ACCEPTED", "FAILED"] and automation.changed == {}


async def test_no_answer_is_sent_while_a_change_cannot_be_undone(automation: Automation) -> None:
    """Without an answer the link counts as drained, which it is; the undo is repeated until the device answers."""
    automation.devices.ignored.add("z policy")
    original = automation.devices
    reads = 0

    class Errors(set[str]):
        def __contains__(self, address: object) -> bool:
            nonlocal reads
            if address == "a policy" and "a policy" in original.taken_out:
                reads += 1
                return 1 < reads < 6  # it does not answer for some time after it was read back
            return False

    original.errors = Errors()
    await automation.deliver()
    assert reads >= 6 and automation.sent.outcomes() == ["ACCEPTED", "FAILED"] and automation.changed == {}


def test_an_incomplete_last_line_is_removed_and_a_damaged_one_refused(tmp_path: Path) -> None:
    """A torn write is the step that was not begun; anything else is damage, which a person has to see."""
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.accept(remediation(), NOW_NS)
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"kind": "beg')
    journal = Journal(path)
    assert not journal.intents["r1"].is_begun
    journal.begin("r1")
    journal.close()
    journal = Journal(path)
    assert journal.intents["r1"].is_begun
    journal.close()
    path.write_bytes(b"{\n" + path.read_bytes())
    with pytest.raises(Exception, match=r"journal.jsonl:1 is damaged"):
        Journal(path)


def test_a_journal_is_used_by_one_process(tmp_path: Path) -> None:
    """A second automation with the same journal does not start."""
    journal = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(Exception, match="is in use by another process"):
        Journal(tmp_path / "journal.jsonl")
    journal.close()


async def test_a_compacted_journal_has_the_same_state(automation: Automation) -> None:
    """Open changes and ids of the last 31 days remain."""
    await automation.deliver()
    journal = automation.journal
    assert journal is not None
    journal.move({"0": 7})
    before = (dict(journal.intents), dict(journal.changes), journal.positions)
    size = automation.path.stat().st_size
    journal.compact(NOW_NS + MINUTE_NS)
    assert automation.path.stat().st_size < size
    automation.restart()
    assert automation.journal is not None
    assert (automation.journal.intents, automation.journal.changes, automation.journal.positions) == before
    automation.journal.compact(NOW_NS + 32 * 86_400 * 10**9)
    assert automation.journal.intents == {} and automation.journaled == ["z policy", "a policy"]


async def test_a_target_that_another_party_put_back_is_reported_once(automation: Automation) -> None:
    """After two checks that find every own change undone; some of them, or an unreadable one, are not enough."""
    await automation.deliver()
    devices = automation.devices
    first, *others = devices.values
    for values, errors in (("in", set(others)), ("foreign", set()), ("out", set())):
        devices.values |= {first: "in"} | dict.fromkeys(others, values)
        devices.errors = errors
        for _ in range(3):
            await automation.engine.check_changes()
    assert automation.sent.outcomes() == ["ACCEPTED", "DONE"]
    devices.errors = set()
    devices.values |= dict.fromkeys(others, "in")
    await automation.engine.check_changes()
    assert automation.sent.outcomes() == ["ACCEPTED", "DONE"]
    for _ in range(3):
        await automation.engine.check_changes()
    assert [outcome for _, outcome, _ in automation.sent.sent] == ["ACCEPTED", "DONE", "EXTERNAL"]
    assert first in automation.sent.detail()


async def test_a_crash_while_a_return_is_reported_loses_no_report(automation: Automation) -> None:
    """At each step; it may be repeated."""
    for step in range(1, 30):
        identity = f"c{step}"
        await automation.deliver(identity)
        automation.devices.values |= dict.fromkeys(DRAINED, "in")
        automation.restart(Fuse(step))
        try:
            await automation.engine.check_changes()
            await automation.engine.check_changes()
            is_crashed = False
        except Crash:
            is_crashed = True
        automation.restart()
        await automation.recover()
        for _ in range(3):
            await automation.engine.check_changes()
        assert automation.journaled == []
        assert automation.sent.outcomes(identity) == ["ACCEPTED", "DONE", "EXTERNAL"] and automation.changed == {}
        if not is_crashed:
            return
    raise AssertionError("the fuse did not outlast the report")


@pytest.mark.parametrize("device", ["gnmi:leaf1:/", "gnmi:leaf9:/"])
async def test_a_renamed_target_is_returned_under_its_new_name(automation: Automation, device: str) -> None:
    """The journal follows former ids; a device with another name has the written values under that name."""
    automation.device = "gnmi:leaf1:/"
    automation.restart()
    await automation.deliver()
    automation.device = device
    values = {address.replace("gnmi:leaf1:/", device): value for address, value in automation.devices.values.items()}
    automation.devices.values = values
    automation.restart()
    target = {"id": "link:leaf9/et1--spine1/e1", "formerIds": [TARGET], "a": {"device": "leaf9", "port": "et1"}}
    await automation.deliver("r2", "RESTORE_LINK", target=target)
    assert automation.sent.outcomes("r2") == ["ACCEPTED", "DONE"] and automation.changed == {}
    assert automation.journal is not None and automation.journal.changes == {}


async def test_a_renamed_target_that_others_drained_stays_out(automation: Automation) -> None:
    """The value under the new name is not the written one."""
    automation.device = "gnmi:leaf1:/"
    automation.restart()
    await automation.deliver()
    automation.device, automation.devices.values = "gnmi:leaf9:/", {"gnmi:leaf9:/a policy": "foreign"}
    automation.restart()
    await automation.deliver("r2", "RESTORE_LINK", target={"id": "link:x", "formerIds": [TARGET]})
    assert automation.sent.outcomes("r2") == ["ACCEPTED", "FAILED"]
    assert automation.changed == {"gnmi:leaf9:/a policy": "foreign"}


def test_the_journal_of_another_instance_is_taken_over_explicitly(tmp_path: Path) -> None:
    """A copied journal would act beside its original; each process has an instance of its own."""
    path = tmp_path / "journal.jsonl"
    first = Journal(path, "h1")
    first.accept(remediation(), NOW_NS)
    first.close()
    with pytest.raises(Exception, match=r"is of the instance h1, not h2; .* start once with --take-over h1"):
        Journal(path, "h2")
    second = Journal(path, "h2", take_over="h1")
    assert second.intents["r1"].instance == first.instance != second.instance
    second.compact(NOW_NS)
    second.close()
    third = Journal(path, "h2")
    assert third.instance.startswith("h2/") and third.instance != second.instance
    assert third.intents["r1"].instance == first.instance
    third.close()
