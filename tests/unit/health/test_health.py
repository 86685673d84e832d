"""The checks of a process: unknown is not ready, stuck is not live, and each answer names the failing check."""

import asyncio
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from lab.constants import with_constants
from streams.health.health import Health, HealthParams
from streams.health.input_checks import Backlog
from streams.health.status_server import StatusServer, notify, stop_of, supervised
from streams.wire.errors import Misconfigured
from tests.fakes.processes import FakeSeconds


def test_a_process_is_ready_only_after_its_start_and_while_every_check_passes() -> None:
    """Before the start and before the first evaluation it is live and not ready; a problem is one line."""
    health, problem = Health(HealthParams(), FakeSeconds()), "no answer\nfor 3 s"
    health.ready_while("brokers", lambda: problem)
    assert (health.liveness_problem(), health.readiness_problem()) == ("", "start: not complete")
    health.beat()
    assert health.readiness_problem() == "start: not complete"
    health.started()
    assert health.readiness_problem() == "start: not complete"
    health.beat()
    assert (health.liveness_problem(), health.readiness_problem()) == ("", "brokers: no answer for 3 s")
    problem = ""
    health.beat()
    assert health.readiness_problem() == ""
    health.stopping()
    health.beat()
    assert (health.liveness_problem(), health.readiness_problem()) == ("", "stop: under way")


@pytest.mark.parametrize(
    ("is_live", "check", "problem"),
    [
        (True, lambda: str(1 // 0), "state: cannot be evaluated: ZeroDivisionError"),
        (False, lambda: "measure/3 stands still", "state: measure/3 stands still"),
    ],
    ids=["a check that fails", "a process that is not live"],
)
def test_a_check_without_a_result_is_unknown_and_a_process_that_is_not_live_is_not_ready(
    is_live: bool, check: Callable[[], str], problem: str
) -> None:
    """Both answers name the check of liveness."""
    health = Health(HealthParams(), FakeSeconds())
    (health.ready_while if is_live else health.live_while)("state", check)
    health.started()
    health.beat()
    assert health.readiness_problem().startswith(problem)
    assert health.liveness_problem() == ("" if is_live else problem)


def test_without_evaluation_for_too_long_a_process_is_not_live() -> None:
    """An event loop that does not turn evaluates nothing; the first turn after it is live again."""
    clock = FakeSeconds()
    health = Health(with_constants(HealthParams, stuck_s=10)(), clock)
    health.started()
    health.beat()
    clock.now += 10
    assert health.liveness_problem() == ""
    clock.now += 1
    assert health.liveness_problem() == health.readiness_problem() == "event-loop: has not turned for 11 s"
    health.beat()
    assert health.readiness_problem() == ""


def test_input_is_stuck_only_if_it_does_not_move_while_records_wait() -> None:
    """Neither an idle input, nor one that moves, nor one that waits for brokers counts; each wait is a new one."""
    clock = FakeSeconds()
    backlog = Backlog(10, clock)

    def after(seconds: float, position: int, *, is_waiting: bool) -> str:
        clock.now += seconds
        return backlog.problem("measure/3", position, is_waiting=is_waiting)

    assert after(0, 5, is_waiting=True) == ""
    assert after(11, 6, is_waiting=True) == ""
    assert after(11, 6, is_waiting=False) == ""
    assert after(9, 6, is_waiting=True) == ""
    assert after(2, 6, is_waiting=True) == "measure/3 processed no record for 11 s though records wait"
    backlog.retain(set())
    assert after(0, 6, is_waiting=True) == ""


def answer_of(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture
def served() -> Iterator[tuple[Health, int]]:
    """Yield a health whose loop counts as stuck after half a second, and its port."""
    health = Health(with_constants(HealthParams, stuck_s=0.5)(), time.monotonic)
    with closing(StatusServer("127.0.0.1", 0, CollectorRegistry(), health)) as server:
        yield health, server.port


def test_a_blocked_event_loop_answers_that_it_is_not_live(served: tuple[Health, int]) -> None:
    """While the loop computes without end, the server's own thread answers 503; after it, 200."""
    health, port = served
    release, is_blocked = threading.Event(), threading.Event()

    async def work() -> None:
        health.started()
        async with supervised(health, {}):
            await asyncio.sleep(0)
            is_blocked.set()
            release.wait(30)
            await asyncio.to_thread(poll, (200, "ok\n"))

    def poll(wanted: tuple[int, str]) -> None:
        give_up = time.monotonic() + 20
        while (found := answer_of(port, "/livez"))[0] != wanted[0]:
            assert time.monotonic() < give_up, found
            time.sleep(0.02)
        assert wanted[1] in found[1]
        assert answer_of(port, "/readyz")[0] == wanted[0]

    loop = threading.Thread(target=asyncio.run, args=(work(),), daemon=True)
    loop.start()
    assert is_blocked.wait(10)
    try:
        poll((503, "event-loop: has not turned for"))
    finally:
        release.set()
    loop.join(20)
    assert not loop.is_alive()


def test_metrics_are_beside_the_health(served: tuple[Health, int]) -> None:
    """Any other path is the metrics; a port in use is refused by name."""
    _, port = served
    assert answer_of(port, "/metrics")[0] == 200
    assert answer_of(port, "/readyz") == (503, "start: not complete\n")
    with pytest.raises(Misconfigured, match=f"cannot listen on 127.0.0.1:{port}"):
        StatusServer("127.0.0.1", port, CollectorRegistry(), Health(HealthParams(), time.monotonic))


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """Yield the socket that systemd would listen on, and the environment with its path."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        listening.settimeout(10)
        yield listening, {"NOTIFY_SOCKET": str(path)}


def lines(listening: socket.socket) -> list[str]:
    return listening.recv(4096).decode().split("\n")


async def test_systemd_receives_ready_watchdog_and_stopping(systemd: tuple[socket.socket, dict[str, str]]) -> None:
    """READY=1 once, when the process is ready; until then its start is extended; STOPPING=1 at the end."""
    listening, environ = systemd
    health = Health(with_constants(HealthParams, stuck_s=5)(), time.monotonic)
    problem = "no answer yet"
    health.ready_while("brokers", lambda: problem)
    health.started()
    async with supervised(health, environ):
        first = await asyncio.to_thread(lines, listening)
        assert first == ["WATCHDOG=1", "STATUS=brokers: no answer yet", "EXTEND_TIMEOUT_USEC=5000000"]
        problem = ""
        assert await asyncio.to_thread(lines, listening) == ["WATCHDOG=1", "STATUS=ready", "READY=1"]
        assert await asyncio.to_thread(lines, listening) == ["WATCHDOG=1", "STATUS=ready"]
        stop_of(health, environ)
        assert await asyncio.to_thread(lines, listening) == ["STOPPING=1", "STATUS=stopping"]


async def test_ready_is_repeated_while_the_socket_is_full(systemd: tuple[socket.socket, dict[str, str]]) -> None:
    """A busy systemd must not wait for ever for a process that was ready at that moment."""
    listening, environ = systemd
    while notify("WATCHDOG=1", environ=environ):
        pass
    health = Health(with_constants(HealthParams, stuck_s=5)(), time.monotonic)
    health.started()
    async with supervised(health, environ):
        await asyncio.sleep(0)
        while "READY=1" not in await asyncio.to_thread(lines, listening):
            pass


async def test_systemd_receives_no_watchdog_of_a_process_that_is_not_live(
    systemd: tuple[socket.socket, dict[str, str]],
) -> None:
    """Nothing is sent while a check of liveness fails, so that systemd restarts the process."""
    listening, environ = systemd
    health, evaluated = Health(HealthParams(), time.monotonic), asyncio.Event()

    def check() -> str:
        evaluated.set()
        return "measure/3 stands still"

    health.live_while("input", check)
    async with supervised(health, environ):
        await asyncio.wait_for(evaluated.wait(), 10)
        await asyncio.sleep(0)
    listening.setblocking(False)
    with pytest.raises(BlockingIOError):
        listening.recv(4096)


def test_a_full_or_missing_socket_stops_nothing(systemd: tuple[socket.socket, dict[str, str]]) -> None:
    """Without systemd nothing is sent; a socket that nothing reads does not block."""
    notify("READY=1", environ={})
    notify("READY=1", environ={"NOTIFY_SOCKET": "/nowhere/socket"})
    listening, environ = systemd
    for _ in range(2000):
        notify("WATCHDOG=1", environ=environ)
    assert lines(listening) == ["WATCHDOG=1"]


def test_an_abstract_socket_is_reached() -> None:
    """A name that begins with @ is in the abstract name space."""
    name = f"railsight-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(10)
        notify("READY=1", environ={"NOTIFY_SOCKET": f"@{name}"})
        assert lines(listening) == ["READY=1"]
