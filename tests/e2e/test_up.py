"""The whole pipeline with a user's configuration: started, asked, stopped, started again with what it had."""

import asyncio
import http.client
import json
import os
import signal
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from streams.config.kafka import KafkaSettings
from tests.e2e.processes import Marked, descendants, listening, once, parts, pid_of, railsight, until
from tests.fixtures.changing_folder import paths_below

pytestmark = pytest.mark.timeout(300)


@contextmanager
def running(command: list[str], log: Path, **options: object) -> Iterator[Marked]:
    with log.with_suffix(".out").open("wb") as out:
        started = Marked(command, log, stdout=out, **options)
    try:
        yield started
    finally:
        started.end()


def count(url: str, password: str) -> int | None:
    """The readings that are stored, None while there is none."""
    asked = urllib.request.Request(
        f"{url}/?query=SELECT+count()+FROM+railsight.sample_messages", headers={"X-ClickHouse-Key": password}
    )
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return int(answer.read()) or None
    except urllib.error.HTTPError:
        return None  # the table is not there yet


def where(server: str, log: Path) -> str | None:
    """Return a server's address from the output of `up`; None while it has none."""
    lines = log.with_suffix(".out").read_text().splitlines()
    return next((line.removeprefix(f"{server}: ") for line in lines if line.startswith(f"{server}: ")), None)


def end_a_follower(bootstrap: str, log: Path) -> None:
    """Ctrl-C is how a person ends `findings --follow`: at once, and without a word."""
    with running(railsight("findings", "--follow", "--bootstrap", bootstrap), log) as follower:
        until(lambda: ("nothing is open" in log.with_suffix(".out").read_text()) or None, 30, "the list")
        follower.process.send_signal(signal.SIGINT)
        assert follower.process.wait(10) == 130
    assert "Traceback" not in log.read_text()


def check_that_commands_find_it() -> None:
    """Without options they use the pipeline of this user that runs here."""
    done = once("findings")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no finding absent" in once("explain", "absent").stderr
    assert "ClickHouse has no job absent" in once("job", "absent").stderr


def check_that_a_second_one_is_refused(config: Path, run: Path) -> None:
    """It names the process that runs, and changes neither the logs nor the records of the first."""
    before = {path.name: path.read_bytes() for path in run.glob("parts.json")}, sorted(run.iterdir())
    done = once("up", "--config", str(config))
    assert done.returncode == 2
    assert "is in use by process" in done.stderr
    assert ({path.name: path.read_bytes() for path in run.glob("parts.json")}, sorted(run.iterdir())) == before


LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and ::ffff:127.0.0.1 in /proc/net."""


def check_secrets(up: Marked, data: Path, given: str) -> None:
    """No secret is in the environment or on the command line of a child; every file is for its owner only."""
    files = [
        *(data / "kafka/logins").iterdir(),
        data / "kafka/broker-password",
        *data.glob("clickhouse/face/password-*"),
    ]
    secrets = [given.encode(), *(file.read_bytes().strip() for file in files)]
    assert len(secrets) > 10
    children = descendants(up.process.pid)
    assert len(children) > 8
    for pid in children:
        shown = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        assert not [secret for secret in secrets if secret in shown], shown
    open_to_others = []
    for path in paths_below(data):
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o077:
                open_to_others.append(path)
    assert open_to_others == []


def check_sockets(up: Marked) -> None:
    """All listen on loopback, and refuse a client without a password: two of Kafka, one of ClickHouse."""
    found = listening(descendants(up.process.pid))
    assert set(found.values()) <= LOOPBACK
    answers = sorted(answer_without_login(port) for port in found)
    assert answers == ["HTTP 403", "a login, by PLAIN", "a login, by SCRAM-SHA-512, PLAIN"]


def answer_without_login(port: int) -> str:
    """Return how a server refuses a client without a login."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/?query=SELECT+1", timeout=10) as answer:
            return f"HTTP {answer.status}"
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, http.client.HTTPException):
        with pytest.raises(KafkaError) as refused:
            asyncio.run(connect(port))
        return str(refused.value).partition("requires ")[2].partition(";")[0]


async def connect(port: int) -> None:
    producer = AIOKafkaProducer(**KafkaSettings(bootstrap=f"127.0.0.1:{port}").client_options())
    try:
        await producer.start()
    finally:
        await producer.stop()


def test_up_runs_what_the_configuration_names_and_keeps_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka, ClickHouse, stages, sink and collector run on one file; SIGTERM ends all; a new start has the rows."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("RAILSIGHT__NOTIFY__TOKEN", token := "a-token-of-alertmanager")
    config = tmp_path / "railsight.toml"
    config.write_text(f'[collect.gnmi]\ntargets_file = "{tmp_path / "sim" / "targets.json"}"\ncadence_s = 1\n')
    sim = railsight("collect", "sim", "--set", f"folder={tmp_path / 'sim'}", "--set", "faults_s=0")
    up = railsight("up", "--config", str(config))
    run = tmp_path / "data" / "railsight" / "run"
    with running(sim, tmp_path / "sim.log"):
        until((lambda: True if (tmp_path / "sim" / "targets.json").exists() else None), 60, "the simulated fabric")
        assert once("config", "check", "--config", str(config)).returncode == 0
        read = once("collect", "gnmi", "--config", str(config), "--once", "--print")
        first_row = json.loads(read.stdout.splitlines()[0])
        assert first_row.keys() >= {"time", "device", "source", "port", "metrics"}, read.stderr
        with running(up, tmp_path / "first.log") as first:
            url = until(lambda: where("ClickHouse", tmp_path / "first.log"), 120, "ClickHouse")
            password = (run.parent / "clickhouse" / "face" / "password-default").read_text().strip()
            stored = until(lambda: count(url, password), 60, "a reading")
            assert set(parts(run)) == {"broker", "clickhouse", "process", "persist", "collect-gnmi"}
            check_secrets(first, tmp_path / "data" / "railsight", token)
            check_sockets(first)
            os.kill(until(lambda: pid_of(run, "collect-gnmi"), 10, "the collector"), signal.SIGKILL)
            until(lambda: (parts(run)["collect-gnmi"]["restarts"] == 1) or None, 10, "the collector again")
            end_a_follower(until(lambda: where("Kafka", tmp_path / "first.log"), 10, "Kafka"), tmp_path / "follow.log")
            check_that_commands_find_it()
            check_that_a_second_one_is_refused(config, run)
            first.process.terminate()
            assert first.process.wait(30) == 0
            assert first.left() == []
    with running(up, tmp_path / "second.log") as second:
        assert until(lambda: where("ClickHouse", tmp_path / "second.log"), 120, "ClickHouse again") == url
        assert where("Kafka", tmp_path / "second.log") == where("Kafka", tmp_path / "first.log")
        assert until(lambda: count(url, password), 60, "the readings of before") >= stored
        second.process.send_signal(signal.SIGINT)
        assert second.process.wait(30) == 0
        assert second.left() == []


def test_up_without_a_collector_is_refused(tmp_path: Path) -> None:
    """A configuration that would observe nothing does not start."""
    config = tmp_path / "railsight.toml"
    config.write_text("")
    done = once("up", "--config", str(config))
    assert done.returncode == 2
    assert "no collector is configured" in done.stderr


def test_a_part_that_cannot_start_ends_all_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector whose targets are not there is named, with its reason and its log, and nothing goes on without."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    config = tmp_path / "railsight.toml"
    config.write_text(f'[collect.gnmi]\ntargets_file = "{tmp_path / "nowhere.json"}"\n')
    with running(railsight("up", "--config", str(config)), tmp_path / "up.log") as up:
        assert up.process.wait(120) == 2
        assert up.left() == []
    result = (tmp_path / "up.log").read_text()
    assert result.startswith("railsight: collect-gnmi ended with 2: railsight: collect.gnmi: ")
    assert "nowhere.json" in result
    assert json.loads((tmp_path / "data/railsight/run/parts.json").read_text()) == []
