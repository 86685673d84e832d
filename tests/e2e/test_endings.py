"""However the demo ends, nothing of it is left running."""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.processes import Marked, pid_of, railsight, until

pytestmark = pytest.mark.timeout(180)

# The command gets the terminal as its controlling one, as in a shell; the screen is drawn on standard error.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.dup2(0, 2);"
    " os.execv(sys.argv[1], sys.argv[1:])"
)


@dataclass
class Terminal:
    """A terminal with the demo on it, and what was drawn there."""

    demo: Marked
    keyboard: int
    drawn: bytearray = field(default_factory=bytearray)

    def read(self) -> None:
        """Read the output until the terminal is closed; the screen blocks without a reader."""
        while True:
            try:
                piece = os.read(self.keyboard, 65536)
            except OSError:
                return
            if not piece:
                return
            self.drawn += piece

    def shows(self, text: str) -> bool | None:
        """Return whether it was ever drawn, None while not."""
        return True if text.encode() in self.drawn else None


@contextmanager
def on_terminal(folder: Path) -> Iterator[Terminal]:
    """The demo as a person runs it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    command = [
        sys.executable,
        "-c",
        _ON_TERMINAL,
        *railsight("demo", "--seconds", "60", "--run-dir", str(folder / "run")),
    ]
    demo = Marked(command, folder / "demo.log", stdin=theirs, stdout=theirs, start_new_session=True)
    os.close(theirs)
    terminal = Terminal(demo, ours)
    reading = threading.Thread(target=terminal.read, daemon=True)
    reading.start()
    try:
        yield terminal
    finally:
        demo.end()
        os.close(ours)
        reading.join(5)


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    """On a terminal the fabric, the pipeline and findings are drawn; Ctrl-C ends every process within seconds."""
    with on_terminal(tmp_path) as terminal:
        until(lambda: terminal.shows("spines"), 120, "the fabric on the screen")
        until(lambda: terminal.shows("link/flap"), 60, "a finding on the screen")
        os.write(terminal.keyboard, b"p")
        until(lambda: terminal.shows("planned: begins later"), 10, "the list of faults on the screen")
        os.write(terminal.keyboard, b"p")
        until(lambda: terminal.shows("records/s"), 10, "the pipeline on the screen")
        os.write(terminal.keyboard, b"\x03")
        assert terminal.demo.process.wait(30) == 130
        assert terminal.demo.left() == []


def test_a_killed_demo_takes_everything_with_it(tmp_path: Path) -> None:
    """A SIGKILL, which no handler sees, leaves no broker, no worker and no collector behind."""
    run = tmp_path / "run"
    with (tmp_path / "out").open("wb") as out:
        demo = Marked(railsight("demo", "--headless", "--run-dir", str(run)), tmp_path / "demo.log", stdout=out)
    try:
        until(lambda: pid_of(run, "gnmi"), 120, "the collector")
        assert len(demo.left()) > 6
        os.kill(demo.process.pid, signal.SIGKILL)
        demo.process.wait(10)
        until(lambda: None if demo.left() else True, 30, "the end of every part")
    finally:
        demo.end()
