"""Defines the commands for controls: ack, approve, reject, repaired, returned, maintenance, exclude and kill-switch."""

import asyncio
import getpass
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streams.cli.options import TIMES, AsJson, Bootstrap, Config, ns_of, settings_of
from streams.cli.printing import Output, OutputForm, echo, fail, form_of, print_rows, print_text
from streams.config.settings import Settings
from streams.decide.controls import refusal
from streams.fabric.subject_search import KINDS
from streams.instrument.text import format_time, in_words
from streams.report.open_findings import acknowledge
from streams.report.records import NoSuchRemediation, remediation_revisions
from streams.report.render import is_rejectable, is_repairable, is_waiting, state_name
from streams.report.sent_controls import ANSWER_S, SentControl, controls_in_effect, find_subject_now, send_controls
from streams.wire import codec
from streams.wire.errors import Misconfigured
from streams.wire.models import Control, ControlEffect, ControlKind, Remediation
from streams.wire.topics import OPERATOR, Record

if TYPE_CHECKING:
    from streams.wire.signatures import Signer

Actor = Annotated[str | None, typer.Option("--actor", help="Person or program; default: the login name.")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the record.")]
Key = Annotated[
    Path | None, typer.Option("--key", help="File of the private key that signs; default: decide.signing_key.")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for the answer of `decide`.")]
HOUR_NS = 3_600_000_000_000
UNCONFIRMED = 3
"""The exit status if `decide` has not answered: the control is published and applies once it is read."""


def actor_name(actor: str | None) -> str:
    """Return the actor of a control."""
    return actor or getpass.getuser()


def publish_controls(
    command: str, settings: Settings, controls_at: Callable[[int], Sequence[Control]], key: Path | None, *,
    no_wait: bool, tombstones: Sequence[Record] = (),
) -> list[SentControl]:  # fmt: skip
    """Publish the controls for the broker's time, print each with its answer, and exit unless all are taken.

    Raises Misconfigured if one is invalid or must be signed, or if the clock of this machine is off.
    """
    for control in controls_at(time.time_ns()):
        if reason := refusal(control):
            raise Misconfigured(reason)
    signer = _signer(settings, key)
    wait_s = 0 if no_wait else ANSWER_S
    sent = asyncio.run(send_controls(settings.kafka, controls_at, signer, wait_s, tombstones=tombstones))
    codes = [0 if no_wait else _print_answer(command, one) for one in sent]
    if code := max(codes, default=0):
        raise typer.Exit(code)
    return sent


def _print_answer(command: str, sent: SentControl) -> int:
    """Print the answer to a control, and return the exit status."""
    answer = sent.answer
    if answer is None:
        text = f"published, but not confirmed by `decide` within {ANSWER_S:g} s; it applies once `decide` reads it"
        print_text(f"railsight {command}: {text} (`railsight status` shows whether it runs)", err=True)
        return UNCONFIRMED
    if answer.effect is ControlEffect.TAKEN:
        if answer.reason:
            print_text(answer.reason)
        return 0
    print_text(f"railsight {command}: refused: {answer.reason}{_nearest(answer.nearest)}", err=True)
    return 1


def _nearest(names: Sequence[str]) -> str:
    return f"; nearest: {', '.join(names)}" if names else ""


def _signer(settings: Settings, key: Path | None) -> "Signer | None":
    path = key or settings.decide.signing_key
    if path is None:
        if settings.decide.trusted_keys:
            raise Misconfigured("controls must be signed (decide.trusted_keys); pass --key or set decide.signing_key")
        return None
    from streams.wire.signatures import Signer, read_private_key

    return Signer(read_private_key(path), settings.kafka.cluster, f"actor/{getpass.getuser()}")


def _in_effect(settings: Settings, kind: ControlKind) -> tuple[list[Control], list[Record]]:
    return asyncio.run(controls_in_effect(settings.kafka, kind, time.time_ns()))


def _print_controls(controls: Sequence[Control], form: Output, empty: str) -> None:
    header = ["KIND", "SUBJECT", "FROM", "UNTIL", "ACTOR", "DECIDE", "REASON"]
    print_rows(form, controls, codec.to_json, header, _cells, empty)


def _cells(control: Control) -> list[str]:
    until = "no end" if control.until_ns is None else format_time(control.until_ns)
    kind, begin = in_words(control.kind.name), format_time(control.at_ns)
    answer = "taken" if control.arrived_at_ns else "not confirmed"
    return [kind, control.subject_id or "everything", begin, until, control.actor, answer, control.reason]


SubjectId = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="Id of a link or port, or device:NAME, rail:NUMBER, rail:HOST/NUMBER, pod:NAME, plane:NUMBER, job:ID.",
    ),
]


def end_ns(now_ns: int, hours: float | None, until: datetime | None, no_end: bool) -> int | None:
    """Return the end of a control, or None for no end; raises Misconfigured unless exactly one option is set."""
    if (hours is not None) + (until is not None) + no_end != 1:
        raise Misconfigured("give one of --hours, --until and --no-end")
    end = None if no_end else now_ns + round(hours * HOUR_NS) if hours is not None else ns_of(until) if until else None
    if end is not None and end <= now_ns:
        raise Misconfigured(f"the end {format_time(end)} is in the past")
    return end


def _subject_id(command: str, settings: Settings, text: str) -> str:
    """Return the id of a subject in the inventory; exit 1 if it has none, raises Misconfigured without a name."""
    kind, colon, name = text.partition(":")
    if not (name if colon else kind).strip():
        raise Misconfigured("SUBJECT is empty; only the kill switch applies to everything")
    if colon and kind.casefold() not in KINDS:
        raise Misconfigured(f"unknown kind of subject {kind}; one of {', '.join(KINDS)}")
    found = asyncio.run(find_subject_now(settings.kafka, text, time.time_ns()))
    if not found.subject_id:
        fail(command, f"the inventory has no {text}{_nearest(found.nearest)}")
    return found.subject_id


def control_line(control: Control) -> str:
    """Return a control on one line."""
    end = "no end" if control.until_ns is None else f"until {format_time(control.until_ns)}"
    fields = (control.subject_id or "everything", format_time(control.at_ns), end, control.actor, control.reason)
    return "  ".join(field for field in fields if field)


def ended(control: Control, now_ns: int, actor: str, reason: str) -> Control:
    """Return the record that ends a control now."""
    return Control(control.id, control.kind, control.subject_id, now_ns, now_ns, actor, reason)


def _end_of(controls: Sequence[Control], actor: str | None, reason: str) -> Callable[[int], list[Control]]:
    by_id = {control.id: control for control in controls}
    return lambda now_ns: [ended(one, now_ns, actor_name(actor), reason) for one in by_id.values()]


def _application(kind: ControlKind, command: str, ending: str, text: str) -> typer.Typer:
    """Return an application with the subcommands `add`, `list`, and the one that ends a control of this kind."""
    app = typer.Typer(no_args_is_help=True, help=text)

    @app.command(epilog=f"Example: `railsight {command} add device:leaf1 --hours 2 --reason 'new optic'`.")
    def add(
        subject: SubjectId,
        config: Config = None,
        bootstrap: Bootstrap = None,
        hours: Annotated[float | None, typer.Option(min=0.01, help="Duration.")] = None,
        since: Annotated[datetime | None, typer.Option("--from", formats=TIMES, help="Begin; default: now.")] = None,
        until: Annotated[datetime | None, typer.Option(formats=TIMES, help="End, UTC.")] = None,
        no_end: Annotated[bool, typer.Option("--no-end", help="Without an end, on purpose.")] = False,
        reason: Reason = "",
        actor: Actor = None,
        key: Key = None,
        no_wait: NoWait = False,
    ) -> None:
        """Add one; the same subject again replaces it."""
        end_ns(time.time_ns() if since is None else ns_of(since), hours, until, no_end)
        settings = settings_of(config, bootstrap, OPERATOR)
        name = _subject_id(f"{command} add", settings, subject)

        def control_at(now_ns: int) -> list[Control]:
            begin = now_ns if since is None else ns_of(since)
            end = end_ns(begin, hours, until, no_end)
            return [Control(f"{command}/{name}", kind, name, begin, end, actor_name(actor), reason, no_end)]

        (sent,) = publish_controls(f"{command} add", settings, control_at, key, no_wait=no_wait)
        print_text(f"{command} of {control_line(sent.control)}")

    @app.command("list", epilog=f"Examples: `railsight {command} list`, `railsight {command} list -o json`.")
    def list_active(
        config: Config = None, bootstrap: Bootstrap = None, output: OutputForm = Output.TABLE, as_json: AsJson = False
    ) -> None:
        """List those that have not ended; `decide` has taken those with an arrival."""
        found, _ = _in_effect(settings_of(config, bootstrap, OPERATOR), kind)
        _print_controls(found, form_of(output, as_json), f"no {command}")

    @app.command(ending, epilog=f"Example: `railsight {command} {ending} device:leaf1`.")
    def end(
        subject: SubjectId,
        config: Config = None,
        bootstrap: Bootstrap = None,
        reason: Reason = "",
        actor: Actor = None,
        key: Key = None,
        no_wait: NoWait = False,
    ) -> None:
        """End all of a subject now; exit 1 if there is none."""
        settings = settings_of(config, bootstrap, OPERATOR)
        found, over = _in_effect(settings, kind)
        if not (own := [control for control in found if control.subject_id == subject]):
            name = _subject_id(f"{command} {ending}", settings, subject)
            if not (own := [control for control in found if control.subject_id == name]):
                fail(f"{command} {ending}", f"no {command} of {name}")
        end_all = _end_of(own, actor, reason)
        publish_controls(f"{command} {ending}", settings, end_all, key, no_wait=no_wait, tombstones=over)
        print_text(f"ended {command} of {own[0].subject_id}")

    return app


maintenance = _application(
    ControlKind.MAINTENANCE, "maintenance", "end", "Maintenance of a subject: no page, and no action."
)
exclude = _application(ControlKind.EXCLUDE, "exclude", "remove", "Exclude a subject from actions; it still pages.")


IDENTITY = "kill-switch"

kill_switch = typer.Typer(no_args_is_help=True, help="Stop every action.")


@kill_switch.command()
def on(
    config: Config = None,
    bootstrap: Bootstrap = None,
    hours: Annotated[float | None, typer.Option(min=0.01, help="Duration; default: until it is off.")] = None,
    reason: Reason = "",
    actor: Actor = None,
    key: Key = None,
    no_wait: NoWait = False,
) -> None:
    """Stop every action; approvals that are not carried out yet are revoked, restores go on.

    Example: `railsight kill-switch on --hours 2 --reason 'change freeze'`.
    """

    def control_at(now_ns: int) -> list[Control]:
        until_ns = None if hours is None else now_ns + round(hours * HOUR_NS)
        own = Control(IDENTITY, ControlKind.KILL_SWITCH, "", now_ns, until_ns, actor_name(actor), reason, hours is None)
        return [own]

    settings = settings_of(config, bootstrap, OPERATOR)
    (sent,) = publish_controls("kill-switch on", settings, control_at, key, no_wait=no_wait)
    print_text(f"kill switch on: {control_line(sent.control)}")


@kill_switch.command()
def off(
    config: Config = None, bootstrap: Bootstrap = None, reason: Reason = "", actor: Actor = None, key: Key = None,
    no_wait: NoWait = False,
) -> None:  # fmt: skip
    """End every kill switch; what was revoked is evaluated again.

    Example: `railsight kill-switch off`.
    """
    settings = settings_of(config, bootstrap, OPERATOR)
    found, over = _in_effect(settings, ControlKind.KILL_SWITCH)
    if found:
        end_all = _end_of(found, actor, reason)
        publish_controls("kill-switch off", settings, end_all, key, no_wait=no_wait, tombstones=over)
    echo("kill switch off" if found else "kill switch was off")


@kill_switch.command()
def status(
    config: Config = None, bootstrap: Bootstrap = None, output: OutputForm = Output.TABLE, as_json: AsJson = False
) -> None:
    """Print the kill switches that are on, and whether `decide` has taken them.

    Examples: `railsight kill-switch status`, `railsight kill-switch status -o json`.
    """
    found, _ = _in_effect(settings_of(config, bootstrap, OPERATOR), ControlKind.KILL_SWITCH)
    _print_controls(found, form_of(output, as_json), "kill switch off")


Identity = Annotated[str, typer.Argument(metavar="ID", help="Id of a remediation, or a prefix of it.")]


def approve(
    identity: Identity,
    config: Config = None,
    bootstrap: Bootstrap = None,
    reason: Reason = "",
    actor: Actor = None,
    hours: Annotated[float, typer.Option(min=0.01, help="The approval ends after this time.")] = 1,
    key: Key = None,
    no_wait: NoWait = False,
) -> None:
    """Approve one remediation that waits for approval; the guards are evaluated again before anything is done.

    Exit 1 if no remediation, or more than one, has this id, or if it does not wait.

    Example: `railsight approve 9a41c0 --reason 'window agreed'`.
    """
    control = Control("", ControlKind.APPROVE, reason=reason, actor=actor_name(actor), until_ns=round(hours * HOUR_NS))
    options = (config, bootstrap, key, no_wait)
    answer("approve", identity, control, options, is_waiting, "does not wait for approval")


def _answering(
    kind: ControlKind, text: str, is_possible: Callable[[Remediation], bool] = lambda _: True, refused: str = ""
) -> Callable[..., None]:
    """Return the command of an answer without an end; `text` is its help."""

    def command(
        identity: Identity,
        config: Config = None,
        bootstrap: Bootstrap = None,
        reason: Reason = "",
        actor: Actor = None,
        key: Key = None,
        no_wait: NoWait = False,
    ) -> None:
        control = Control("", kind, reason=reason, actor=actor_name(actor))
        answer(kind.name.lower(), identity, control, (config, bootstrap, key, no_wait), is_possible, refused)

    command.__doc__ = text
    return command


reject = _answering(
    ControlKind.REJECT,
    """Reject one remediation that automation has not accepted, or that failed; only another cause decides it again.

    Example: `railsight reject 9a41c0 --reason 'job ends tomorrow'`.
    """, is_rejectable, "can no longer be rejected",
)  # fmt: skip
repaired = _answering(
    ControlKind.REPAIRED,
    """Report the repair of a remediation's target; it returns to service once it qualifies.

    Example: `railsight repaired 9a41c0 --reason 'optic replaced'`.
    """, is_repairable, "has no target to repair",
)  # fmt: skip
returned = _answering(
    ControlKind.RETURNED,
    """Report that a remediation's target is in service again; the remediation ends, and nothing is restored.

    Example: `railsight returned 9a41c0 --reason 'resumed in Slurm by hand'`.
    """,
)


def answer_to(remediation: Remediation, answer: Control, now_ns: int) -> Control:
    """Return the answer to a remediation; each answer has a new id, because a repair may be reported again."""
    until_ns = None if answer.until_ns is None else now_ns + answer.until_ns
    identity = f"{answer.kind.name.lower()}/{remediation.id}/{now_ns}"
    return replace(answer, id=identity, subject_id=remediation.id, at_ns=now_ns, until_ns=until_ns)


def answer(
    command: str, identity: str, control: Control,
    options: tuple[Path | None, str | None, Path | None, bool],
    is_possible: Callable[[Remediation], bool] = lambda _: True, refused: str = "",
) -> None:  # fmt: skip
    """Publish an answer to the one remediation with this id prefix; the end of `control` is a duration."""
    config, bootstrap, key, no_wait = options
    settings = settings_of(config, bootstrap, OPERATOR)
    try:
        remediation = asyncio.run(remediation_revisions(settings.kafka, identity))[-1]
    except NoSuchRemediation as error:
        fail(command, error)
    if not is_possible(remediation):
        fail(command, f"{remediation.id} {refused}: it is {state_name(remediation)}")
    publish_controls(command, settings, lambda now: [answer_to(remediation, control, now)], key, no_wait=no_wait)
    print_text(f"{command} {remediation.id}: {remediation.action.name} {remediation.target.id}")


def ack(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of an open finding, or a prefix of it.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    reason: Annotated[str, typer.Option(help="Reason, for the record.")] = "",
    hours: Annotated[float | None, typer.Option(min=0, help="Duration; default: until it is resolved.")] = None,
) -> None:
    """Acknowledge one open finding; exit 1 if no open finding, or more than one, has this id.

    Acknowledgements that have no effect any more are removed from their topic.

    Example: `railsight ack 17f22e --reason 'cable is ordered' --hours 24`.
    """
    echo(acknowledge(settings_of(config, bootstrap, OPERATOR).kafka, identity, reason, hours))
