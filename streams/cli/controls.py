"""Defines the commands for controls: ack, approve, reject, repaired, maintenance, exclude and kill-switch."""

import asyncio
import getpass
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import TIMES, AsJson, Bootstrap, Config, ns_of, settings_of
from streams.cli.printing import Output, OutputForm, echo, fail, form_of, print_rows, print_text
from streams.config.settings import Settings
from streams.decide.controls import refusal
from streams.instrument.text import format_time
from streams.report.open_findings import acknowledge
from streams.report.records import NoSuchRemediation, current_controls, remediation_revisions
from streams.report.render import is_rejectable, is_repairable, is_waiting, state_name
from streams.runtime.topic_io import publish
from streams.wire import codec
from streams.wire.control_scope import has_ended
from streams.wire.errors import Misconfigured
from streams.wire.models import Control, ControlKind, Remediation
from streams.wire.topics import CONTROLS, OPERATOR, encode

Actor = Annotated[str | None, typer.Option("--actor", help="Person or program; default: the login name.")]
Reason = Annotated[str, typer.Option("--reason", help="Reason, for the record.")]
Key = Annotated[
    Path | None, typer.Option("--key", help="File of the private key that signs; default: decide.signing_key.")
]
HOUR_NS = 3_600_000_000_000


def actor_name(actor: str | None) -> str:
    """Return the actor of a control."""
    return actor or getpass.getuser()


def publish_control(settings: Settings, control: Control, key: Path | None = None) -> None:
    """Publish a control and wait for its acknowledgement; raises Misconfigured if it is invalid."""
    if reason := refusal(control):
        raise Misconfigured(reason)
    record = encode(CONTROLS, control)
    path = key or settings.decide.signing_key
    if path is None and settings.decide.trusted_keys:
        raise Misconfigured("controls must be signed (decide.trusted_keys); pass --key or set decide.signing_key")
    if path is not None:
        from streams.wire.signatures import Signer, read_private_key

        signer = Signer(read_private_key(path), settings.kafka.cluster, f"actor/{control.actor}")
        record = signer.sign(record, time.time_ns())
    asyncio.run(publish(settings.kafka, [record]))


def _active(settings: Settings, kind: ControlKind, now_ns: int) -> list[Control]:
    """Return the controls of a kind that have not ended."""
    controls = asyncio.run(current_controls(settings.kafka))
    return [control for control in controls if control.kind is kind and not has_ended(control, now_ns)]


def _print_controls(controls: Sequence[Control], form: Output, empty: str) -> None:
    header = ["KIND", "SUBJECT", "FROM", "UNTIL", "ACTOR", "REASON"]
    print_rows(form, controls, codec.to_json, header, _cells, empty)


def _cells(control: Control) -> list[str]:
    until = "no end" if control.until_ns is None else format_time(control.until_ns)
    kind = control.kind.name.lower().replace("_", " ")
    return [kind, control.subject_id or "everything", format_time(control.at_ns), until, control.actor, control.reason]


SubjectId = Annotated[
    str, typer.Argument(metavar="SUBJECT", help="Id of a link or port, or device:NAME, pod:NAME, plane:NUMBER.")
]
KINDS = ("link", "port", "device", "pod", "plane", "rail")


def end_ns(now_ns: int, hours: float | None, until: datetime | None, no_end: bool) -> int | None:
    """Return the end of a control, or None for no end; raises Misconfigured unless exactly one option is set."""
    if (hours is not None) + (until is not None) + no_end != 1:
        raise Misconfigured("give one of --hours, --until and --no-end")
    end = None if no_end else now_ns + round(hours * HOUR_NS) if hours is not None else ns_of(until) if until else None
    if end is not None and end <= now_ns:
        raise Misconfigured(f"the end {format_time(end)} is in the past")
    return end


def checked_subject(subject: str) -> str:
    """Return a valid subject id; raises Misconfigured if it is empty or has an unknown kind."""
    kind, colon, name = subject.partition(":")
    if not subject.strip() or (colon and not name):
        raise Misconfigured("SUBJECT is empty; only the kill switch applies to everything")
    if colon and kind not in KINDS:
        raise Misconfigured(f"unknown kind of subject {kind}; one of {', '.join(KINDS)}")
    return subject


def control_line(control: Control) -> str:
    """Return a control on one line."""
    end = "no end" if control.until_ns is None else f"until {format_time(control.until_ns)}"
    fields = (control.subject_id or "everything", format_time(control.at_ns), end, control.actor, control.reason)
    return "  ".join(field for field in fields if field)


def ended(control: Control, now_ns: int, actor: str, reason: str) -> Control:
    """Return the record that ends a control; it is newer than the control even if the clocks differ."""
    at_ns = max(now_ns, (control.at_ns or 0) + 1)
    return replace(control, at_ns=at_ns, until_ns=now_ns, actor=actor, reason=reason, endless=False)


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
    ) -> None:
        """Add one; the same subject again replaces it."""
        begin = time.time_ns() if since is None else ns_of(since)
        until_ns = end_ns(begin, hours, until, no_end)
        name = checked_subject(subject)
        control = Control(f"{command}/{name}", kind, name, begin, until_ns, actor_name(actor), reason, no_end)
        publish_control(settings_of(config, bootstrap, OPERATOR), control, key)
        print_text(f"{command} of {control_line(control)}")

    @app.command("list", epilog=f"Examples: `railsight {command} list`, `railsight {command} list -o json`.")
    def list_active(
        config: Config = None, bootstrap: Bootstrap = None, output: OutputForm = Output.TABLE, as_json: AsJson = False
    ) -> None:
        """List those that have not ended."""
        found = _active(settings_of(config, bootstrap, OPERATOR), kind, time.time_ns())
        _print_controls(found, form_of(output, as_json), f"no {command}")

    @app.command(ending, epilog=f"Example: `railsight {command} {ending} device:leaf1`.")
    def end(
        subject: SubjectId,
        config: Config = None,
        bootstrap: Bootstrap = None,
        reason: Reason = "",
        actor: Actor = None,
        key: Key = None,
    ) -> None:
        """End all of a subject now; exit 1 if there is none."""
        settings, now_ns = settings_of(config, bootstrap, OPERATOR), time.time_ns()
        found = [control for control in _active(settings, kind, now_ns) if control.subject_id == subject]
        if not found:
            fail(f"{command} {ending}", f"no {command} of {subject or 'an empty subject'}")
        for control in found:
            publish_control(settings, ended(control, now_ns, actor_name(actor), reason), key)
            print_text(f"ended {command} of {control.subject_id}")

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
) -> None:
    """Stop every action; approvals that are not carried out yet are revoked, restores go on.

    Example: `railsight kill-switch on --hours 2 --reason 'change freeze'`.
    """
    now_ns = time.time_ns()
    until_ns = None if hours is None else now_ns + round(hours * HOUR_NS)
    control = Control(
        IDENTITY, ControlKind.KILL_SWITCH, "", now_ns, until_ns, actor_name(actor), reason, endless=hours is None
    )
    publish_control(settings_of(config, bootstrap, OPERATOR), control, key)
    print_text(f"kill switch on: {control_line(control)}")


@kill_switch.command()
def off(
    config: Config = None, bootstrap: Bootstrap = None, reason: Reason = "", actor: Actor = None, key: Key = None
) -> None:
    """End every kill switch; what was revoked is evaluated again.

    Example: `railsight kill-switch off`.
    """
    settings, now_ns = settings_of(config, bootstrap, OPERATOR), time.time_ns()
    found = _active(settings, ControlKind.KILL_SWITCH, now_ns)
    for control in found:
        publish_control(settings, ended(control, now_ns, actor_name(actor), reason), key)
    typer.echo("kill switch off" if found else "kill switch was off")


@kill_switch.command()
def status(
    config: Config = None, bootstrap: Bootstrap = None, output: OutputForm = Output.TABLE, as_json: AsJson = False
) -> None:
    """Print the kill switches that are on.

    Examples: `railsight kill-switch status`, `railsight kill-switch status -o json`.
    """
    found = _active(settings_of(config, bootstrap, OPERATOR), ControlKind.KILL_SWITCH, time.time_ns())
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
) -> None:
    """Approve one remediation that waits for approval; the guards are evaluated again before anything is done.

    Exit 1 if no remediation, or more than one, has this id, or if it does not wait.

    Example: `railsight approve 9a41c0 --reason 'window agreed'`.
    """
    control = Control("", ControlKind.APPROVE, reason=reason, actor=actor_name(actor), until_ns=round(hours * HOUR_NS))
    _answer("approve", identity, control, is_waiting, "does not wait for approval", (config, bootstrap, key))


def _answering(
    kind: ControlKind, command: str, is_possible: Callable[[Remediation], bool], refused: str, text: str
) -> Callable[..., None]:
    """Return the command of an answer without an end; `text` is its help."""

    def answer(
        identity: Identity,
        config: Config = None,
        bootstrap: Bootstrap = None,
        reason: Reason = "",
        actor: Actor = None,
        key: Key = None,
    ) -> None:
        control = Control("", kind, reason=reason, actor=actor_name(actor))
        _answer(command, identity, control, is_possible, refused, (config, bootstrap, key))

    answer.__doc__ = text
    return answer


reject = _answering(
    ControlKind.REJECT, "reject", is_rejectable, "can no longer be rejected",
    """Reject one remediation that waits for approval, or that is approved and not yet accepted by automation.

    Example: `railsight reject 9a41c0 --reason 'job ends tomorrow'`.
    """,
)  # fmt: skip
repaired = _answering(
    ControlKind.REPAIRED, "repaired", is_repairable, "has no target to repair",
    """Report the repair of a remediation's target; it returns to service once it qualifies.

    Example: `railsight repaired 9a41c0 --reason 'optic replaced'`.
    """,
)  # fmt: skip


def answer_to(remediation: Remediation, answer: Control, now_ns: int) -> Control:
    """Return the answer to a remediation; each answer has a new id, because a repair may be reported again."""
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
        fail(command, error)
    if not is_possible(remediation):
        fail(command, f"{remediation.id} {refused}: it is {state_name(remediation)}")
    publish_control(settings, answer_to(remediation, answer, time.time_ns()), key)
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
