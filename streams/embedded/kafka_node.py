"""Runs one broker process: formats its folder, starts and stops it, and finds the cause of its end.

kafka.py decides which nodes exist and when they are ready.
"""

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.embedded.directories import write_private
from streams.embedded.java import Java
from streams.embedded.kafka_config import CRASH_REPORT, SCRATCH, Ports, Security, jvm_flags, properties, render
from streams.embedded.watched_process import WatchedProcess
from streams.wire.errors import Misconfigured

# A single broker stops 0.2 s after SIGTERM; the last of three does not stop, because it has no majority.
GRACE_S = 5.0
FORMAT_TIMEOUT_S = 180.0


class Crashed(Misconfigured):
    """Raised if the JVM itself crashed, which no setting of the broker causes."""


@dataclass(frozen=True)
class Software:
    """The software of a broker: Java, the jars, the size of the heap, and whether its clients use TLS."""

    java: Java
    jars: tuple[Path, ...]
    heap_mib: int
    tls: bool = False

    def command(self, folder: Path, main: str, *arguments: str, aot: Sequence[str] = ()) -> list[str]:
        """Return the command line that runs a main class of the broker's jars for the node in `folder`."""
        classpath = ":".join(map(str, self.jars))
        flags = jvm_flags(self.heap_mib, folder, aot, tls=self.tls)
        return [str(self.java.command), *flags, "-cp", classpath, main, *arguments]


class Node:
    """Node `number` (counted from 1) of a cluster, with its own folder."""

    def __init__(
        self, number: int, folder: Path, ports: Sequence[Ports], software: Software, security: Security | None = None
    ) -> None:
        self.number = number
        self.folder = folder
        self.ports = ports
        self.software = software
        self.security = security
        self.process: WatchedProcess | None = None

    @property
    def log(self) -> Path:
        """The log of its broker; `server.old.log` is the log of the previous run."""
        return self.folder / "server.log"

    @property
    def is_running(self) -> bool:
        """The process of the broker is running."""
        process = self.process  # a kill in another thread clears it
        return process is not None and process.exit_code is None

    def format(self, cluster_id: str, aot: Sequence[str], inherited: Sequence[int], niceness: int = 0) -> None:
        """Create the node's data directory for this cluster, unless it exists.

        It is created under another name and then renamed, so that a kill in between leaves no incomplete directory.
        """
        if (self.folder / "data").exists():
            return
        made = self.folder / "data.new"
        config = self._configure("format.properties", made)
        arguments = ["format", "--ignore-formatted", "-t", cluster_id, "-c", str(config)]
        log = self.folder / "format.log"
        command = self.software.command(self.folder, "kafka.tools.StorageTool", *arguments, aot=aot)
        run = WatchedProcess(command, log, inherited=inherited, niceness=niceness)
        code = run.wait(FORMAT_TIMEOUT_S)
        run.kill()
        if code != 0:
            raise self._error(f"cannot format {made}: {failure_reason(log)} (log: {log})")
        made.replace(self.folder / "data")

    def spawn(self, aot: Sequence[str], inherited: Sequence[int], niceness: int = 0, grace_s: float = GRACE_S) -> None:
        """Start its broker without waiting until it is ready."""
        config = self._configure("server.properties", self.folder / "data")
        if self.log.exists():
            self.log.replace(self.folder / "server.old.log")
        command = self.software.command(self.folder, "kafka.Kafka", str(config), aot=aot)
        self.process = WatchedProcess(command, self.log, inherited=inherited, niceness=niceness, grace_s=grace_s)

    def _configure(self, name: str, log_dir: Path) -> Path:
        self.folder.mkdir(exist_ok=True)
        shutil.rmtree(self.folder / SCRATCH, ignore_errors=True)
        (self.folder / SCRATCH).mkdir(exist_ok=True)
        if (report := self.folder / CRASH_REPORT).exists():
            report.replace(self.folder / "jvm-crash.old.log")
        config = self.folder / name
        write_private(config, render(properties(self.number, self.ports, log_dir, self.security)))
        return config

    def _error(self, line: str) -> Misconfigured:
        # The exit code does not reveal a crash: without a core dump, HotSpot exits with 1.
        return (Crashed if (self.folder / CRASH_REPORT).exists() else Misconfigured)(line)

    def check(self) -> None:
        """Raise Misconfigured, with the reason, if its process ended by itself."""
        process = self.process  # a kill in another thread clears it
        if process is not None and (code := process.exit_code) is not None:
            ports = self.ports[self.number - 1]
            reason = failure_reason(self.log)
            if "Address already in use" in reason:
                reason = f"port {ports.broker} or {ports.controller} on 127.0.0.1 is taken"
            raise self._error(f"broker {self.number} ended with {code}: {reason} (log: {self.log})")

    def stop(self) -> None:
        """Stop its broker if it runs, and return once it has ended."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def kill(self) -> None:
        """Kill its broker as a crash would, and return once it has ended."""
        if self.process is not None:
            self.process.kill()
            self.process = None


# Messages of the JVM and the broker with a cause that a user can remove; they take precedence over other messages.
_CAUSE = re.compile(
    r"Address already in use|No space left on device|OutOfMemoryError[^\n]*|Failed to acquire lock[^\n]*"
    r"|Could not reserve enough space[^\n]*|Permission denied[^\n]*"
)


def failure_reason(log: Path) -> str:
    """Return the line of a broker's log that best explains why it ended."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "it has no log"
    if match := _CAUSE.search("\n".join(lines)):
        return match.group()
    errors = [line for line in lines if re.search(r"ERROR|Exception|Error:|#  SIG", line)]
    return (errors or lines or ["its log is empty"])[-1].strip()
