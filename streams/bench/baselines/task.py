"""The task of a baseline, and the tally that it prints at its end; each runs in its own process.

Needs only the standard library and our models: isolated baselines run in another environment.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from streams.wire.models import Samples


@dataclass(frozen=True, slots=True)
class Task:
    """Read `messages` messages of `topic` from its beginning, write what crosses a limit to `answers`, then end.

    `port_samples` counts those in all messages of the topic; `folder` is empty and for this baseline alone;
    `clickhouse` is the server's URL, for those that store.
    """

    bootstrap: str
    topic: str
    messages: int
    port_samples: int
    answers: str
    folder: str
    clickhouse: str = ""
    clickhouse_password_file: str = ""

    @property
    def group(self) -> str:
        """The consumer group of this run."""
        return f"bench{self.folder.replace('/', '.')}"

    def to_text(self) -> str:
        """Return it as an argument of the command line."""
        return json.dumps(asdict(self))


class Tally:
    """Counts the port-samples that a baseline has read, and the messages that are `left`."""

    def __init__(self, task: Task) -> None:
        self.left = task.messages
        self.port_samples = 0

    @classmethod
    def of_all(cls, task: Task) -> "Tally":
        """Return the tally of a baseline that counts by itself and has read everything."""
        tally = cls(task)
        tally.left, tally.port_samples = 0, task.port_samples
        return tally

    def add(self, samples: Samples) -> bool:
        """Count a message and return whether it was the last one."""
        self.left -= 1
        self.port_samples += len(samples.row)
        return self.full

    @property
    def full(self) -> bool:
        """True if every message has been read."""
        return self.left <= 0


def run_baseline(run: Callable[[Task], Tally]) -> None:
    """Run as the process of a baseline: the only argument is its task, the last line of output its tally."""
    tally = run(Task(**json.loads(sys.argv[1])))
    sys.stdout.write(f"\n{json.dumps({'port_samples': tally.port_samples})}\n")
    sys.stdout.flush()
