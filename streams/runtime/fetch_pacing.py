"""Decides how long a fetch of a busy topic may gather before it is answered.

Pure. A fetch costs about as much as fifty messages of it do, with the turn of every owner and the Progress that
follow from it ten times that: a tenth of the largest fabric, fetched eighteen times a second, took as much CPU as half
of it. So a topic is fetched twice a second, in batches that a stage can fold as one, unless it is so quiet that a batch
would hardly be two messages: then messages are fetched as they come.
"""

from dataclasses import dataclass

FULL_PER_S = 100.0
"""Messages a second from which on a fetch gathers for as long as it may; below, in proportion to the rate."""
_WORTH_MESSAGES = 2.0
"""The fewest messages for which a fetch should gather: the brokers answer it when its time is over, with nothing too.
At four messages a second one of 20 ms was asked for 28 times a second."""
_LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class FetchPacer:
    """Follows the rate of messages, as of the last second."""

    most_s: float
    wait_s: float = 0.0
    """The longest time that the next fetch may gather; 0 where it is to be answered with the first message."""
    _since_s: float = 0.0
    _count: int = 0

    def on_fetch(self, messages: int, now_s: float) -> None:
        """Count the messages of a fetch that ended now."""
        self._count += messages
        lasted_s = now_s - self._since_s
        if lasted_s < _LOOK_EVERY_S:
            return
        rate = self._count / lasted_s
        wait_s = self.most_s * min(1.0, rate / FULL_PER_S)
        self.wait_s = wait_s if wait_s * rate >= _WORTH_MESSAGES else 0.0
        self._since_s, self._count = now_s, 0
