"""Runs a server that cannot outlive this process: a watchdog (parent_watchdog.py) starts, stops and kills it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_WATCHDOG = Path(__file__).with_name("parent_watchdog.py")


class WatchedProcess:
    """One run of one command, from its start to its end."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        *,
        held: Sequence[int] = (),
        grace_s: float = 10.0,
        niceness: int = 0,
    ) -> None:
        """Start `command`; what it prints goes to `log`, written anew.

        `held` are file descriptors that the server keeps open as long as it lives, such as a folder's lock.
        """
        self.grace_s = grace_s
        shim: list[str | Path] = [sys.executable, "-I", "-S", _WATCHDOG, str(os.getpid()), str(grace_s), str(niceness)]
        with log.open("wb") as out:
            self._guard = subprocess.Popen(
                [*shim, *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=held,
                # A session of its own: Ctrl-C in the terminal is ours to answer, not the server's.
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """The server's exit code, 128 + the signal that ended it, or None while it runs."""
        code = self._guard.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def pid(self) -> int | None:
        """The server's process number while it runs; None before the guard has started it, or where /proc is none."""
        guard = self._guard.pid
        with suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{guard}/task/{guard}/children").read_text().split()[0])
        return None

    def wait(self, timeout_s: float) -> int | None:
        """Return its exit code once it has ended by itself, or None if it has not in time."""
        with suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout_s)
        return self.exit_code

    def request_stop(self) -> None:
        """Ask it to stop and return at once; it is killed after the grace."""
        self._order(b"t")

    def stop(self) -> None:
        """Ask it to stop, and return once it has; it is killed after the grace."""
        self.request_stop()
        self._ended(self.grace_s + 5)

    def kill(self) -> None:
        """End it with SIGKILL, and return once it is gone."""
        self._order(b"k")
        self._ended(5)

    def _order(self, letter: bytes) -> None:
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self._guard.stdin.write(letter)
            self._guard.stdin.flush()

    def _ended(self, within_s: float) -> None:
        try:
            self._guard.wait(within_s)
        except subprocess.TimeoutExpired:
            # A stopped or starved guard: with it goes the server, whose death signal is SIGKILL.
            self._guard.kill()
            self._guard.wait()
        assert self._guard.stdin is not None
        with suppress(BrokenPipeError):
            self._guard.stdin.close()
