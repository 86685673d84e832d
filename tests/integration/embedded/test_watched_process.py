"""Tests that a watched server does not outlive its parent, and reports its exit code."""

import os
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.embedded.watched_process import WatchedProcess
from tests.integration.embedded.processes import first_line, python, running, until

# Starts a server from a thread that ends at once, as asyncio.to_thread may.
PARENT = """
import os, sys, threading, time
from pathlib import Path
from streams.embedded.watched_process import WatchedProcess
marker, log, fork = sys.argv[1:]
server = [sys.executable, "-c", "import time; time.sleep(600)", "server-" + marker]
servers = []
starter = threading.Thread(target=lambda: servers.append(WatchedProcess(server, Path(log))))
starter.start(); starter.join()
if fork == "fork" and os.fork() == 0:
    time.sleep(20); os._exit(0)
print("started", flush=True)
time.sleep(600)
"""
IGNORES_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""
HAS_A_CHILD = """
import subprocess, sys
print("ready", flush=True)
subprocess.run([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]])
"""


@pytest.fixture
def marker() -> Iterator[str]:
    """Yield a string that only this test's processes have in their command lines, and end them."""
    made = uuid.uuid4().hex
    yield made
    for pid in running(made):
        os.kill(pid, signal.SIGKILL)


def ready(log: Path) -> bool:
    return "ready" in log.read_text()


@pytest.mark.parametrize("fork", ["", "fork"])
def test_a_killed_parent_leaves_no_server(tmp_path: Path, marker: str, fork: str) -> None:
    """After kill -9 the server ends, although a thread started it and a forked child has the parent's pipe."""
    with python(PARENT, marker, tmp_path / "log", fork) as parent:
        assert first_line(parent) == "started"
        assert until(lambda: bool(running(f"server-{marker}", without="parent_watchdog.py")), 60)
        parent.kill()
    assert until(lambda: not running(f"server-{marker}"), 60)


def test_killing_the_watchdog_kills_the_server(tmp_path: Path, marker: str) -> None:
    """The server ends even if the watchdog is killed."""
    server = WatchedProcess([sys.executable, "-c", "import time; time.sleep(600)", marker], tmp_path / "log")
    assert until(lambda: bool(running(marker, without="parent_watchdog.py")), 60)
    (guard,) = set(running(marker)) - set(running(marker, without="parent_watchdog.py"))
    os.kill(guard, signal.SIGKILL)
    assert until(lambda: not running(marker), 60)
    assert server.wait(60) == 128 + signal.SIGKILL
    server.kill()


def test_a_server_that_ignores_sigterm_is_killed_after_its_grace(tmp_path: Path) -> None:
    """Stopping is bounded, whatever the server does."""
    server = WatchedProcess([sys.executable, "-c", IGNORES_SIGTERM], tmp_path / "log", grace_s=0.3)
    assert until(lambda: ready(tmp_path / "log"), 60)
    server.stop()
    assert server.exit_code == 128 + signal.SIGKILL


def test_the_children_of_the_server_end_with_it(tmp_path: Path, marker: str) -> None:
    """A killed JVM's helper process ends too."""
    server = WatchedProcess([sys.executable, "-c", HAS_A_CHILD, f"child-{marker}"], tmp_path / "log")
    assert until(lambda: len(running(f"child-{marker}", without="parent_watchdog.py")) == 2, 60)
    server.kill()
    assert until(lambda: not running(marker), 60)


@pytest.mark.parametrize(("code", "reported"), [("raise SystemExit(7)", 7), ("import os; os.abort()", 128 + 6)])
def test_the_exit_code_is_the_servers(tmp_path: Path, code: str, reported: int) -> None:
    """The code of a server that ended by itself is its own."""
    server = WatchedProcess([sys.executable, "-c", code], tmp_path / "log")
    assert server.wait(10) == reported
    server.stop()


def test_a_command_that_cannot_run_is_reported_in_its_log(tmp_path: Path) -> None:
    """A missing program gives an exit code and one line, not a waiting watchdog."""
    server = WatchedProcess([tmp_path / "missing"], tmp_path / "log")
    assert server.wait(10) == 127
    assert (tmp_path / "log").read_text() == f"cannot run {tmp_path}/missing: No such file or directory\n"
    server.stop()


def test_an_inherited_descriptor_stays_open_until_the_server_ends(tmp_path: Path) -> None:
    """An inherited descriptor, such as a folder's lock, stays open in the server only."""
    reader, writer = os.pipe()
    server = WatchedProcess(
        [sys.executable, "-c", "import time; time.sleep(600)"], tmp_path / "log", inherited=(writer,)
    )
    os.close(writer)
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    server.kill()
    assert os.read(reader, 1) == b""
    os.close(reader)
