"""Refusals before anything is started: one line each, exit 2 or 1."""

from pathlib import Path

import pytest

from tests.fixtures.command_lines import run

DEVICES = "name,kind,tier,pod\nleaf1,switch,T0,pod1\nspine1,switch,T1,\n"
LINKS = "a_device,a_port,z_device,z_port,role\nleaf1,e1,spine1,e1,fabric-link\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An inventory that is right."""
    (tmp_path / "devices.csv").write_text(DEVICES)
    (tmp_path / "links.csv").write_text(LINKS)
    return tmp_path


def test_an_inventory_that_is_right_is_called_fine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its devices and links are counted."""
    assert run("inventory", "check", str(folder)) == 0
    assert "fine; 2 devices, 1 links" in capsys.readouterr().out


def test_a_wrong_inventory_is_not_published(folder: Path) -> None:
    """Checked before Kafka is looked for."""
    (folder / "devices.csv").write_text("name\n")
    assert run("inventory", "apply", str(folder), "--bootstrap", "127.0.0.1:1") == 1


def test_config_check_names_every_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown sections, unknown settings and collectors' settings in one go; exit 2."""
    path = tmp_path / "railsight.toml"
    path.write_text("[kafak]\n[detect.flap]\npreset = 1\n[collect.gnmi]\ncadence_s = 'often'\n[collect.gmni]\n")
    assert run("config", "check", "--config", str(path)) == 2
    lines = sorted(capsys.readouterr().err.splitlines())
    assert [line.split(":")[1].strip() for line in lines] == [
        "collect.gmni",
        "collect.gnmi.cadence_s",
        "detect.flap.preset",
        "kafak",
    ]


def test_config_check_names_the_collectors_that_would_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A usable configuration is called valid."""
    path = tmp_path / "railsight.toml"
    path.write_text('[collect.gnmi]\ntargets = [{ name = "leaf1", address = "127.0.0.1:1" }]\n')
    assert run("config", "check", "--config", str(path)) == 0
    assert "valid (collectors: gnmi)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (("demo", "--from", "nowhere.csv"), "--from needs --inventory"),
        (("demo", "--inventory", "nowhere"), "go with --from"),
        (("demo", "--from", "nowhere.csv", "--planes", "8"), "leave out --planes or --from"),
        (("demo", "--out", "/nonexistent/out.jsonl"), "/nonexistent/out.jsonl: No such file or directory"),
        (("collect", "nonsense"), "unknown collector nonsense"),
        (("collect", "gnmi", "--set", "cadence"), "not of the form key=value"),
        (("process", "nonsense"), "unknown stage: nonsense"),
        (("nonsense",), "nonsense"),
        (("--log-level", "loud", "config", "check"), "--log-level"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: tuple[str, ...], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the missing or unknown option; exit 2."""
    assert run(*arguments) == 2
    assert printed in capsys.readouterr().err


def test_a_run_folder_that_was_used_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A demo's data are fresh each time; an earlier run's are not mixed into it."""
    (tmp_path / "kafka").mkdir()
    assert run("demo", "--headless", "--run-dir", str(tmp_path)) == 2
    assert "holds an earlier run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("truth", "printed"),
    [
        ("time,port\n1,2\n", "truth.csv row 1: no column start, end, condition, device; a truth file has start"),
        (
            "start,end,condition,device,port\n1,2,flap,h,p\n",
            "truth.csv row 1: unknown condition 'flap'; one of link_flap",
        ),
    ],
)
def test_a_wrong_truth_is_refused_in_words(
    tmp_path: Path, truth: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The missing columns or the unknown condition are named; no name of a Python error."""
    (tmp_path / "truth.csv").write_text(truth)
    (tmp_path / "found.jsonl").write_text("")
    assert run("score", "--findings", str(tmp_path / "found.jsonl"), "--truth", str(tmp_path / "truth.csv")) == 2
    err = capsys.readouterr().err
    assert printed in err and "KeyError" not in err


def test_a_clickhouse_that_is_away_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cause and the next step, without the names of the HTTP library."""
    monkeypatch.setenv("RAILSIGHT__STORE__URL", "http://127.0.0.1:1")
    monkeypatch.setenv("RAILSIGHT__KAFKA__BOOTSTRAP", "127.0.0.1:1")
    assert run("job", "x") == 1
    assert capsys.readouterr().err == (
        "railsight: ClickHouse at http://127.0.0.1:1: connection refused; start it with `railsight clickhouse`, or"
        " correct store.url\n"
    )
