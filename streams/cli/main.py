"""The command `railsight`: which subcommands there are, and what an error's exit code is.

A subcommand's module is imported only when it is the one called, so that `railsight --help` takes a fraction of a
second. Exit 0: fine; 1: a problem was found, or the far side is away; 2: misconfigured, one clear line each.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: its name, where it lives (`module:attribute`, a function or a Typer), and its line of help."""

    name: str
    where: str
    help: str

    def load(self) -> Any:
        """Import what it names."""
        module, _, attribute = self.where.partition(":")
        return getattr(importlib.import_module(module), attribute)


COMMANDS: tuple[Command, ...] = (
    Command(
        "demo",
        "streams.cli.demo:demo",
        "A simulated fabric with faults through the whole pipeline, and a score.",
    ),
    Command("up", "streams.cli.up:up", "The whole pipeline on this machine with your collectors."),
    Command("broker", "streams.cli.broker:broker", "Apache Kafka on this machine."),
    Command("clickhouse", "streams.cli.clickhouse:clickhouse", "ClickHouse on this machine."),
    Command("topics", "streams.cli.topics:topics", "Make the topics, or say what differs."),
    Command("migrate", "streams.cli.migrate:migrate", "Bring the tables of ClickHouse up to date."),
    Command("collect", "streams.cli.collect:collect", "Run one collector."),
    Command("process", "streams.cli.process:process", "Run one stage of the pipeline, or all of them."),
    Command("persist", "streams.cli.persist:persist", "Write every topic to ClickHouse."),
    Command("notify", "streams.cli.notify:notify", "Send findings to Alertmanager."),
    Command("inventory", "streams.cli.inventory:inventory", "Check an inventory folder, or publish it."),
    Command("backtest", "streams.cli.backtest:backtest", "Run the stages over recordings or ClickHouse."),
    Command("score", "streams.cli.score:score", "Compare findings with the truth."),
    Command("findings", "streams.cli.findings:findings", "What is wrong now."),
    Command("explain", "streams.cli.explain:explain", "One finding with its evidence."),
    Command("job", "streams.cli.job:job", "Was the network clean for a job, and how much of it was seen."),
    Command("ack", "streams.cli.ack:ack", "Tell the pipeline that a finding is known."),
    Command("config", "streams.cli.config:config", "Check a configuration file."),
    Command("bench", "streams.cli.bench.command:bench", "Measure what the pipeline costs on this machine."),
)
_LIBRARIES = ("aiokafka", "clickhouse_connect", "urllib3")
_FOR_PEOPLE = {"demo", "up", "inventory", "findings", "explain", "ack", "job"}


def application(arguments: Sequence[str]) -> typer.Typer:
    """The command line for these arguments: only the module of the subcommand that they name is imported."""
    names = {command.name for command in COMMANDS}
    chosen = next((argument for argument in arguments if argument in names), "")
    app = typer.Typer(
        name="railsight",
        help="Watches the network of a GPU cluster.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback()(_options)
    for command in COMMANDS:
        target = command.load() if command.name == chosen else _unloaded
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=command.name, help=command.help)
        else:
            app.command(command.name, help=command.help if target is _unloaded else None)(target)
    return app


def main(arguments: Sequence[str] | None = None, build: Callable[[Sequence[str]], typer.Typer] = application) -> None:
    """Run the command line and end the process with its exit code."""
    from streams.wire.errors import Misconfigured, Retry

    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        build(given)(args=given, prog_name="railsight")
    except Misconfigured as error:
        _refuse(error, 2)
    except Retry as error:
        _refuse(error, 1)
    except BrokenPipeError:
        # Whoever read our output has seen enough (`railsight findings | head`).
        sys.stderr.close()
        sys.exit(0)


def _refuse(error: Exception, code: int) -> None:
    for line in str(error).splitlines() or [type(error).__name__]:
        typer.echo(f"railsight: {line}", err=True)
    sys.exit(code)


def _options(
    context: typer.Context,
    log_level: str = typer.Option("info", help="debug, info, warning or error."),
    version: bool = typer.Option(False, "--version", help="Say which version this is, and end."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"railsight {installed('railsight')}")
        raise typer.Exit
    if context.resilient_parsing:
        return
    from streams.runtime.log_setup import LEVELS, configure_logging

    if log_level not in LEVELS:
        raise typer.BadParameter(f"one of {', '.join(LEVELS)}", param_hint="--log-level")
    # Brokers that start or that somebody kills are said by these in words of their own.
    configure_logging(log_level, muted=_LIBRARIES if context.invoked_subcommand in _FOR_PEOPLE else ())


def _unloaded() -> None:
    raise AssertionError("only the subcommand that is called is loaded, and it is not this one")


if __name__ == "__main__":
    main()
