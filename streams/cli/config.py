"""`railsight config`: checks a configuration with everything that it names, and prints the settings in force."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.collector_registry import collector_params, spec_of
from streams.cli.options import Config, load_for, local_instance
from streams.cli.printing import print_text
from streams.config.effective import setting_lines
from streams.config.file_checks import unreadable_files
from streams.config.settings import Settings, load
from streams.decide.policy import load_policy
from streams.wire.errors import Misconfigured, Retry

config = typer.Typer(no_args_is_help=True, help="Check a configuration file, or print the settings in force.")


@config.callback()
def _group() -> None:
    """Check a configuration file, or print the settings in force."""


@config.command()
def check(
    path: Annotated[Path, typer.Option("--config", help="The configuration file (TOML).")],
    files: Annotated[
        bool, typer.Option("--files/--no-files", help="Also open the files that it names; off for another machine's.")
    ] = True,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also connect: Kafka, topics, ClickHouse, Alertmanager, every target.")
    ] = False,
) -> None:
    """Check a configuration and print all its problems at once; exit 2 if there are any, 1 if a server does not answer.

    Examples: `railsight config check --config railsight.toml --connect`; in CI `... --no-files`.
    """
    settings = load(path, collector_params())
    load_policy(settings.decide.policy)
    if files and (problems := [*unreadable_files(settings), *_collector_problems(settings)]):
        raise Misconfigured("\n".join(dict.fromkeys(problems)))
    running = ", ".join(settings.collectors) or "none"
    print_text(f"{path}: valid (collectors: {running})")
    if connect:
        _connect(settings)


@config.command()
def show(
    config: Config = None,
    defaults: Annotated[bool, typer.Option("--defaults", help="Also settings that have their default.")] = False,
) -> None:
    """Print the settings of a file and the environment as TOML, without secrets.

    Without --config, of the pipeline that runs here. Examples: `railsight config show --defaults`.
    """
    instance = local_instance(config, None, os.environ)
    settings = load_for(instance, config, lambda path, environ: load(path, collector_params(), environ))
    for line in setting_lines(settings, defaults=defaults):
        typer.echo(line)


def _collector_problems(settings: Settings) -> Iterator[str]:
    """Yield what a collector would refuse at its start: lists of targets, logins, certificates."""
    written = {f for params in settings.collectors.values() for f in getattr(params, "written_files", tuple)()}
    for name, params in settings.collectors.items():
        prepare = spec_of(name).prepare
        if prepare is None or getattr(params, "targets_file", None) in written:
            continue
        try:
            prepare(params)
        except Misconfigured as error:
            yield from str(error).splitlines()


def _connect(settings: Settings) -> None:
    from streams.report.checkup import connection_checks

    is_well = True
    for one in connection_checks(settings):
        is_well &= one.is_well
        print_text(f"{'well' if one.is_well else 'FAILED'}  {one.name}: {one.text}", err=not one.is_well)
    for name, params in settings.collectors.items():
        spec = spec_of(name)
        if spec.once is None:
            continue
        try:
            spec.print_once(params, lambda _line: None)
            print_text(f"well  collect {name}: one reading of every target")
        except (Retry, Misconfigured) as error:
            is_well = False
            for line in str(error).splitlines():
                print_text(f"FAILED  collect {name}: {line}", err=True)
    if not is_well:
        raise typer.Exit(1)
