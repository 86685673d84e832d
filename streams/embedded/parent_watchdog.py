"""Runs the watchdog: a small process between railsight and a server, so that the server ends with railsight.

`python -I -S parent_watchdog.py PARENT_PID GRACE_S NICE COMMAND…` starts the command, and ends it on request or when
the parent has ended for any reason.

It is a separate process because PR_SET_PDEATHSIG depends on the *thread* that started the child: railsight starts
brokers from short-lived threads (`asyncio.to_thread`), and the end of such a thread would kill them. The kernel closes
a pipe whenever the parent ends, kill -9 included. This process has one thread, so its own death signal to the server is
reliable: killing the watchdog kills the server as well.
It imports only the standard library, so it starts in some 20 ms and stays below 10 MB.

On standard input, `t` sends SIGTERM, `k` sends SIGKILL, and the end of the file means that the parent has ended.
Its exit code is the server's, or 128 + the signal that ended the server.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1  # linux/prctl.h
CHECK_PARENT_EVERY_S = 1.0


def spawn(command: list[str], niceness: int) -> int:
    """Start the command with SIGKILL as its death signal; return its pid."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None
    watchdog = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # Makes a process group, so that the server's children can be ended with it.
        os.setpgid(0, 0)
        if prctl is not None and os.getppid() != watchdog:
            # The watchdog ended before the call of prctl, so the death signal will not be sent.
            os._exit(1)
        os.nice(niceness)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execv(command[0], command)  # noqa: S606 — no shell is wanted
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


class ParentWatchdog:
    """The loop of this process: it handles the parent's orders, the parent's end and the server's end."""

    def __init__(self, parent: int, grace_s: float, server: int) -> None:
        self.parent = parent
        self.grace_s = grace_s
        self.server = server
        self.kill_at = float("inf")

    def run(self) -> int:
        """Return the server's exit code once it has ended."""
        wake, poke = os.pipe()
        os.set_blocking(poke, False)
        signal.set_wakeup_fd(poke)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.terminate())
        watched = [0, wake]
        while True:
            # Checked before waiting: the server may have ended before SIGCHLD had a handler.
            if os.waitid(os.P_PID, self.server, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return self.end()
            ready = select.select(watched, [], [], CHECK_PARENT_EVERY_S)[0]
            if wake in ready:
                os.read(wake, 64)
            if 0 in ready and not self.on_order(os.read(0, 1)):
                watched = [wake]
            # A process that the parent forked without exec keeps the pipe open after the parent ends.
            if os.getppid() != self.parent:
                self.terminate()
            if time.monotonic() > self.kill_at:
                os.kill(self.server, signal.SIGKILL)

    def end(self) -> int:
        """End the server's remaining children (a JVM assembles AOT caches in one); return the exit code."""
        # Signals the group before reaping, while the pid cannot be reused. The server may have ended without a group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.server, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.server, 0)[1])
        return code if code >= 0 else 128 - code

    def on_order(self, order: bytes) -> bool:
        """Execute the parent's order; return False when the parent has ended."""
        if order == b"k":
            os.kill(self.server, signal.SIGKILL)
        else:
            self.terminate()
        return order != b""

    def terminate(self) -> None:
        """Send SIGTERM to the server; SIGKILL follows after the grace period."""
        if self.kill_at == float("inf"):
            self.kill_at = time.monotonic() + self.grace_s
            os.kill(self.server, signal.SIGTERM)


def main(arguments: list[str]) -> int:
    """Start the command of the arguments and return its exit code when it ends."""
    parent, grace_s, niceness, *command = arguments
    return ParentWatchdog(int(parent), float(grace_s), spawn(command, int(niceness))).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
