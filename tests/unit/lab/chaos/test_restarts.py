"""Starts of a server that another fault interrupts are repeated; a start that fails by itself is an error."""

from contextlib import ExitStack

import pytest

from lab.chaos.stack import STARTS, Restarts
from streams.wire.errors import Misconfigured


class Server:
    """A server whose first starts meet a fault, which ends before the next one."""

    def __init__(self, interrupted: int = 0, broken: int = 0) -> None:
        self.restarts = Restarts(self._start)
        self.starts = 0
        self._interrupted, self._broken = interrupted, broken

    def _start(self) -> None:
        self.starts += 1
        if self.starts <= self._interrupted:
            with self.restarts.fault():
                raise Misconfigured("ended with code 137 while it started")
        if self.starts <= self._broken:
            raise Misconfigured("cannot read its data")


def test_a_start_that_fails_by_itself_is_not_repeated() -> None:
    """It would hide a server that cannot start after a kill."""
    server = Server(broken=1)
    with server.restarts.fault():
        pass  # a fault that has ended interrupts nothing
    with pytest.raises(Misconfigured, match="cannot read its data"):
        server.restarts.restart()
    assert server.starts == 1


def test_a_start_that_a_fault_interrupts_is_repeated() -> None:
    """The next one succeeds."""
    server = Server(interrupted=1)
    server.restarts.restart()
    assert server.starts == 2


def test_a_start_is_repeated_a_bounded_number_of_times() -> None:
    """The last error is raised."""
    server = Server(interrupted=STARTS + 1)
    with pytest.raises(Misconfigured, match="137"):
        server.restarts.restart()
    assert server.starts == STARTS


def test_a_start_after_a_fault_that_did_not_end_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is still full stops a start; after the longest wait it is attempted all the same."""
    monkeypatch.setattr("lab.chaos.stack.FREE_WITHIN_S", 0.01)
    server = Server(broken=1)
    with ExitStack() as stack:
        stack.enter_context(server.restarts.fault())
        server.restarts.restart()
    assert server.starts == 2
