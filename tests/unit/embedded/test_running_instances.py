"""The commands of a user find the pipelines of this user that run on this machine."""

import json
import os
import subprocess
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from streams.cli.options import local_instance, settings_of
from streams.embedded.directories import locked
from streams.embedded.kafka_data_dir import stable_port
from streams.embedded.running_instances import Instance, record, registered, running_instances, running_s
from streams.wire.errors import Misconfigured, Retry
from streams.wire.topics import PROCESS, READER
from tests.fixtures.command_lines import run


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("RAILSIGHT__KAFKA__BOOTSTRAP", raising=False)


def instance(tmp_path: Path, name: str = "a", port: int = 20001) -> Instance:
    config = tmp_path / f"{name}.toml"
    config.write_text(f'[kafka]\ncluster = "site-{name}"\n')
    address = f"127.0.0.1:{port}"
    environ = {"RAILSIGHT__KAFKA__BOOTSTRAP": address, "RAILSIGHT__STORE__URL": "http://127.0.0.1:20002"}
    return Instance("up", str(config), address, str(tmp_path / "run"), environ)


def test_a_command_without_options_uses_the_running_pipeline(tmp_path: Path) -> None:
    """It has its configuration and its addresses; the record is removed at its end."""
    with registered(instance(tmp_path)):
        settings = settings_of(None, None, READER)
        assert (settings.kafka.cluster, settings.kafka.bootstrap) == ("site-a", "127.0.0.1:20001")
        assert settings.store.url == "http://127.0.0.1:20002"
        assert settings_of(Path(instance(tmp_path).config), None, READER).kafka.bootstrap == "127.0.0.1:20001"
    assert settings_of(None, None, READER).kafka.bootstrap == "127.0.0.1:9092"


def test_a_pipeline_that_starts_its_servers_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Until they have addresses no command reads the default ones; `status` waits until all parts run."""
    starting = replace(instance(tmp_path), bootstrap="", step="starts its servers")
    with registered(starting):
        with pytest.raises(
            Retry, match=rf"up` \(process {os.getpid()}\) starts its servers since 0 s; its logs are in"
        ):
            settings_of(None, None, READER)
        record(replace(instance(tmp_path), step="makes topics and tables"))
        assert settings_of(None, None, READER).kafka.bootstrap == "127.0.0.1:20001"
        assert run("status") == 1
        assert "waiting: `railsight up` (process" in capsys.readouterr().err


def test_relative_paths_are_those_of_the_running_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command in another folder finds its files, and no setting counts as set by that."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    running = instance(tmp_path)
    Path(running.config).write_text('[store]\npassword_file = "secrets/password"\n')
    monkeypatch.chdir(there)
    with registered(running):
        monkeypatch.chdir(here)
        settings = settings_of(None, None, READER)
        assert settings.store.password_file == there / "secrets/password"
        assert Path.cwd() == here
        assert "decide" not in settings.model_fields_set


def test_a_process_of_a_pipeline_does_not_use_another_one(tmp_path: Path) -> None:
    """`railsight process` without options is no second worker of what runs."""
    with registered(instance(tmp_path)):
        assert settings_of(None, None, PROCESS).kafka.bootstrap == "127.0.0.1:9092"


def test_options_and_environment_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--bootstrap selects another cluster, and RAILSIGHT__KAFKA__BOOTSTRAP too."""
    with registered(instance(tmp_path)):
        assert settings_of(None, "127.0.0.1:20009", READER).kafka.bootstrap == "127.0.0.1:20009"
        assert settings_of(None, "127.0.0.1:20001", READER).store.url == "http://127.0.0.1:20002"
        monkeypatch.setenv("RAILSIGHT__KAFKA__BOOTSTRAP", "127.0.0.1:20008")
        assert settings_of(None, None, READER).kafka.bootstrap == "127.0.0.1:20008"


def test_a_record_of_a_process_that_ended_is_ignored(tmp_path: Path) -> None:
    """Also if another process has its number: the start time differs."""
    record = tmp_path / "data/railsight/running" / f"{os.getpid()}.json"
    with registered(instance(tmp_path)):
        (found,) = running_instances()
        assert 0 <= running_s(found) < 60
        text = record.read_text().replace(f'"started":"{found.started}"', '"started":"1"')
    record.write_text(text)
    (record.parent / "damaged.json").write_text("{")
    assert running_instances() == []
    assert list(record.parent.iterdir()) == []


def test_several_running_pipelines_are_listed(tmp_path: Path) -> None:
    """A command does not guess: it names the configuration of each."""
    other = instance(tmp_path, "b", 20003)
    with subprocess.Popen(["sleep", "60"]) as child, registered(instance(tmp_path, "a")):
        started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        record = tmp_path / "data/railsight/running" / f"{child.pid}.json"
        record.write_text(json.dumps(asdict(other) | {"pid": child.pid, "started": started}))
        with pytest.raises(Misconfigured, match=r"(?s)choose one with --config:.*\.toml\n.*\.toml"):
            local_instance(None, None, {})
        found = local_instance(None, "127.0.0.1:20003", {})
        assert found is not None and found.config == other.config
        child.kill()


def test_a_folder_in_use_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    """The error names the process; after its end the folder is free."""
    folder = tmp_path / "run"
    with locked(folder, "run folder"):
        before = (folder / "lock").read_bytes()
        with pytest.raises(Misconfigured, match=f"in use by process {os.getpid()}; stop it first"):
            locked(folder, "run folder").__enter__()
        assert (folder / "lock").read_bytes() == before
    with locked(folder, "run folder"):
        pass


def test_a_server_gets_the_port_of_its_last_run(tmp_path: Path) -> None:
    """The port is recorded; a damaged record is replaced."""
    record = tmp_path / "new" / "port"
    port = stable_port(record)
    assert stable_port(record) == port
    record.write_text("none")
    assert stable_port(record) == int(record.read_text())
