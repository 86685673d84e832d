"""Runs a server that ends with this process: a watchdog (parent_watchdog.py) starts, stops and kills it."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
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
        inherited: Sequence[int] = (),
        grace_s: float = 10.0,
        niceness: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start `command` with its output in `log`, which is truncated first.

        `inherited` are file descriptors that stay open in the server, such as a folder's lock.
        `environment` is the server's environment; None means this process's.
        """
        self.grace_s = grace_s
        shim: list[str | Path] = [sys.executable, "-I", "-S", _WATCHDOG, str(os.getpid()), str(grace_s), str(niceness)]
        with log.open("wb") as out:
            self._watchdog = subprocess.Popen(
                [*shim, *command],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
                pass_fds=inherited,
                env=environment,
                # Makes a new session, so that Ctrl-C in the terminal reaches only this process.
                start_new_session=True,
            )

    @property
    def exit_code(self) -> int | None:
        """The server's exit code, or 128 + the signal that ended it; None while it runs."""
        code = self._watchdog.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def pid(self) -> int | None:
        """The server's pid while it runs; None before the watchdog has started it, or without /proc."""
        watchdog = self._watchdog.pid
        with suppress(OSError, ValueError, IndexError):
            return int(Path(f"/proc/{watchdog}/task/{watchdog}/children").read_text().split()[0])
        return None

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the server to end by itself; return its exit code, or None after the timeout."""
        with suppress(subprocess.TimeoutExpired):
            self._watchdog.wait(timeout_s)
        return self.exit_code

    def request_stop(self) -> None:
        """Request a stop and return at once; the server is killed after the grace period."""
        self._order(b"t")

    def stop(self) -> None:
        """Stop the server and return once it has ended; it is killed after the grace period."""
        self.request_stop()
        self._wait_for_end(self.grace_s + 5)

    def kill(self) -> None:
        """Kill the server with SIGKILL, and return once it has ended."""
        self._order(b"k")
        self._wait_for_end(5)

    def _order(self, letter: bytes) -> None:
        assert self._watchdog.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self._watchdog.stdin.write(letter)
            self._watchdog.stdin.flush()

    def _wait_for_end(self, within_s: float) -> None:
        try:
            self._watchdog.wait(within_s)
        except subprocess.TimeoutExpired:
            # The watchdog does not respond: killing it kills the server, whose death signal is SIGKILL.
            self._watchdog.kill()
            self._watchdog.wait()
        assert self._watchdog.stdin is not None
        with suppress(BrokenPipeError):
            self._watchdog.stdin.close()
