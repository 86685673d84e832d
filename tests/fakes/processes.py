"""Fakes of the processes that the supervisor starts in its unit tests."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class FakeProcess:
    """Runs until the test ends it."""

    pid: int | None
    exit_code: int | None = None
    stops: list[int | None] = field(default_factory=list)

    def request_stop(self) -> None:
        """Do nothing: the process ends when `stop` waits for it."""

    def stop(self) -> None:
        self.stops.append(self.pid)
        if self.exit_code is None:
            self.exit_code = 143


@dataclass
class FakeStarts:
    """Starts fake processes, records them in order, and writes the output of a part."""

    output: str = ""
    exit_code: int | None = None
    started: list[tuple[str, ...]] = field(default_factory=list)
    processes: list[FakeProcess] = field(default_factory=list)
    stops: list[int | None] = field(default_factory=list)
    """The numbers of the stopped processes, in order."""

    def __call__(self, command: Sequence[str], log: Path) -> Any:
        self.started.append(tuple(command))
        self.processes.append(FakeProcess(100 + len(self.processes), self.exit_code, stops=self.stops))
        log.write_text(self.output)
        return self.processes[-1]


@dataclass
class FakeSeconds:
    """A clock that the test moves."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now
