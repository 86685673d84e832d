"""Keeps the parts of one machine running: starts them in order, restarts ended ones, and gives up if one cannot run.

Each part is a process behind a watchdog (streams.embedded.watched_process), so that it ends with this process, however
that ends. The caller decides the parts (streams.cli). Time and the start of processes are arguments, so that tests of
the restart rules need neither.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from streams.embedded.watched_process import WatchedProcess
from streams.wire.errors import Misconfigured

# A killed worker is back before its group removes it; a part that cannot start is restarted at growing intervals.
BACKOFF_S = (0.1, 1.0, 2.0, 4.0, 8.0)
STEADY_S = 30.0
"""A part that has run for this time counts as recovered, and the backoff begins again."""
OLD_LOGS = 5
MISCONFIGURED = 2
"""The exit code of a part that cannot start with its configuration; a restart is useless."""
GRACE_S = 10.0
TICK_S = 0.1
ASK_AGAIN_S = 0.02
LAST_LINE_CHARACTERS = 300
"""The limit for the last line of a part's log, which fits one or two lines of a terminal."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process to keep running. Parts of a higher tier use parts of lower tiers, so they stop first."""

    name: str
    command: tuple[str, ...]
    tier: int = 1


@dataclass(frozen=True, slots=True)
class PartState:
    """The last known state of a part."""

    name: str
    running: bool
    pid: int | None
    restarts: int
    log: str


@dataclass
class _Run:
    """A part's current run and its history."""

    part: Part
    process: WatchedProcess | None
    started: float
    ends_in_a_row: int = 0
    restarts: int = 0
    again_at: float = 0.0


class GaveUp(Misconfigured):
    """Raised if a part cannot be kept running; the text is one line with its name, the reason and its log."""


def _start_watched(command: Sequence[str], log: Path) -> WatchedProcess:
    return WatchedProcess(command, log, grace_s=GRACE_S)


class Supervisor:
    """Supervises the parts of one run, in one thread; call `tick` several times a second."""

    def __init__(
        self,
        folder: Path,
        *,
        start: Callable[[Sequence[str], Path], WatchedProcess] = _start_watched,
        now_s: Callable[[], float] = time.monotonic,
        backoff_s: Sequence[float] = BACKOFF_S,
    ) -> None:
        """Create a supervisor that writes the parts' logs, and `parts.json` with their pids, into `folder`."""
        self.folder = folder
        self._start_process = start
        self._now_s = now_s
        self._backoff_s = tuple(backoff_s)
        self._runs: dict[str, _Run] = {}
        self._written: tuple[PartState, ...] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    async def watch(self) -> None:
        """Tick until cancelled; raises GaveUp."""
        while True:
            self.tick()
            await asyncio.sleep(TICK_S)

    def start(self, part: Part) -> None:
        """Start a part and keep it running."""
        self._runs[part.name] = _Run(part, self._spawn(part), self._now_s())
        self._write_states()

    async def run_once(self, part: Part, within_s: float) -> None:
        """Run a part to its end; raises GaveUp with its log's last line on failure or after `within_s`."""
        process = self._spawn(part)
        give_up = self._now_s() + within_s
        try:
            while process.exit_code is None and self._now_s() < give_up:  # noqa: ASYNC110 — a process sets no event
                await asyncio.sleep(ASK_AGAIN_S)
        finally:
            code = process.exit_code
            process.stop()
        if code != 0:
            why = "did not end in time" if code is None else f"ended with {code}"
            raise GaveUp(f"{part.name} {why}: {self._last_line(part)} (log: {self.log_of(part.name)})")

    def tick(self) -> None:
        """Restart ended parts when their backoff is over; raises GaveUp if a restart is useless."""
        now = self._now_s()
        for run in self._runs.values():
            if run.process is None:
                if now >= run.again_at:
                    run.process, run.started = self._spawn(run.part), now
                    run.restarts += 1
            elif (code := run.process.exit_code) is not None:
                run.process.stop()
                run.process = None
                self._judge(run, code, now)
        self._write_states()

    def _judge(self, run: _Run, code: int, now: float) -> None:
        """Set the time of an ended part's restart."""
        if now - run.started >= STEADY_S:
            run.ends_in_a_row = 0
        if code == MISCONFIGURED or run.ends_in_a_row >= len(self._backoff_s):
            times = f" {run.ends_in_a_row + 1} times in a row" if run.ends_in_a_row else ""
            raise GaveUp(
                f"{run.part.name} ended{times} with {code}: {self._last_line(run.part)}"
                f" (log: {self.log_of(run.part.name)})"
            )
        run.again_at = now + self._backoff_s[run.ends_in_a_row]
        run.ends_in_a_row += 1

    def stop(self) -> None:
        """Stop every part, each after its users, and return once no process is left."""
        for tier in sorted({run.part.tier for run in self._runs.values()}, reverse=True):
            runs = [run for run in self._runs.values() if run.part.tier == tier and run.process is not None]
            for run in runs:
                assert run.process is not None
                run.process.request_stop()
            for run in runs:
                assert run.process is not None
                run.process.stop()
                run.process = None
        self._runs = {}
        self._write_states()

    def states(self) -> tuple[PartState, ...]:
        """Return the present state of every part, in the order of their start."""
        return tuple(
            PartState(
                name,
                run.process is not None and run.process.exit_code is None,
                run.process.pid if run.process is not None else None,
                run.restarts,
                str(self.log_of(name)),
            )
            for name, run in self._runs.items()
        )

    def log_of(self, name: str) -> Path:
        """Return the file of the log of a part's newest run."""
        return self.folder / f"{name}.log"

    def _spawn(self, part: Part) -> WatchedProcess:
        log = self.log_of(part.name)
        # The logs of some previous runs stay, because they show why the runs ended.
        for i in range(OLD_LOGS, 0, -1):
            older = log.with_suffix(f".{i - 1}.log") if i > 1 else log
            if older.exists():
                older.replace(log.with_suffix(f".{i}.log"))
        return self._start_process(part.command, log)

    def _last_line(self, part: Part) -> str:
        try:
            lines = self.log_of(part.name).read_text(errors="replace").split("\n")
        except OSError:
            return "it left no log"
        return _short(next((line.strip() for line in reversed(lines) if line.strip()), "no output"))

    def _write_states(self) -> None:
        """Write the running parts to `parts.json` after a change, for tools that monitor or end a part."""
        if (states := self.states()) == self._written:
            return
        self._written = states
        rows = [
            {"name": s.name, "running": s.running, "pid": s.pid, "restarts": s.restarts, "log": s.log} for s in states
        ]
        scratch = self.folder / "parts.new"
        scratch.write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        scratch.replace(self.folder / "parts.json")


def _short(line: str) -> str:
    """Return the event of a log line without time and level, or the end of a traceback, which has the reason."""
    with suppress(orjson.JSONDecodeError, KeyError, TypeError):
        line = str(orjson.loads(line)["event"])
    return line if len(line) <= LAST_LINE_CHARACTERS else f"…{line[-LAST_LINE_CHARACTERS:]}"
