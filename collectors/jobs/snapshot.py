"""The content of one complete answer of a scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass

from streams.wire.bounds import MAX_TIME_NS, NAME_CHARACTERS, shortened
from streams.wire.errors import Reject
from streams.wire.models import Job


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The jobs of one answer.

    `jobs` has the stays on hosts, those that ended included as long as the scheduler has them; `runs` has the present
    run of every job that the scheduler has, also of those that wait. `unreadable` are jobs that could not be parsed:
    with any, a job that is missing may be one of them.
    """

    jobs: tuple[Job, ...]
    runs: Mapping[str, int]
    unreadable: tuple[str, ...] = ()


MAX_NUMBER = 2**31 - 1
"""The largest count that the wire accepts."""
MAX_SECONDS = MAX_TIME_NS // 1_000_000_000 - 1
"""The latest time of a job, so that its end may be later."""


def bounded(number: int) -> int:
    """Return a count that the wire accepts; raises Reject beyond."""
    if not 0 <= number <= MAX_NUMBER:
        raise Reject(f"{number} is beyond its bounds")
    return number


def text(value: object) -> str:
    """Return a text that the wire accepts: without control characters, cut to the length of a name."""
    return shortened("", value, NAME_CHARACTERS) if isinstance(value, str) else ""
