"""A fault kills a server that the fault before it is still starting: both faults heal, and the server runs."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab.chaos.faults import FAULTS
from lab.chaos.stack import Stack


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Yield the servers of a run, started."""
    stack = Stack(tmp_path)
    with stack.kafka, stack.clickhouse:
        yield stack


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


@pytest.mark.parametrize("fault", ["clickhouse-killed", "broker-killed"])
def test_a_start_that_a_kill_interrupts_does_not_end_the_run(stack: Stack, fault: str) -> None:
    """The power failure's start fails with 137; it waits for the end of the kill and starts what does not run."""
    target = FAULTS[fault].target
    servers: dict[str, tuple[Callable[[], None], Callable[[], None], Callable[[], bool]]] = {
        "clickhouse": (stack.clickhouse.kill, stack.restart_clickhouse, lambda: stack.clickhouse.exit_code is None),
        "kafka": (stack.kafka.kill, stack.restart_brokers, lambda: not stack.kafka.ended()),
    }
    kill, restart, is_running = servers[target]
    kill()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(restart)
        wait_until(is_running)
        with stack.fault(target):
            assert not first.done()
            kill()
        second = pool.submit(restart)
        first.result(60)
        second.result(60)
    assert is_running()
    assert target != "kafka" or stack.kafka.ready()
