"""The command line as a process: exit codes, lines on standard error, what is imported."""

import json
import logging
import os
import re
import subprocess
import sys
from collections import defaultdict
from importlib.metadata import packages_distributions, requires, version
from io import StringIO
from pathlib import Path

import pytest
import structlog
import typer

from streams.cli.commands import commands
from streams.cli.main import EXTRAS, application, main
from streams.runtime import log_setup
from streams.wire.errors import Misconfigured, Retry
from tests.fixtures import command_lines


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streams.cli.main", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`railsight --help` lists what there is, and ends with 0."""
    assert command_lines.run("--help") == 0
    printed = capsys.readouterr().out
    assert all(f" {command.name} " in printed for command in commands())


def test_the_version_needs_no_command() -> None:
    """`railsight --version` prints the installed version and ends with 0."""
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"railsight {version('railsight')}\n")


@pytest.mark.parametrize("command", [(), ("inventory",), ("inventory", "apply")], ids=len)
def test_the_short_form_of_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """`-h` is `--help`, also of a subcommand and of its subcommands."""
    assert command_lines.run(*command, "-h") == 0
    printed = capsys.readouterr().out
    assert command_lines.run(*command, "--help") == 0
    assert capsys.readouterr().out == printed


def test_ctrl_c_while_an_event_loop_is_made_prints_nothing() -> None:
    """The half-made loop and the coroutine that it never ran are not reported when they would be freed."""
    script = (
        "import asyncio.selector_events, sys\n"
        "from streams.cli.main import program\n"
        "def interrupted(*_):\n"
        "    raise KeyboardInterrupt\n"
        "asyncio.selector_events.BaseSelectorEventLoop.__init__ = interrupted\n"
        "sys.argv = ['railsight', 'findings', '--bootstrap', 'localhost:1']\n"
        "program()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_help_imports_no_subcommand() -> None:
    """Help is quick because nothing is imported for it: no pydantic, no Kafka client, no subcommand."""
    script = (
        "import sys\nfrom streams.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('pydantic', 'aiokafka', 'numpy', 'structlog')"
        " or m.startswith('streams.cli.') and m not in ('streams.cli.main', 'streams.cli.commands')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize("command", commands(), ids=lambda command: command.name)
def test_each_command_loads_and_has_help(command: object) -> None:
    """A command in the table exists, and can be asked for its options."""
    name = getattr(command, "name", "")
    with pytest.raises(SystemExit) as ended:
        application([name, "--help"])(args=[name, "--help"], prog_name="railsight")
    assert ended.value.code == 0


def test_written_files_are_the_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask of the shell permits."""
    folder = tmp_path / "fabric"
    script = 'umask 000; exec "$@"'
    command = [sys.executable, "-m", "streams.cli.main", "inventory", "generate", "--gpus", "64", str(folder)]
    subprocess.run(["sh", "-c", script, "sh", *command], capture_output=True, timeout=60, check=True)
    written = [folder, *folder.iterdir()]
    assert len(written) > 1
    assert [path.name for path in written if path.stat().st_mode & 0o077] == []


@pytest.mark.parametrize(("error", "code"), [(Misconfigured("a: bad\nb: worse"), 2), (Retry("Kafka is away"), 1)])
def test_expected_errors_are_lines_and_exit_codes(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Misconfigured ends with 2, a far side that is away with 1; one line each, no traceback."""

    def failing(_arguments: object) -> typer.Typer:
        app = typer.Typer()

        @app.command()
        def fail() -> None:
            raise error

        return app

    with pytest.raises(SystemExit) as ended:
        main([], build=failing)
    assert ended.value.code == code
    assert capsys.readouterr().err.splitlines() == [f"railsight: {line}" for line in str(error).splitlines()]


def test_logs_are_json_without_a_terminal() -> None:
    """Off a terminal, each event is one JSON object; what a library warns of is one as well."""
    out = StringIO()
    log_setup.configure_logging("info", out)
    structlog.get_logger("railsight").info("started", port=1)
    logging.getLogger("aiokafka").warning("gone")
    structlog.get_logger("railsight").debug("not asked for")
    logging.getLogger("jgo").debug("not asked for either")
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(e["event"], e["level"]) for e in events] == [("started", "info"), ("gone", "warning")]
    assert events[0]["port"] == 1


def test_arguments_that_a_text_names_are_fields_in_json() -> None:
    """Logs of the standard library are as structured as the others; an argument without a name is in the text only."""
    out = StringIO()
    log_setup.configure_logging("info", out, log_format="json")
    logging.getLogger("streams.x").error(
        "input is lost: topic=%s partition=%d share=%3.1f %% of %s", "t", 3, 0.5, "all"
    )
    logging.getLogger("streams.x").info("event=%s", "not the event")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first["event"] == "input is lost: topic=t partition=3 share=0.5 % of all"
    assert (first["topic"], first["partition"], first["share"], first["logger"]) == ("t", 3, 0.5, "streams.x")
    assert second["event"] == "event=not the event"


def test_text_can_be_had_without_a_terminal() -> None:
    """No colors then, and no JSON."""
    out = StringIO()
    log_setup.configure_logging("info", out, log_format="text")
    structlog.get_logger("railsight").info("started", port=1)
    assert "started" in out.getvalue() and "port=1" in out.getvalue() and "\x1b" not in out.getvalue()


def test_no_text_of_a_log_controls_a_terminal() -> None:
    """Values without blanks or of other types, library warnings and messages of exceptions have no controls."""
    out, hostile = StringIO(), "a\x1b[2J\x9b\u202e\nb"
    log_setup.configure_logging("info", out, log_format="text")
    structlog.get_logger("railsight").warning(
        f"event {hostile}", device=hostile, ports=[hostile], error=OSError(hostile)
    )
    logging.getLogger("aiokafka").warning("gone: %s", hostile)
    try:
        raise ValueError(hostile)
    except ValueError:
        structlog.get_logger("railsight").exception("failed")
        logging.getLogger("aiokafka").exception("failed")
    lines = out.getvalue().splitlines()
    assert len([line for line in lines if "[warning" in line]) == 2
    assert not [line for line in lines if not line.isprintable()]
    assert sum("ValueError: a" in line for line in lines) == 2


def test_commands_for_people_keep_the_kafka_client_quiet() -> None:
    """The command reports a broker that does not answer in one line; the client's own logs are muted at any level."""
    out = StringIO()
    log_setup.configure_logging("info", out, muted=("aiokafka",))
    logging.getLogger("aiokafka").setLevel(logging.DEBUG)
    logging.getLogger("aiokafka.client").error("Unable to connect")
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("line", "completed"),
    [("railsight fin", "findings"), ("railsight findings --sev", "--severity"), ("railsight inventory ch", "check")],
)
def test_a_shell_completes_commands_and_their_options(line: str, completed: str) -> None:
    """Completion loads the subcommand of the line; `railsight --install-completion` installs it."""
    words = {"_RAILSIGHT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", "streams.cli.main"], capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | words,
    )  # fmt: skip
    assert done.stdout.split() == [completed]


def test_every_package_of_an_extra_is_known_to_the_refusal() -> None:
    """Each package of the extras has a module in the table, under an extra that has the package."""
    having = defaultdict(set)
    for line in requires("railsight") or ():
        if match := re.match(r"([\w.-]+).*extra == ['\"](?!all)([a-z]+)['\"]", line):
            having[match[1].lower()].add(match[2])
    modules = defaultdict(set)
    for module, packages in packages_distributions().items():
        for package in packages:
            modules[package.lower()].add(module)
    unknown = {package for package, extras in having.items() if not {EXTRAS.get(m) for m in modules[package]} & extras}
    assert not unknown - {"railsight"}


_BLOCKED = """
import sys
from importlib.abc import MetaPathFinder
from streams.cli.main import EXTRAS, main

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("process all", "pipeline"),
        ("persist", "pipeline"),
        ("notify", "pipeline"),
        ("clickhouse", "embedded"),
        ("findings", "pipeline"),
        ("kill-switch on --because test", "pipeline"),
        ("serve", "pipeline"),
    ],
)
def test_a_wheel_without_extras(command: str, extra: str, tmp_path: Path) -> None:
    """A command whose packages are missing names the package and the extra in one line, and ends with 2."""
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, *command.split()],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "is not installed" in done.stderr and f"railsight[{extra}]" in done.stderr
