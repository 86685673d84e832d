"""Tests the embedded ClickHouse as a process: starts, refusals, its own and its parent's end, and stored data."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pydantic import SecretStr

from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse, User
from streams.embedded.clickhouse.params import WITHOUT_SANDBOX
from streams.report.checkup import sandbox_problem
from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.wire.errors import Misconfigured

PASSWORD = "processes"
USERS = (User("default", PASSWORD),)


def ask(port: int, sql: bytes, query: str = "", timeout_s: float = 30) -> str:
    """Return the response to one statement; raise OSError or HTTPException if the server has ended."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        credentials = "" if "password=" in query else f"&password={PASSWORD}"
        connection.request("POST", f"/?{query}{credentials}", sql)
        got = connection.getresponse()
        body = got.read().decode()
        assert got.status == 200, body
        return body.strip()
    finally:
        connection.close()


def test_acknowledged_rows_survive_a_kill(tmp_path: Path) -> None:
    """After repeated kills during inserts, no acknowledged row is missing or duplicated."""
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path, users=USERS)) as server:
        made = b"CREATE TABLE n (batch UInt32, i UInt32) ENGINE = MergeTree ORDER BY (batch, i)"
        ask(server.port, made + b" SETTINGS non_replicated_deduplication_window = 1000")
    acknowledged = 0
    for after in (3, 7, 12):
        server = EmbeddedClickHouse(ClickHouseParams(data=tmp_path, users=USERS))
        server.start()
        done, tally = threading.Event(), list[int]()
        writer = threading.Thread(target=write_from, args=(server.port, acknowledged, after, done, tally))
        writer.start()
        assert done.wait(60), "the writer never got that far"
        server.kill()
        writer.join()
        acknowledged = tally[-1]
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path, users=USERS)) as server:
        tally = []
        write_from(server.port, acknowledged, 1, threading.Event(), tally, stop_after=True)
        last = tally[-1]
        assert last > acknowledged > 20
        counted = ask(server.port, b"SELECT uniqExact(batch), count(), uniqExact(batch, i) FROM n")
        assert counted == f"{last}\t{last * 1000}\t{last * 1000}"


def write_from(
    port: int, first: int, announce_after: int, done: threading.Event, tally: list[int], *, stop_after: bool = False
) -> None:
    """Insert batches of 1000 rows from number `first` on until the server ends; append acknowledged numbers.

    A batch whose answer never came is sent again under its own token by the next call: it must not be there twice. A
    server that was killed between recording a token and storing its rows has none; then, as the sink does, another
    token is taken.
    """
    batch = first
    tally.append(batch)
    while True:
        rows = b"".join(b"%d,%d\n" % (batch, i) for i in range(1000))
        try:
            ask(port, b"INSERT INTO n FORMAT CSV\n" + rows, f"insert_deduplication_token=b{batch}")
            if batch == first and ask(port, b"SELECT count() FROM n WHERE batch = %d" % batch) == "0":
                ask(port, b"INSERT INTO n FORMAT CSV\n" + rows, f"insert_deduplication_token=b{batch}#{time.time_ns()}")
        except (OSError, http.client.HTTPException):
            return
        batch += 1
        tally.append(batch)
        if batch - first >= announce_after:
            done.set()
            if stop_after:
                return


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent killed by SIGKILL leaves no server, and the folder can be used again."""
    program = (
        "import sys, time; from pathlib import Path; from streams.embedded.clickhouse import *\n"
        "users = (User('default', 'processes'),)\n"
        "server = EmbeddedClickHouse(ClickHouseParams(data=Path(sys.argv[1]), users=users)); server.start()\n"
        "print(server.port, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    port = int(parent.stdout.readline())
    assert ask(port, b"SELECT 1") == "1"
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path, users=USERS)) as server:
        assert ask(server.port, b"SELECT 2") == "2"
    with pytest.raises(OSError, match="refused"):
        ask(port, b"SELECT 1")


def test_a_taken_port_is_reported_in_one_line(tmp_path: Path) -> None:
    """The line names the port, and no process remains."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = EmbeddedClickHouse(ClickHouseParams(data=tmp_path, port=port))
        with pytest.raises(Misconfigured, match=f"port {port}: Address already in use") as refused:
            server.start()
    assert "\n" not in str(refused.value)
    assert server.exit_code is not None


def test_a_folder_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    """Two engines on one folder would corrupt it."""
    with (
        EmbeddedClickHouse(ClickHouseParams(data=tmp_path, users=USERS)) as first,
        pytest.raises(Misconfigured, match="in use by another process"),
    ):
        EmbeddedClickHouse(ClickHouseParams(data=tmp_path, users=USERS)).start()
    assert first.exit_code is not None


def test_a_password_is_needed_once_given(tmp_path: Path) -> None:
    """A server with one user that has a password starts and refuses access without it."""
    users = (User("default", "one-secret-of-a-test"),)
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path, users=users)) as server:
        with pytest.raises(AssertionError, match="AUTHENTICATION_FAILED"):
            ask(server.port, b"SELECT 1")
        assert ask(server.port, b"SELECT 1", "user=default&password=one-secret-of-a-test") == "1"
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert b"one-secret-of-a-test" not in process.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue


@pytest.mark.parametrize("options", [[], ["--without-sandbox"]])
def test_the_command_runs_the_server_alone(tmp_path: Path, options: list[str]) -> None:
    """`railsight clickhouse` prints its URL, responds, and ends by SIGTERM with 0; it warns without a sandbox."""
    password = tmp_path / "password"
    password.write_text("pw\n")
    command = [sys.executable, "-m", "streams.cli.main", "clickhouse", "--data", str(tmp_path / "data")]
    command[1:3] = ["-c", "from streams.cli.main import main; main()"]
    command += ["--read-only-user", "look", "--read-only-password-file", str(password), *options]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    url = running.stdout.readline().decode().strip()
    port = int(url.rpartition(":")[2])
    assert ask(port, b"SELECT 1", "user=look&password=pw") == "1"
    running.send_signal(signal.SIGTERM)
    _, warned = running.communicate(timeout=20)
    assert running.returncode == 0
    assert (WITHOUT_SANDBOX.encode() in warned) is bool(options)


def test_the_command_opens_no_unprotected_port(tmp_path: Path) -> None:
    """Outside of loopback it listens only for users with a password."""
    command = [sys.executable, "-c", "from streams.cli.main import main; main()", "clickhouse"]
    done = subprocess.run([*command, "--host", "0.0.0.0", "--data", str(tmp_path)], capture_output=True, check=False)
    assert done.returncode == 2
    assert b"needs a password" in done.stderr


def test_its_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox can read the environment of its process, so that it has no variable of the user's."""
    monkeypatch.setenv("A_TOKEN", "secret")
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path / "d")) as server:
        environment = Path(f"/proc/{server.pid}/environ").read_bytes()
        assert environment.startswith(b"PATH=") or b"\0PATH=" in environment
        assert b"A_TOKEN" not in environment


WITHOUT_LANDLOCK = """
import ctypes, struct, sys
from pathlib import Path
from pydantic import SecretStr
from streams.embedded.clickhouse import ClickHouseParams, EmbeddedClickHouse
from streams.report.checkup import sandbox_problem
from streams.store.clickhouse import ClickHouse
from streams.store.params import StoreParams
from streams.wire.errors import Misconfigured
# A seccomp filter: landlock_create_ruleset (444) fails with ENOSYS, as on a kernel without Landlock.
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
given = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
libc = ctypes.CDLL(None)
assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, given, 0, 0)
data = Path(sys.argv[1])
try:
    EmbeddedClickHouse(ClickHouseParams(data=data)).start()
except Misconfigured as error:
    print(error)
with EmbeddedClickHouse(ClickHouseParams(data=data, without_sandbox=True)) as server:
    store = StoreParams(url=server.url, user=server.user, password=SecretStr(server.password), database="default")
    print(sandbox_problem(ClickHouse(store)))
    print(server.log.read_text().splitlines()[0])
"""


def test_without_landlock_it_starts_by_an_explicit_word_only(tmp_path: Path) -> None:
    """The refusal has the reason and the next step; the word is in the log and in what clients may ask."""
    command = [sys.executable, "-c", WITHOUT_LANDLOCK, str(tmp_path / "data")]
    refused, asked, logged = subprocess.check_output(command, text=True).strip().splitlines()
    assert "has no Landlock (Function not implemented); " in refused and refused.endswith("--without-sandbox")
    assert asked == WITHOUT_SANDBOX
    assert json.loads(logged) == {"warning": WITHOUT_SANDBOX}


def test_in_its_sandbox_it_has_no_warning(tmp_path: Path) -> None:
    """Clients see that as well."""
    with EmbeddedClickHouse(ClickHouseParams(data=tmp_path)) as server:
        store = StoreParams(url=server.url, user=server.user, password=SecretStr(server.password), database="default")
        assert sandbox_problem(ClickHouse(store)) == ""
        assert "warning" not in server.log.read_text()


def test_an_impossible_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    """The line names the file that is not a folder."""
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="Not a directory"):
        EmbeddedClickHouse(ClickHouseParams(data=tmp_path / "file" / "data")).start()
