"""The way in: init writes what up needs, config check opens what the file names, doctor, logs and config show."""

import json
import stat
from pathlib import Path

import pytest

from streams.embedded.running_instances import Instance, registered
from tests.fixtures.command_lines import run

SECRET = "not-a-word-of-any-message"


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("RAILSIGHT_INIT_COMMUNITY", SECRET)
    monkeypatch.setenv("RAILSIGHT_INIT_PASSWORD", SECRET)


def init(folder: Path, *more: str) -> int:
    return run(
        "init", str(folder), "--snmp", "leaf1=10.0.0.1", "--gnmi", "spine1=10.0.0.2:57400", "--gnmi-username", "noc",
        "--host", "gpu1", "--host", "gpu2", "--no-read", *more,
    )  # fmt: skip


def test_init_writes_a_configuration_that_checks_accept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Targets, inventory, configuration; secrets are in files of the user only, and printed nowhere."""
    assert init(tmp_path / "site") == 0
    assert run("config", "check", "--config", str(tmp_path / "site/railsight.toml")) == 0
    assert run("inventory", "check", str(tmp_path / "site/inventory")) == 1
    out = capsys.readouterr()
    assert "valid (collectors: gnmi, snmp)" in out.out
    assert "no link, so that ends, rails and peers are unknown" in out.err
    assert "railsight up --config" in out.out
    secrets = [path for path in (tmp_path / "site").rglob("*") if path.is_file() and SECRET in path.read_text()]
    assert sorted(path.name for path in secrets) == ["gnmi-password", "snmp-community"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    assert SECRET not in out.out + out.err


def test_init_replaces_nothing_without_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The configuration of a site may be edited by hand."""
    assert init(tmp_path) == 0
    (tmp_path / "railsight.toml").write_text("# mine\n")
    assert init(tmp_path) == 2
    assert "replace it with --force" in capsys.readouterr().err
    assert (tmp_path / "railsight.toml").read_text() == "# mine\n"
    assert init(tmp_path, "--force") == 0


def test_each_question_leaves_a_quarter_of_a_line_for_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A terminal of 80 columns does not break a question."""
    answers = {"Switches by SNMP": "leaf1=10.0.0.1", "Switches by gNMI": "spine1=10.0.0.2:57400", "Hosts": "gpu1 gpu2",
               "SNMP community": SECRET}  # fmt: skip
    questions = []

    def prompt(text: str, default: object = "", **_options: object) -> object:
        questions.append(text)
        return next((answer for begin, answer in answers.items() if text.startswith(begin)), default)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.prompt", prompt)
    monkeypatch.setattr("typer.confirm", lambda text, default=False: prompt(text, default))
    assert run("init", str(tmp_path), "--no-read") == 0
    assert len(questions) == 10 and max(map(len, questions)) <= 58, questions
    assert (tmp_path / "inventory/devices.csv").read_text().count("gpu") > 1
    assert "Several names are separated by spaces" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ((), "without a terminal, init cannot ask"),
        (("--snmp", "leaf1"), "leaf1: not of the form NAME=ADDRESS"),
        (("--snmp", "a=1", "--snmp", "a=2"), "a is given twice"),
        (("--snmp", "a=1", "--host", "a"), "a is a switch and a host"),
    ],
)
def test_init_names_what_is_wrong(
    tmp_path: Path, arguments: tuple[str, ...], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, exit 2, and nothing is written."""
    assert run("init", str(tmp_path / "site"), *arguments) == 2
    assert printed in capsys.readouterr().err
    assert not (tmp_path / "site").exists()


def test_config_check_opens_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing files, and lists of targets that a collector would refuse, are named; --no-files leaves them out."""
    init(tmp_path)
    (tmp_path / "snmp-targets.json").write_text('[{"name": "leaf1"}]')
    (tmp_path / "secrets/gnmi-password").unlink()
    config = str(tmp_path / "railsight.toml")
    capsys.readouterr()
    assert run("config", "check", "--config", config) == 2
    lines = capsys.readouterr().err.splitlines()
    assert any("collect.gnmi.password_file: " in line and "does not exist" in line for line in lines)
    assert any("snmp-targets.json: 0.address" in line for line in lines)
    assert run("config", "check", "--config", config, "--no-files") == 0


def test_config_check_connects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each server that does not answer is a line with the next step; exit 1."""
    config = tmp_path / "railsight.toml"
    config.write_text(
        '[kafka]\nbootstrap = "127.0.0.1:1"\n[store]\nurl = "http://127.0.0.1:1"\n'
        '[notify]\nalertmanagers = ["http://127.0.0.1:1"]\n[collect.nic]\nroot = "/nonexistent-root"\n'
    )
    assert run("config", "check", "--config", str(config), "--connect", "--no-files") == 1
    err = capsys.readouterr().err
    assert "FAILED  Kafka: Kafka at 127.0.0.1:1: connection refused" in err
    assert "FAILED  ClickHouse: " in err
    assert "FAILED  Alertmanager: http://127.0.0.1:1: connection refused" in err
    assert "HTTPConnectionPool" not in err and "Traceback" not in err


def test_config_show_has_defaults_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its output is a configuration; without --defaults it has only what is set."""
    monkeypatch.setenv("RAILSIGHT__STORE__PASSWORD", SECRET)
    config = tmp_path / "railsight.toml"
    config.write_text('[detect.clock]\nmin_offset_s = 8\n[collect.nic]\ndevice = "h1"\n')
    assert run("config", "show", "--config", str(config)) == 0
    short = capsys.readouterr().out
    assert "[detect.clock]\nmin_offset_s = 8.0\n" in short and '[collect.nic]\ndevice = "h1"\n' in short
    assert "cadence_s" not in short and SECRET not in short
    assert run("config", "show", "--defaults", "--config", str(config)) == 0
    whole = capsys.readouterr().out
    assert 'bootstrap = "127.0.0.1:9092"  # default' in whole
    monkeypatch.delenv("RAILSIGHT__STORE__PASSWORD")
    config.write_text(whole)
    assert run("config", "check", "--config", str(config), "--no-files") == 0


def test_logs_are_those_of_the_running_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The parts with their state, the last lines of one, and the parts that there are for a wrong name."""
    log = tmp_path / "process.log"
    log.write_text("one\ntwo\nthree\n")
    row = {"name": "process", "running": True, "restarts": 0, "log": str(log)}
    (tmp_path / "parts.json").write_text(json.dumps([row]))
    with registered(Instance("up", str(tmp_path / "c.toml"), "127.0.0.1:1", str(tmp_path))):
        assert run("logs") == 0
        assert "process  running  0" in capsys.readouterr().out
        assert run("logs", "process", "-n", "2") == 0
        assert capsys.readouterr().out == "two\nthree\n"
        assert run("logs", "nonsense") == 2
        assert "no part nonsense; one of process" in capsys.readouterr().err
    assert run("logs") == 2
    assert "start it with `railsight up" in capsys.readouterr().err


def test_doctor_names_what_is_not_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each check is a line; what is not well has the next step, and the exit code is 1."""
    config = tmp_path / "railsight.toml"
    config.write_text('[collect.gnmi]\ntargets_file = "/nonexistent/targets.json"\n')
    assert run("doctor", "--config", str(config), "--json") == 1
    found = {row["check"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert found["Python"]["well"] and found["railsight[pipeline]"]["well"]
    assert "/nonexistent/targets.json does not exist" in found["configuration"]["text"]
    assert "start it with `railsight up" in found["pipeline"]["text"]
    assert run("doctor", "--config", str(config)) == 1
    assert "NOT WELL  configuration" in capsys.readouterr().out


def test_a_check_before_the_first_start_expects_no_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`config check --connect` states that `up` starts Kafka and ClickHouse, and tries the targets."""
    file = tmp_path / "railsight.toml"
    file.write_text("")
    assert run("config", "check", "--config", str(file), "--connect") == 0
    printed = capsys.readouterr().out
    for server in ("Kafka", "ClickHouse"):
        assert f"well  {server}: `railsight up` starts it on this machine" in printed
