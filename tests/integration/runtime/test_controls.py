"""A second terminal answers remediations and publishes controls through Kafka."""

import getpass
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from streams.config.kafka import KafkaSettings
from streams.report.open_findings import acknowledgement
from streams.report.records import current_controls
from streams.report.sent_controls import send_controls
from streams.runtime.topic_io import inventory_records, publish, read_to_end
from streams.wire.errors import Misconfigured
from streams.wire.models import Action, Control, ControlKind, Remediation, RemediationState, Subject, Verdict
from streams.wire.signatures import Signer, read_private_key
from streams.wire.topics import CONTROLS, FINDINGS_OPEN, REMEDIATIONS, REMEDIATIONS_OPEN, decode, encode
from tests.fixtures.decide_stage import finding
from tests.fixtures.slurm_chain import deciding
from tests.integration.runtime.commands import railsight
from tests.worlds.small_fabric import inventory

AT = 1_790_000_000_000_000_000
LINK = Subject("link:leaf1/e1--spine1/e1")
WAITING = Remediation(
    "aa" * 16, 2, ("f1",), Action.DRAIN_LINK, Verdict.NEEDS_APPROVAL, LINK, "it flaps", "one-sided evidence", 2, 1,
    AT, AT + 10**12, state=RemediationState.WAITING, attempt=1, actor="decide", guard=5,
)  # fmt: skip
DENIED = replace(WAITING, id="bb" * 16, state=RemediationState.DENIED, verdict=Verdict.DENIED)
SWITCH = Control("kill-switch", ControlKind.KILL_SWITCH, actor="anna", endless=True)
DRAINED = replace(WAITING, id="bc" * 16, state=RemediationState.DRAINED, verdict=Verdict.APPROVED, constraint="")


async def controls(kafka: KafkaSettings) -> list[Control]:
    messages = [decode(CONTROLS, record.value) async for record in read_to_end(kafka, CONTROLS) if record.value]
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
    assert "aaaaaaaaaaaa" in listed.stdout and "one-sided evidence (guard 5, observed 1, limit 2)" in listed.stdout
    explained = railsight("remediations", "explain", "aaaa", *at)
    assert "  passes with  readings from the other end, or a person's approval" in explained.stdout.splitlines()

    done = railsight("approve", "aaaa", "--reason", "checked by hand", "--no-wait", *at)
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
    assert railsight("repaired", "bc", "--actor", "desk", "--no-wait", *at).returncode == 0
    assert [(c.kind, c.actor) for c in await controls(kafka)][1:] == [(ControlKind.REPAIRED, "desk")]


CONFIG = """[kafka]
bootstrap = "{bootstrap}"
[decide]
mode = "act"
{decide}
[runtime]
data = "{folder}"
"""
UNCONFIRMED = "published, but not confirmed by `decide` within 5 s; it applies once `decide` reads it"


@contextmanager
def running_decide(folder: Path, bootstrap: str, decide: str = "") -> Iterator[Callable[..., tuple[int, str]]]:
    """Run `decide`, and yield a command whose result is its exit status and what it printed."""
    config, log = folder / "railsight.toml", folder / "decide.log"
    config.write_text(CONFIG.format(bootstrap=bootstrap, decide=decide, folder=folder / "data"))

    def command(*arguments: str) -> tuple[int, str]:
        done = railsight(*arguments, "--config", str(config))
        return done.returncode, done.stdout + done.stderr

    with deciding(config, log):
        for _ in range(10):  # the first command waits until `decide` has its partitions
            if command("kill-switch", "on")[0] == 0:
                break
        else:
            raise AssertionError(log.read_text()[-3000:])
        yield command


async def test_every_command_is_answered(bootstrap: str, tmp_path: Path) -> None:
    """Taken, refused with the reason, of an unknown subject with the nearest ids, or not confirmed: three statuses."""
    kafka = KafkaSettings.model_validate({"bootstrap": bootstrap})
    await publish(kafka, inventory_records(inventory(), time.time_ns() - 3600 * 10**9))
    await publish(kafka, [encode(REMEDIATIONS, replace(WAITING, target=Subject("link:p1-l0/u0--s1/p1-l0")))])
    with running_decide(tmp_path, bootstrap) as command:
        code, shown = command("kill-switch", "status")
        assert code == 0 and "taken" in shown
        assert command("kill-switch", "off") == (0, "kill switch off\n")
        code, shown = command("exclude", "add", "port:P1-L0/U0", "--hours", "1")
        assert code == 0 and shown.startswith("exclude of link:p1-l0/u0--s1/p1-l0  ")
        code, shown = command("exclude", "list")
        assert "link:p1-l0/u0--s1/p1-l0" in shown and "taken" in shown
        code, shown = command("exclude", "add", "device:p1-l00", "--hours", "1")
        assert code == 1 and "the inventory has no device:p1-l00; nearest: device:p1-l0" in shown
        code, shown = command("remediations", "close", "aaaa", "--because", "scrapped")
        assert code == 0 and "CLOSED" in shown, shown
        code, shown = command("remediations", "close", "aaaa", "--because", "scrapped")
        assert code == 1 and "refused: " in shown
        code, shown = command("exclude", "remove", "link:s1/p1-l0--p1-l0/u0")
        assert (code, shown) == (0, "ended exclude of link:p1-l0/u0--s1/p1-l0\n")
        assert command("exclude", "list") == (0, "no exclude\n")
    code, shown = command("maintenance", "add", "pod:p1", "--hours", "1")
    assert code == 3 and UNCONFIRMED in shown
    assert "not confirmed" in command("maintenance", "list")[1]
    assert command("kill-switch", "on", "--no-wait")[0] == 0
    hour_ns = 3600 * 10**9
    with pytest.raises(Misconfigured, match="is 2h00m behind the broker's; correct it"):
        await send_controls(kafka, lambda _: [], now_ns=lambda: time.time_ns() - 2 * hour_ns)
    with pytest.raises(Misconfigured, match="is 1h00m ahead of the broker's; correct it"):
        await send_controls(kafka, lambda _: [], now_ns=lambda: time.time_ns() + hour_ns)


async def test_with_trusted_keys_a_rejected_control_is_reported(bootstrap: str, tmp_path: Path) -> None:
    """The command finds the rejection of its record; a control that is signed for another fabric is one."""
    kafka = KafkaSettings.model_validate({"bootstrap": bootstrap})
    await publish(kafka, inventory_records(inventory(), time.time_ns() - 3600 * 10**9))
    key, other = tmp_path / "key", tmp_path / "other"
    public = railsight("key", "new", str(key)).stdout.strip()
    railsight("key", "new", str(other))
    with running_decide(tmp_path, bootstrap, f'trusted_keys = ["{public}"]\nsigning_key = "{key}"') as command:
        code, shown = command("kill-switch", "on", "--key", str(other))
        assert code == 1 and "refused: signed by no trusted key" in shown
        elsewhere = Signer(read_private_key(key), "elsewhere", "actor/anna")
        (sent,) = await send_controls(kafka, lambda at: [replace(SWITCH, at_ns=at)], elsewhere)
        assert sent.answer is not None and "another fabric" in sent.answer.reason
        signed = [record async for record in read_to_end(kafka, REMEDIATIONS)]
        assert signed == []


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
