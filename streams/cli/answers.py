"""`railsight approve`, `reject` and `repaired`: answers of a person to one remediation."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.printing import print_text
from streams.cli.publish_control import HOUR_NS, Actor, Key, Reason, actor_name, fail, publish_control
from streams.report.remediation_reader import NoSuchRemediation, remediation_revisions
from streams.report.render_remediation import is_rejectable, is_repairable, is_waiting, state_name
from streams.wire.access import OPERATOR
from streams.wire.models import Control, ControlKind, Remediation

Identity = Annotated[str, typer.Argument(metavar="ID", help="Id of a remediation, or a prefix of it.")]


def approve(
    identity: Identity,
    config: Config = None,
    bootstrap: Bootstrap = None,
    reason: Reason = "",
    actor: Actor = None,
    hours: Annotated[float, typer.Option(min=0.01, help="The approval ends after this time.")] = 1,
    key: Key = None,
) -> None:
    """Approve one remediation that waits for approval; the guards are evaluated again before anything is done.

    Exit 1 if no remediation, or more than one, has this id, or if it does not wait.

    Example: `railsight approve 9a41c0 --reason 'window agreed'`.
    """
    control = Control("", ControlKind.APPROVE, reason=reason, actor=actor_name(actor), until_ns=round(hours * HOUR_NS))
    _answer("approve", identity, control, is_waiting, "does not wait for approval", (config, bootstrap, key))


def reject(
    identity: Identity,
    config: Config = None,
    bootstrap: Bootstrap = None,
    reason: Reason = "",
    actor: Actor = None,
    key: Key = None,
) -> None:
    """Reject one remediation that waits for approval, or that is approved and not yet accepted by automation.

    Example: `railsight reject 9a41c0 --reason 'job ends tomorrow'`.
    """
    control = Control("", ControlKind.REJECT, reason=reason, actor=actor_name(actor))
    _answer("reject", identity, control, is_rejectable, "can no longer be rejected", (config, bootstrap, key))


def repaired(
    identity: Identity,
    config: Config = None,
    bootstrap: Bootstrap = None,
    reason: Reason = "",
    actor: Actor = None,
    key: Key = None,
) -> None:
    """Report the repair of a remediation's target; it returns to service once it qualifies.

    Example: `railsight repaired 9a41c0 --reason 'optic replaced'`.
    """
    control = Control("", ControlKind.REPAIRED, reason=reason, actor=actor_name(actor))
    _answer("repaired", identity, control, is_repairable, "has no target to repair", (config, bootstrap, key))


def answer_to(remediation: Remediation, answer: Control, now_ns: int) -> Control:
    """Return the answer to a remediation; each answer has an id of its own, because a repair may be reported again."""
    until_ns = None if answer.until_ns is None else now_ns + answer.until_ns
    identity = f"{answer.kind.name.lower()}/{remediation.id}/{now_ns}"
    return Control(identity, answer.kind, remediation.id, now_ns, until_ns, answer.actor, answer.reason)


def _answer(
    command: str,
    identity: str,
    answer: Control,
    is_possible: Callable[[Remediation], bool],
    refused: str,
    options: tuple[Path | None, str | None, Path | None],
) -> None:
    """Publish an answer to the one remediation with this id prefix; the end of `answer` is a duration."""
    config, bootstrap, key = options
    settings = settings_of(config, bootstrap, OPERATOR)
    try:
        remediation = asyncio.run(remediation_revisions(settings.kafka, identity))[-1]
    except NoSuchRemediation as error:
        fail(command, str(error))
    if not is_possible(remediation):
        fail(command, f"{remediation.id} {refused}: it is {state_name(remediation)}")
    publish_control(settings, answer_to(remediation, answer, time.time_ns()), key)
    print_text(f"{command} {remediation.id}: {remediation.action.name} {remediation.target.id}")
