"""From `railsight init` to the first finding, typed on a terminal and recorded.

`python -m tests.documented.first_finding` makes a fabric of network namespaces (snmp_fabric.py), types the commands of
a newcomer, pulls a cable, and waits for the finding. It writes the recording (asciicast version 2, which `asciinema
play` and players on web pages read) and the page with its text, minutes and keystrokes. Needs root.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from streams.embedded.directories import cache_directory
from tests.documented.snmp_fabric import COMMUNITY, HOSTS, LEAVES, SnmpFabric, reason_not_to_run, snmp_fabric

DOCS = Path(__file__).parents[2] / "docs"
CAST, PAGE = DOCS / "static/first-finding.cast", DOCS / "first-finding.md"
COLUMNS, LINES = 80, 30
PROMPT = "noc$ "
KEYS_PER_S = 12.0
"""The speed of typing, about 140 words a minute; a slower person adds the difference."""
STEP_S = 240.0
"""The limit of one step on a busy machine."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]| \r(?!\n)|\r")
"""All that is no text. The shell breaks a typed line at the edge of the terminal by a space and a return."""


class NoOutput(Exception):
    """A step did not print what it was expected to print."""


@dataclass
class Session:
    """A shell on a terminal of its own: what was typed, and what it printed, with times from the start."""

    command: list[str]
    folder: Path
    environ: dict[str, str]
    keystrokes: int = 0
    events: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start the shell."""
        self._master, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            self.command, stdin=follower, stdout=follower, stderr=follower, cwd=self.folder, env=self.environ,
        )  # fmt: skip
        os.close(follower)
        self._began_s = time.monotonic()
        self._unread = ""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began_s

    def type(self, text: str) -> None:
        """Type a text and Enter, key by key; what it prints is read meanwhile."""
        for key in f"{text}\r":
            os.write(self._master, key.encode())
            self.keystrokes += 1
            self._read(1 / KEYS_PER_S)

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())
        self.keystrokes += 1

    def expect(self, pattern: str, timeout_s: float = STEP_S) -> str:
        """Return the match once it is printed; raises NoOutput."""
        deadline_s = time.monotonic() + timeout_s
        while (found := re.search(pattern, self._unread)) is None:
            if time.monotonic() > deadline_s or self._process.poll() is not None:
                raise NoOutput(f"no {pattern!r} within {timeout_s:g} s; the end of the output:\n{self._unread[-2000:]}")
            self._read(0.2)
        self._unread = self._unread[found.end() :]
        return found[0]

    def _read(self, wait_s: float) -> None:
        end_s = time.monotonic() + wait_s
        while (left_s := end_s - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left_s)[0]:
                return
            try:
                text = os.read(self._master, 65536).decode(errors="replace")
            except OSError:
                return
            self.events.append((self.elapsed_s, text))
            self._unread += _CONTROL.sub("", text)

    def end(self) -> None:
        """End the shell with everything that it started."""
        os.killpg(self._process.pid, signal.SIGHUP)
        self._process.wait(60)
        os.close(self._master)

    def text(self) -> str:
        """Return what the terminal showed, without control sequences."""
        lines = _CONTROL.sub("", "".join(text for _, text in self.events)).split("\n")
        return "\n".join(line.rstrip() for line in lines).strip()


@dataclass(frozen=True)
class Outcome:
    """The times of one run in seconds from the first key, its keys and its recording."""

    ready_s: float
    pulled_s: float
    found_s: float
    keystrokes: int
    text: str
    events: list[tuple[float, str]]
    finding: str


def run(folder: Path, fabric: SnmpFabric, print_line: Callable[[str], None]) -> Outcome:
    """Type the commands and return what happened; raises NoOutput."""
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # The namespace has no way out: the broker's jars come from the cache of an earlier run.
    environ = {"PATH": programs, "HOME": str(folder), "TERM": "xterm", "LANG": "C.UTF-8", "PS1": PROMPT,
               "XDG_CACHE_HOME": str(cache_directory().parent)}  # fmt: skip
    shell = ["setsid", "--ctty", "ip", "netns", "exec", fabric.noc, "bash", "--norc", "--noprofile", "-i"]
    session = Session(shell, folder, environ)
    try:
        session.expect(re.escape(PROMPT))
        print_line("init")
        _answer_init(session, fabric)
        print_line("links")
        session.type("cd site/inventory")
        session.type("for n in 1 2 3 4; do for r in 1 2; do"
                     " echo gpu$n,rail$r,leaf$r,swp$n,host-link,$r,,; done; done >> links.csv")  # fmt: skip
        session.type("cd ../..; railsight inventory check site/inventory")
        session.expect(r"fine; 6 devices, 8 links")
        print_line("up")
        session.type("railsight up --config site/railsight.toml > up.log 2>&1 &")
        session.type("until railsight status > status.txt 2>&1; do sleep 1; done; cat status.txt")
        session.expect(rf"{HOSTS[-1]} +snmp +up.*\n(?:.*\n)*?.*{re.escape(PROMPT)}")
        ready_s = session.elapsed_s
        print_line(f"every device is read after {ready_s:.0f} s; pull a cable")
        near, far = fabric.cable(HOSTS[2], LEAVES[0])
        session.type(f"ip -n {fabric.cables} link set {near} down; ip -n {fabric.cables} link set {far} down")
        pulled_s = session.elapsed_s
        session.type("railsight findings --follow")
        # The terminal has it on more than one line.
        finding = " ".join(session.expect(r"[^\n]*link/down[^[]*\[\w+\]").split())
        found_s = session.elapsed_s
        session.press("\x03")
        session.expect(re.escape(PROMPT))
        print_line(f"found after {found_s:.0f} s: {finding}")
        return Outcome(ready_s, pulled_s, found_s, session.keystrokes, session.text(), session.events, finding)
    finally:
        session.end()


def _answer_init(session: Session, fabric: SnmpFabric) -> None:
    """Answer the questions of `railsight init`."""
    session.type("railsight init site")
    addresses = fabric.addresses
    answers = (
        ("Name of the fabric", "lab"),
        ("Switches by gNMI", ""),
        ("Switches by SNMP", " ".join(f"{name}={addresses[name]}" for name in LEAVES)),
        ("Hosts, as NAME", " ".join(f"{name}={addresses[name]}" for name in HOSTS)),
        ("SNMP community", COMMUNITY),
        ("Is this machine", ""),
        ("GPUs of each host", "8"),
        ("URL of Grafana", ""),
    )
    for question, answer in answers:
        session.expect(f"{question}[^\n]*: ?$")
        session.type(answer)
    session.expect(r"railsight up --config")
    session.expect(re.escape(PROMPT))


def cast_lines(outcome: Outcome) -> str:
    """Return the recording as asciicast version 2."""
    head = {"version": 2, "width": COLUMNS, "height": LINES, "title": "railsight: from init to the first finding"}
    rows = [json.dumps(head), *(json.dumps([round(at_s, 3), "o", text]) for at_s, text in outcome.events)]
    return "\n".join(rows) + "\n"


def main(arguments: list[str]) -> int:
    """Run once and write the recording and the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.documented.first_finding", description=__doc__)
    parser.add_argument("--cast", type=Path, default=CAST, help="file of the recording")
    parser.add_argument("--page", type=Path, default=PAGE, help="file of the page")
    options = parser.parse_args(arguments)
    if reason := reason_not_to_run():
        sys.stderr.write(f"first_finding: {reason}\n")
        return 2
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        agents, home = Path(temporary) / "agents", Path(temporary) / "noc"
        agents.mkdir()
        home.mkdir()
        with snmp_fabric(agents) as fabric:
            outcome = run(home, fabric, print)
            names = {str(home): "/home/noc", fabric.cables: "cables", f"({socket.gethostname()})": "(noc)"}
    from tests.documented.first_finding_page import page

    options.cast.parent.mkdir(parents=True, exist_ok=True)
    options.cast.write_text(_renamed(cast_lines(outcome), names), encoding="utf-8")
    options.page.write_text(_renamed(page(outcome), names), encoding="utf-8")
    return 0


def _renamed(text: str, names: dict[str, str]) -> str:
    for own, shown in names.items():
        text = text.replace(own, shown)
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
