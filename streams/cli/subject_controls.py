"""`railsight maintenance` and `railsight exclude`: controls of a subject, with an end."""

import asyncio
import time
from dataclasses import replace
from datetime import datetime
from typing import Annotated

import typer

from streams.cli.control_table import print_controls
from streams.cli.options import TIMES, AsJson, Bootstrap, Config, ns_of, settings_of
from streams.cli.printing import print_text
from streams.cli.publish_control import HOUR_NS, Actor, Key, Reason, actor_name, fail, publish_control
from streams.cli.tables import Output, OutputForm, form_of
from streams.instrument.time_format import format_time
from streams.report.remediation_reader import current_controls
from streams.wire.access import OPERATOR
from streams.wire.control_scope import has_ended
from streams.wire.errors import Misconfigured
from streams.wire.models import Control, ControlKind

SubjectId = Annotated[
    str,
    typer.Argument(metavar="SUBJECT", help="Id of a link or port, or device:NAME, pod:NAME, plane:NUMBER."),
]
KINDS = ("link", "port", "device", "pod", "plane", "rail")


def end_ns(now_ns: int, hours: float | None, until: datetime | None, no_end: bool) -> int | None:
    """Return the end of a control; None for one without an end; raises Misconfigured unless exactly one is given."""
    if (hours is not None) + (until is not None) + no_end != 1:
        raise Misconfigured("give one of --hours, --until and --no-end")
    end = None if no_end else now_ns + round(hours * HOUR_NS) if hours is not None else ns_of(until) if until else None
    if end is not None and end <= now_ns:
        raise Misconfigured(f"the end {format_time(end)} is in the past")
    return end


def checked_subject(subject: str) -> str:
    """Return a subject id; raises Misconfigured if it is empty or of an unknown kind."""
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
    """Return the record that ends a control; it is newer than the control, also if the clocks differ."""
    at_ns = max(now_ns, (control.at_ns or 0) + 1)
    return replace(control, at_ns=at_ns, until_ns=now_ns, actor=actor, reason=reason, endless=False)


def _application(kind: ControlKind, command: str, ending: str, text: str) -> typer.Typer:
    """Return the subcommands `add`, `list`, and the one that ends a control of this kind."""
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
        config: Config = None,
        bootstrap: Bootstrap = None,
        output: OutputForm = Output.TABLE,
        as_json: AsJson = False,
    ) -> None:
        """List those that have not ended."""
        now_ns, kafka = time.time_ns(), settings_of(config, bootstrap, OPERATOR).kafka
        found = [c for c in asyncio.run(current_controls(kafka)) if c.kind is kind and not has_ended(c, now_ns)]
        print_controls(found, form_of(output, as_json), f"no {command}")

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
        found = [
            control
            for control in asyncio.run(current_controls(settings.kafka))
            if control.kind is kind and control.subject_id == subject and not has_ended(control, now_ns)
        ]
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
