"""Holds every command to its help: an example that parses, and `-o table|wide|json` where it prints rows."""

import re
from pathlib import Path

import pytest
import typer

from streams.cli.collect import collector_help
from streams.cli.main import application
from streams.cli.options import collector_params, installed_collectors
from tests.contract.docs.commands_page import Entry, entries, help_of
from tests.fixtures.command_lines import arguments_of, check_parses, parse

ENTRIES = list(entries())
COMMANDS = [entry for entry in ENTRIES if not getattr(entry.command, "commands", None)]
EXAMPLE = re.compile(r"`(railsight [^`]+)`")
ONE_RESULT = {
    "acl check": "prints only what differs",
    "backtest": "one summary",
    "broker": "one address",
    "clickhouse": "one address",
    "demo": "one report",
    "explain": "one finding",
    "inventory apply": "one summary",
    "inventory check": "one summary, with problems on standard error",
    "inventory draft": "one summary",
    "inventory generate": "one summary",
    "inventory import": "one summary",
    "chaos": "one report for each sequence",
    "migrate": "the statements of --dry-run are SQL",
    "place": "one placement, with its reasons",
    "remediations explain": "one remediation with its history",
    "score": "one score, with the missed and the invented",
    "tune": "one proposal",
}
"""Commands with `--json` whose result is no list of rows, with the reason; benchmarks print one report each."""


def examples(entry: Entry) -> list[str]:
    """Return the commands in the help of a command that begin with its name."""
    text = " ".join(help_of(entry.command).split())
    return [line for line in EXAMPLE.findall(text) if f"{line} ".startswith(f"railsight {entry.name} ")]


def options_of(entry: Entry) -> set[str]:
    return {name for one in entry.command.params for name in one.opts}


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_the_help_of_a_command_has_an_example_that_parses(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known options, valid values, no missing argument; the line begins with `Example:` or `Examples:`."""
    assert re.search(r"\bExamples?: ", help_of(entry.command)), entry.name
    found = examples(entry)
    assert found, f"{entry.name}: no example with this command"
    monkeypatch.chdir(tmp_path)
    for line in found:
        check_parses(line, entry.name, tmp_path)


def test_a_command_without_an_example_would_be_found() -> None:
    """An example of another command is none."""
    app = typer.Typer()

    @app.command(help="Do it. Example: `railsight findings`.")
    def lonely() -> None: ...

    assert examples(Entry("lonely", typer.main.get_command(app))) == []


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_a_command_that_prints_rows_has_every_form_of_output(entry: Entry) -> None:
    """`-o table|wide|json`, and `--json` for the last; a command with one result is listed with its reason."""
    options = options_of(entry)
    if "--output" in options:
        assert {"-o", "--json"} <= options
        assert entry.name not in ONE_RESULT
    elif "--json" in options:
        assert entry.name in ONE_RESULT or entry.name.startswith("bench "), entry.name


def test_the_list_of_commands_with_one_result_has_no_other() -> None:
    """A command that was renamed or removed leaves no exception behind."""
    assert set(ONE_RESULT) - {entry.name for entry in COMMANDS} == set()


@pytest.mark.parametrize("kind", sorted(installed_collectors()))
def test_the_help_of_a_collector_has_its_settings_and_an_example(
    kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`railsight collect KIND --help` prints them, wherever the option stands."""
    monkeypatch.setenv("COLUMNS", "200")
    text = collector_help(kind)
    (example,) = EXAMPLE.findall(text)
    parse(arguments_of(example))
    assert example.startswith(f"railsight collect {kind} ")
    settings = set(re.findall(r"^  ([\w.]+) \(", text, re.MULTILINE))
    assert {name.partition(".")[0] for name in settings} == set(collector_params()[kind].model_fields)
    without_meaning = [line for line in text.splitlines() if line.startswith("  ") and line.endswith(": ")]
    assert without_meaning == []
    for arguments in (["collect", kind, "--help"], ["collect", "-h", kind]):
        with pytest.raises(SystemExit) as ended:
            application(arguments)(args=arguments, prog_name="railsight")
        assert ended.value.code == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f"Run the collector {kind}" in out
        assert all(f" {name} (" in out for name in settings)


def test_the_help_of_collect_itself_is_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a collector it lists the options that all have."""
    with pytest.raises(SystemExit):
        application(["collect"])(args=["collect", "--help"], prog_name="railsight")
    assert "Run one collector" in capsys.readouterr().out
