"""The command `railsight`: its subcommands, and the exit codes of errors.

Imports the module of a subcommand only when it is called, so that `railsight --help` takes a fraction of a second.
Exit 0: success; 1: a problem was found, or a server does not answer; 2: misconfigured, with one line per error.
"""

import atexit
import importlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import typer


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: its name, its target (`module:attribute`, a function or a Typer), and its line of help.

    `form` is the class of a command with a help of its own, in the form of `target`; empty for typer's.
    """

    name: str
    target: str
    help: str
    form: str = ""

    def load(self) -> Any:
        """Import its target."""
        return _imported(self.target)

    def load_form(self) -> Any:
        """Import its class; None for typer's."""
        return _imported(self.form) if self.form else None


def _imported(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


COMMANDS: tuple[Command, ...] = (
    Command(
        "demo",
        "streams.cli.demo:demo",
        "Run the pipeline on a simulated fabric with faults, and score it.",
    ),
    Command("up", "streams.cli.up:up", "Run the whole pipeline on this machine with your collectors."),
    Command("init", "streams.cli.init:init", "Write a first configuration: targets, inventory, secrets."),
    Command("doctor", "streams.cli.doctor:doctor", "Check this machine and the running pipeline."),
    Command("logs", "streams.cli.logs:logs", "Print the log of a part of the running pipeline."),
    Command("broker", "streams.cli.broker:broker", "Run Apache Kafka on this machine."),
    Command("clickhouse", "streams.cli.clickhouse:clickhouse", "Run ClickHouse on this machine."),
    Command("topics", "streams.cli.topics:topics", "Create the topics, or list differences."),
    Command("acl", "streams.cli.acl:acl", "Print, apply or check the ACLs of Kafka."),
    Command("migrate", "streams.cli.migrate:migrate", "Bring the tables of ClickHouse up to date."),
    Command(
        "collect", "streams.cli.collect:collect", "Run one collector.", "streams.cli.collector_help:CollectCommand"
    ),
    Command("process", "streams.cli.process:process", "Run one stage of the pipeline, or all of them."),
    Command("persist", "streams.cli.persist:persist", "Write every topic to ClickHouse."),
    Command("notify", "streams.cli.notify:notify", "Send findings to Alertmanager."),
    Command("tickets", "streams.cli.tickets:tickets", "Send tickets to the repair desk's system."),
    Command("near", "streams.cli.near:near", "List the hosts near one, with the capacity that is left."),
    Command("place", "streams.cli.place:place", "Rank sets of hosts for a job."),
    Command("topology", "streams.cli.topology:topology", "Write the topology for schedulers."),
    Command("locality", "streams.cli.locality:locality", "Serve the locality over HTTP and publish it."),
    Command("inventory", "streams.cli.inventory:inventory", "Generate, draft, import, check or publish an inventory."),
    Command("record", "streams.cli.recordings:record", "Record what arrives, for backtests."),
    Command("export", "streams.cli.recordings:export", "Write what ClickHouse holds as a recording, for backtests."),
    Command("backtest", "streams.cli.backtest:backtest", "Run the stages over recordings or ClickHouse."),
    Command("tune", "streams.cli.tune:tune", "Propose settings for a number of findings a week."),
    Command("score", "streams.cli.score:score", "Compare findings with the ground truth."),
    Command("status", "streams.cli.status:status", "List how each device is read, and what is blind."),
    Command("top", "streams.cli.top:top", "Show the fabric, findings, links and jobs on a terminal."),
    Command("findings", "streams.cli.findings:findings", "List the open findings."),
    Command("explain", "streams.cli.explain:explain", "Print one finding with its evidence."),
    Command("job", "streams.cli.job:job", "Report whether the network was clean for a job."),
    Command("ack", "streams.cli.ack:ack", "Acknowledge a finding."),
    Command("remediations", "streams.cli.remediations:remediations", "List the open remediations, or explain one."),
    Command("lemons", "streams.cli.lemons:lemons", "List links, hosts and parts with more faults than others."),
    Command("approve", "streams.cli.answers:approve", "Approve a remediation that waits."),
    Command("reject", "streams.cli.answers:reject", "Reject a remediation."),
    Command("repaired", "streams.cli.answers:repaired", "Report the repair of a remediation's target."),
    Command("maintenance", "streams.cli.subject_controls:maintenance", "No page and no action on a subject."),
    Command("exclude", "streams.cli.subject_controls:exclude", "No action on a subject."),
    Command("kill-switch", "streams.cli.kill_switch:kill_switch", "Stop every action."),
    Command("key", "streams.cli.key:key", "Make the key that signs controls."),
    Command("config", "streams.cli.config:config", "Check a configuration, or print the settings in force."),
    Command("chaos", "streams.cli.chaos:chaos", "Run the pipeline under faults and check what was lost."),
    Command("bench", "streams.cli.bench.command:bench", "Measure what the pipeline costs on this machine."),
)
_COMPLETE = "_RAILSIGHT_COMPLETE"
"""The variable by which a shell asks for completions (typer's form)."""
_LIBRARIES = ("aiokafka", "clickhouse_connect", "urllib3")
_INTERACTIVE = {
    "chaos", "demo", "up", "inventory", "findings", "explain", "ack", "job", "remediations", "lemons", "approve",
    "reject", "repaired", "maintenance", "exclude", "kill-switch", "acl", "status", "near", "place", "topology",
    "top", "init", "doctor", "logs", "config", "record", "export",
}  # fmt: skip


def application(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line for these arguments; only the module of the named subcommand is imported."""
    names = {command.name for command in COMMANDS}
    chosen = next((argument for argument in arguments if argument in names), "")
    app = typer.Typer(
        name="railsight",
        help="Watches the network of a GPU cluster.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for command in COMMANDS:
        target = command.load() if command.name == chosen else _unloaded
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=command.name, help=command.help)
        else:
            is_loaded = target is not _unloaded
            form = command.load_form() if is_loaded else None
            app.command(command.name, cls=form, help=None if is_loaded else command.help)(target)
    return app


def main(arguments: Sequence[str] | None = None, build: Callable[[Sequence[str]], typer.Typer] = application) -> None:
    """Run the command line and end the process with its exit code."""
    from streams.wire.errors import Misconfigured, Retry

    given = sys.argv[1:] if arguments is None else list(arguments)
    # Data, logs and passwords are for the user who runs this, as are those of its child processes.
    os.umask(0o077)
    try:
        build([*given, *_completed_words(os.environ)])(args=given, prog_name="railsight")
    except Misconfigured as error:
        _refuse(error, 2)
    except Retry as error:
        _refuse(error, 1)
    except BrokenPipeError:
        # The reader of the output has closed it (`railsight findings | head`).
        sys.stderr.close()
        sys.exit(0)


def _completed_words(environ: Mapping[str, str]) -> list[str]:
    """Return the words of the line that a shell completes, whose subcommand must be loaded; empty for a normal run."""
    if _COMPLETE not in environ:
        return []
    return f"{environ.get('COMP_WORDS', '')} {environ.get('_TYPER_COMPLETE_ARGS', '')}".split()


def _refuse(error: Exception, code: int) -> None:
    from streams.cli.printing import print_text

    for line in str(error).splitlines() or [type(error).__name__]:
        print_text(f"railsight: {line}", err=True)
    sys.exit(code)


def _print_version(given: bool) -> None:
    if given:
        from importlib.metadata import version

        typer.echo(f"railsight {version('railsight')}")
        raise typer.Exit


def _options(
    context: typer.Context,
    log_level: str = typer.Option("info", help="debug, info, warning or error."),
    log_format: str = typer.Option("auto", help="text, json, or auto: text on a terminal, json elsewhere."),
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    if context.resilient_parsing:
        return
    from streams.runtime.log_setup import FORMATS, LEVELS, configure_logging

    if log_level not in LEVELS:
        raise typer.BadParameter(f"one of {', '.join(LEVELS)}", param_hint="--log-level")
    if log_format not in FORMATS:
        raise typer.BadParameter(f"one of {', '.join(FORMATS)}", param_hint="--log-format")
    # These commands report starting and killed brokers themselves; the libraries' warnings would repeat it.
    muted = _LIBRARIES if context.invoked_subcommand in _INTERACTIVE else ()
    configure_logging(log_level, muted=muted, log_format=log_format)


def _unloaded() -> None:
    raise AssertionError("only the called subcommand is loaded")


def program() -> NoReturn:
    """Run `main` as a process, and end it as the interpreter does, but for freeing each object.

    That took a collector of 20 devices 0.25 CPU seconds after all its work was done, which is 3 to 9 s on a machine
    with a load of 40: longer than a stop may take (docs/supervision.md).
    """
    ended = SystemExit(0)
    try:
        main()
    except SystemExit as end:
        # Kept until the process is gone: an event loop that Ctrl-C met while it was made would warn when it is freed.
        ended = end
    code = ended.code
    if isinstance(code, str):
        sys.exit(code)
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 — it waits for threads, as the interpreter does
    atexit._run_exitfuncs()  # noqa: SLF001 — as above
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    program()
