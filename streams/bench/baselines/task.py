"""What a contender is told, and what it says when it is done; each runs as a process of its own.

Needs the standard library and our models only: some contenders live in an environment that is not ours.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass

from streams.wire.models import Samples


@dataclass(frozen=True, slots=True)
class Task:
    """Read `messages` messages of `topic` from its beginning, write what crosses a limit to `answers`, then end.

    `port_samples` are in all messages of the topic; `folder` is empty and the contender's own; `clickhouse` is the
    server's URL, for those who store.
    """

    bootstrap: str
    topic: str
    messages: int
    port_samples: int
    answers: str
    folder: str
    clickhouse: str = ""

    @property
    def group(self) -> str:
        """The consumer group of this one run."""
        return f"bench{self.folder.replace('/', '.')}"

    def to_text(self) -> str:
        """As it stands on the contender's command line."""
        return json.dumps(asdict(self))


class Tally:
    """What a contender has read, and how many messages are `left`."""

    def __init__(self, task: Task) -> None:
        self.left = task.messages
        self.port_samples = 0

    @classmethod
    def of_all(cls, task: Task) -> "Tally":
        """Of a contender that counts by itself and has read everything."""
        tally = cls(task)
        tally.left, tally.port_samples = 0, task.port_samples
        return tally

    def add(self, samples: Samples) -> bool:
        """Count a message; says whether it was the last one."""
        self.left -= 1
        self.port_samples += len(samples.row)
        return self.full

    @property
    def full(self) -> bool:
        """Whether all has been read."""
        return self.left <= 0


def run_baseline(run: Callable[[Task], Tally]) -> None:
    """Be the process of a contender: its task is the one argument, its tally the last line that it prints."""
    tally = run(Task(**json.loads(sys.argv[1])))
    sys.stdout.write(f"\n{json.dumps({'port_samples': tally.port_samples})}\n")
    sys.stdout.flush()
