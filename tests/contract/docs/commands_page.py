"""The page of the command line: every command with its arguments and options, from the commands themselves.

`python -m tests.contract.docs` writes docs/cli.md; test_reference.py compares both.
"""

import inspect
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import typer

from streams.cli.commands import commands
from streams.cli.main import application

PAGE = Path(__file__).parents[3] / "docs/cli.md"

_HEAD = """# Command line

All commands with their arguments and options. This page is generated from the commands: `make docs` writes it.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | a problem was found, or a server does not answer; the reason is one line on standard error |
| 2 | misconfigured: one line for each problem, with its origin and the next step; also a wrong command line |

`railsight --log-level debug COMMAND` logs more; `railsight --version` prints the version.
[Errors](troubleshooting.md#messages-of-commands) lists the messages.
"""

_TYPES = {Path: "path", int: "integer", float: "number", datetime: "time"}


class Entry(NamedTuple):
    """One command or group as the page has it."""

    name: str
    command: Any


def entries() -> Iterator[Entry]:
    """Yield every command and group, each group before its commands."""
    for known in commands():
        root: Any = typer.main.get_command(application([known.name]))
        yield from _entries(known.name, root.commands[known.name])


def _entries(name: str, command: Any) -> Iterator[Entry]:
    yield Entry(name, command)
    for inner, found in sorted(getattr(command, "commands", {}).items()):
        yield from _entries(f"{name} {inner}", found)


def page() -> str:
    return "\n".join([_HEAD, *(part for entry in entries() for part in _lines(entry))])


def _lines(entry: Entry) -> Iterator[str]:
    parameters = [one for one in entry.command.params if "--help" not in one.opts]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    options = [one for one in parameters if one.param_type_name == "option"]
    yield f"{'#' * min(2 + entry.name.count(' '), 4)} railsight {entry.name}\n"
    yield help_of(entry.command) + "\n"
    if inner := sorted(getattr(entry.command, "commands", {})):
        yield "Commands: " + ", ".join(f"`{name}`" for name in inner) + ".\n"
    usage = " ".join(_usage(one) for one in arguments)
    if not inner:
        yield f"```text\nrailsight {entry.name}{' [OPTIONS]' if options else ''}{' ' * bool(usage)}{usage}\n```\n"
    if parameters:
        yield "| argument or option | value | default | meaning |\n|---|---|---|---|"
        for one in (*arguments, *options):
            cells = (_name(one), _value(one), _default(one), " ".join((one.help or "").split()))
            yield "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
        yield ""


def help_of(command: Any) -> str:
    """Return the help of a command with its epilog."""
    return "\n\n".join(inspect.cleandoc(text) for text in (command.help, command.epilog) if text)


def _argument(one: Any) -> str:
    return str(one.metavar or one.name.upper())


def _usage(argument: Any) -> str:
    name = _argument(argument) + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _name(one: Any) -> str:
    if one.param_type_name == "argument":
        return f"`{_argument(one)}`"
    return ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))


def _value(one: Any) -> str:
    if getattr(one, "is_flag", False):
        return "flag"
    return _type(one.type_descriptor.annotation) + (", repeatable" if getattr(one, "multiple", False) else "")


def _type(annotation: Any) -> str:
    """Return the type of a value as people name it; the choices where there are some."""
    inner = get_args(annotation)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in inner)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{choice.value}`" for choice in annotation)
    if inner:
        return _type(next(part for part in inner if part is not type(None)))
    return _TYPES.get(annotation, "text")


def _default(one: Any) -> str:
    value = one.default
    if one.required:
        return "required"
    if value is None or value == () or value == [] or value == "" or value is False or callable(value):
        return ""
    return f"`{getattr(value, 'value', value)}`" if type(value).__name__ != "Sentinel" else ""
