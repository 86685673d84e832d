"""A second terminal answers remediations and publishes controls through Kafka."""

import getpass
import time
from dataclasses import replace
from pathlib import Path

from streams.config.kafka import KafkaSettings
from streams.decide.controls import Controls
from streams.report.open_findings import acknowledgement
from streams.report.records import current_controls
from streams.runtime.topic_io import publish, read_to_end
from streams.wire.errors import Reject
from streams.wire.models import Action, Control, ControlKind, Remediation, RemediationState, Subject, Verdict
from streams.wire.signatures import SignatureVerifier
from streams.wire.topics import CONTROLS, FINDINGS_OPEN, REMEDIATIONS, REMEDIATIONS_OPEN, decode, encode
from tests.fixtures.decide_stage import finding
from tests.integration.runtime.commands import railsight

AT = 1_790_000_000_000_000_000
LINK = Subject("link:leaf1/e1--spine1/e1")
WAITING = Remediation(
    "aa" * 16, 2, ("f1",), Action.DRAIN_LINK, Verdict.NEEDS_APPROVAL, LINK, "it flaps", "one-sided evidence", 2, 1,
    AT, AT + 10**12, state=RemediationState.WAITING, attempt=1, actor="decide", guard=5,
)  # fmt: skip
DENIED = replace(WAITING, id="bb" * 16, state=RemediationState.DENIED, verdict=Verdict.DENIED)
DRAINED = replace(WAITING, id="bc" * 16, state=RemediationState.DRAINED, verdict=Verdict.APPROVED, constraint="")


async def controls(kafka: KafkaSettings) -> list[Control]:
    messages = [decode(CONTROLS, record.value) async for record in read_to_end(kafka, CONTROLS)]
    return [message for message in messages if isinstance(message, Control)]


async def test_a_second_terminal_approves(bootstrap: str) -> None:
    """The approval reaches the topic with actor, reason and end; an unknown or denied id is refused in one line."""
    kafka = KafkaSettings.model_validate({"bootstrap": bootstrap})
    published = [WAITING, DENIED, DRAINED]
    await publish(kafka, [encode(REMEDIATIONS, replace(WAITING, revision=1, state=RemediationState.PROPOSED))])
    await publish(kafka, [encode(REMEDIATIONS, one) for one in published])
    await publish(kafka, [encode(REMEDIATIONS_OPEN, one, key=one.id) for one in published])
    at = ("--bootstrap", bootstrap)

    listed = railsight("remediations", *at)
    assert "aaaaaaaaaaaa" in listed.stdout and "5 one-sided evidence (observed 1, limit 2)" in listed.stdout
    explained = railsight("remediations", "explain", "aaaa", *at)
    assert "  passes with  readings from the other end, or a person's approval" in explained.stdout.splitlines()

    done = railsight("approve", "aaaa", "--reason", "checked by hand", *at)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"approve {WAITING.id}: DRAIN_LINK {LINK.id}\n"
    (approval,) = await controls(kafka)
    assert (approval.kind, approval.subject_id, approval.actor, approval.reason) == (
        ControlKind.APPROVE, WAITING.id, getpass.getuser(), "checked by hand",
    )  # fmt: skip
    assert approval.at_ns is not None and approval.until_ns == approval.at_ns + 3_600_000_000_000

    refused = [
        (("approve", "cc"), "railsight approve: no remediation cc"),
        (("approve", "b"), f"railsight approve: several: {DENIED.id}, {DRAINED.id}"),
        (("approve", "bb"), f"railsight approve: {DENIED.id} does not wait for approval: it is DENIED"),
        (("reject", "bc"), f"railsight reject: {DRAINED.id} can no longer be rejected: it is DRAINED"),
        (("repaired", "aa"), f"railsight repaired: {WAITING.id} has no target to repair: it is WAITING"),
    ]
    for arguments, line in refused:
        ended = railsight(*arguments, *at)
        assert (ended.returncode, ended.stderr) == (1, f"{line}\n")
    assert len(await controls(kafka)) == 1
    assert railsight("repaired", "bc", "--actor", "desk", *at).returncode == 0
    assert [(c.kind, c.actor) for c in await controls(kafka)][1:] == [(ControlKind.REPAIRED, "desk")]


async def test_controls_are_added_listed_and_ended(bootstrap: str, tmp_path: Path) -> None:
    """Each ends by a newer record with the same id; with a key, each is signed."""
    kafka = KafkaSettings.model_validate({"bootstrap": bootstrap})
    key = tmp_path / "key"
    public = railsight("key", "new", str(key)).stdout.strip()
    at = ("--bootstrap", bootstrap)
    assert railsight("kill-switch", "on", "--reason", "storm", "--key", str(key), *at).returncode == 0
    assert "everything" in railsight("kill-switch", "status", *at).stdout
    assert railsight("kill-switch", "off", "--key", str(key), *at).returncode == 0
    assert railsight("kill-switch", "status", *at).stdout == "kill switch off\n"
    assert railsight("maintenance", "add", "device:leaf1", "--hours", "2", *at).returncode == 0
    assert "device:leaf1" in railsight("maintenance", "list", *at).stdout
    assert railsight("exclude", "list", *at).stdout == "no exclude\n"
    assert railsight("maintenance", "end", "device:leaf1", *at).stdout == "ended maintenance of device:leaf1\n"
    missing = railsight("maintenance", "end", "device:leaf1", *at)
    assert (missing.returncode, missing.stderr) == (1, "railsight maintenance end: no maintenance of device:leaf1\n")

    strict, verifier, unsigned = Controls(strict=True), SignatureVerifier([public], "local"), 0
    async for record in read_to_end(kafka, CONTROLS):
        try:
            verifier.verify(CONTROLS, record.key, record.value, record.headers, record.timestamp * 10**6)
        except Reject:
            unsigned += 1
            continue
        message = decode(CONTROLS, record.value, record.headers)
        assert isinstance(message, Control) and strict.update(message) == ""
    strict.loaded = True
    assert [control.id for control in strict.dump()] == ["kill-switch"]
    assert strict.kill_switch(AT * 2) is None and unsigned >= 2


async def test_an_acknowledgement_removes_those_without_effect(bootstrap: str) -> None:
    """Ended ones, and those of findings that are over for a day, leave the topic; others stay."""
    kafka, now = KafkaSettings.model_validate({"bootstrap": bootstrap}), time.time_ns()
    flap = finding("p1-l0/u0")
    day_ns = 86_400_000_000_000
    effective = [
        acknowledgement("just-over", now, None, "anna", ""),
        replace(acknowledgement("other", now - 9 * day_ns, None, "anna", ""), kind=ControlKind.EXCLUDE, endless=True),
    ]
    over = [
        acknowledgement("long-over", now - 2 * day_ns, None, "anna", ""),
        acknowledgement("ended", now - 10, now - 5, "anna", ""),
    ]
    await publish(kafka, [encode(CONTROLS, one) for one in (*effective, *over)])
    await publish(kafka, [encode(FINDINGS_OPEN, flap, key=flap.id)])
    done = railsight("ack", flap.id, "--reason", "known", "--bootstrap", bootstrap)
    assert (done.returncode, done.stderr) == (0, "")
    assert {one.id for one in await current_controls(kafka)} == {*(one.id for one in effective), f"ack/{flap.id}"}
