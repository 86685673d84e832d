"""Controls from the command line: their ends and subjects, refusals before Kafka is contacted, and key files."""

import stat
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streams.cli.controls import HOUR_NS, answer_to, control_line, ended
from streams.decide.controls import Controls, refusal
from streams.wire.models import Action, Control, ControlKind, Remediation, Subject, Verdict
from tests.fixtures.command_lines import run

AWAY = ("--bootstrap", "127.0.0.1:1")
NOW = 1_790_000_000_000_000_000


REFUSED = [
    (("maintenance", "add", "device:leaf1"), "give one of --hours, --until and --no-end"),
    (("maintenance", "add", "device:leaf1", "--hours", "1", "--no-end"), "give one of --hours, --until and --no-end"),
    (("maintenance", "add", "device:leaf1", "--until", "2020-01-01"), "the end 2020-01-01 00:00:00Z is in the past"),
    (("maintenance", "add", "", "--hours", "1"), "SUBJECT is empty; only the kill switch applies to everything"),
    (("exclude", "add", "device:", "--hours", "1"), "SUBJECT is empty; only the kill switch applies to everything"),
    (
        ("exclude", "add", "leaf:1", "--hours", "1"),
        "unknown kind of subject leaf; one of link, port, device, host, rail, pod",
    ),
    (("kill-switch", "on", "--key", "/nonexistent/key"), "cannot read /nonexistent/key: No such file or directory"),
    (("key", "new", "/nonexistent/key"), "cannot create /nonexistent/key: No such file or directory"),
    (("key", "show", "/nonexistent/key"), "cannot read /nonexistent/key: No such file or directory"),
]


@pytest.mark.parametrize(("arguments", "line"), REFUSED, ids=[" ".join(arguments) for arguments, _ in REFUSED])
def test_a_wrong_control_is_refused_in_one_line(
    arguments: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2 before Kafka is contacted, with the value and the next step."""
    assert run(*arguments) == 2
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith(f"railsight: {line}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("approve", "0123"),
        ("reject", "0123"),
        ("repaired", "0123"),
        ("remediations",),
        ("remediations", "explain", "0123"),
        ("maintenance", "add", "pod:p1", "--hours", "1"),
        ("exclude", "list"),
        ("kill-switch", "on"),
        ("kill-switch", "status"),
        ("findings",),
    ],
    ids=" ".join,
)
def test_without_kafka_each_command_names_the_address(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, one line: no control is lost silently."""
    assert run(*arguments, *AWAY) == 1
    assert (
        capsys.readouterr().err
        == "railsight: Kafka at 127.0.0.1:1: connection refused; start the broker, or correct the address\n"
    )


def test_without_a_pipeline_each_command_states_that_none_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default address is no help to a person who has not started anything."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for arguments in (("findings",), ("status",), ("kill-switch", "status")):
        assert run(*arguments) == 1
        assert (
            "as no pipeline of this user runs here: `railsight up --config FILE` starts one" in capsys.readouterr().err
        )


def test_a_key_file_is_readable_by_its_owner_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The public key is printed, and printed again by `show`; an existing file is not replaced."""
    file = tmp_path / "key"
    assert run("key", "new", str(file)) == 0
    public = capsys.readouterr().out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("key", "show", str(file)) == 0
    assert capsys.readouterr().out == public
    assert run("key", "new", str(file)) == 2
    assert "File exists" in capsys.readouterr().err


def test_a_key_that_others_can_read_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As ssh does: a copy of it may exist."""
    file = tmp_path / "key"
    assert run("key", "new", str(file)) == 0
    file.chmod(0o640)
    assert run("kill-switch", "on", "--key", str(file), *AWAY) == 2
    assert "other users can read this key (mode 0640)" in capsys.readouterr().err


def test_keys_of_telemetry_are_issued_from_the_newest_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rotation retains one former secret; the file of the secrets is for its owner only."""
    file, config = tmp_path / "secrets", tmp_path / "railsight.toml"
    config.write_text(f'[identity]\nsecret_file = "{file}"\n')
    issue = ("key", "issue", "host/gpu-17", "collector/leaf*")
    numbers = []
    for former in (0, 1, 1):
        assert run("key", "secret", str(file)) == 0
        number = capsys.readouterr().err.split()[-1]
        assert run(*issue, "--config", str(config)) == 0
        host, collector = capsys.readouterr().out.splitlines()
        assert host.split()[:2] == ["host/gpu-17", number] and collector.split()[:2] == ["collector/leaf*", number]
        assert run(*issue, "--secret-file", str(file)) == 0
        assert capsys.readouterr().out.splitlines() == [host, collector]
        assert len(file.read_text().splitlines()) == 1 + former and file.stat().st_mode & 0o777 == 0o600
        numbers.append(number)
    assert len(set(numbers)) == 3
    assert run("key", "issue", "host/*", "--config", str(config)) == 2
    assert "a host is one device" in capsys.readouterr().err
    assert run("key", "issue", "host/a") == 2
    assert "identity.secret_file: not set" in capsys.readouterr().err


@pytest.mark.parametrize("command", [("process", "measure"), ("process", "decide"), ("persist",)])
def test_a_part_that_verifies_needs_the_secrets(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not start without them, rather than accept or refuse every record."""
    config = tmp_path / "railsight.toml"
    for file, reason in (("", "required with identity.mode = require, and not set"), ("absent", "cannot read absent")):
        config.write_text('[identity]\nmode = "require"\n' + (f'secret_file = "{file}"\n' if file else ""))
        assert run(*command, "--config", str(config)) == 2
        assert reason in capsys.readouterr().err


def test_where_signatures_are_required_an_unsigned_control_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the command would succeed, and the pipeline would reject the control."""
    file, config = tmp_path / "key", tmp_path / "railsight.toml"
    run("key", "new", str(file))
    config.write_text(f'[decide]\ntrusted_keys = ["{capsys.readouterr().out.strip()}"]\n')
    assert run("kill-switch", "on", "--config", str(config), *AWAY) == 2
    assert "controls must be signed" in capsys.readouterr().err
    config.write_text(config.read_text() + f'signing_key = "{file}"\n')
    assert run("kill-switch", "on", "--config", str(config), *AWAY) == 1
    assert "connection refused; start the broker" in capsys.readouterr().err


def test_an_approval_ends_and_a_rejection_does_not() -> None:
    """Both name the remediation, and each answer has an id of its own."""
    remediation = Remediation("r1", 1, ("f1",), Action.DRAIN_LINK, Verdict.NEEDS_APPROVAL, Subject("link:x"))
    yes = answer_to(remediation, Control("", ControlKind.APPROVE, until_ns=HOUR_NS, actor="anna", reason="ok"), NOW)
    no = answer_to(remediation, Control("", ControlKind.REJECT, actor="anna"), NOW + 1)
    assert yes == Control(f"approve/r1/{NOW}", ControlKind.APPROVE, "r1", NOW, NOW + HOUR_NS, "anna", "ok")
    assert (no.subject_id, no.until_ns, no.id) == ("r1", None, f"reject/r1/{NOW + 1}")
    assert refusal(yes) == refusal(no) == ""


@pytest.mark.parametrize("begin_ns", [NOW - HOUR_NS, NOW + HOUR_NS], ids=["under way", "planned"])
def test_the_end_of_a_control_replaces_it_also_if_clocks_differ(begin_ns: int) -> None:
    """It is newer than the control, and has ended now."""
    added = Control("exclude/x", ControlKind.EXCLUDE, "device:x", begin_ns, None, "anna", endless=True)
    state = Controls(strict=True)
    state.loaded = True
    target = Subject("device:x")
    assert state.update(added) == "" and state.exclusion(target, NOW) is not None
    assert state.update(replace(ended(added, NOW, "bob", ""), sent_at_ns=NOW)) == ""
    assert state.exclusion(target, NOW) is None


def test_a_control_is_one_line() -> None:
    """Subject, begin, end, actor and reason."""
    at_ns = round(datetime(2026, 3, 1, tzinfo=UTC).timestamp() * 1e9)
    line = control_line(Control("m", ControlKind.MAINTENANCE, "pod:p1", at_ns, at_ns + HOUR_NS, "anna", "new optics"))
    assert line == "pod:p1  2026-03-01 00:00:00Z  until 2026-03-01 01:00:00Z  anna  new optics"
    switch = Control("k", ControlKind.KILL_SWITCH, "", at_ns, None, "anna")
    assert control_line(switch) == "everything  2026-03-01 00:00:00Z  no end  anna"
