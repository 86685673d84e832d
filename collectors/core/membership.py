"""Tracks the shards that a member of a group may read: those assigned to it, unless it may have lost them.

Pure; times are from a clock that continues while the process is paused. A member that made no request for a session
timeout was paused, and may have lost its shards: it reads none until Kafka has answered. A request without an answer
removes no shard: a Kafka that does not answer cannot assign it to another member either.
"""


class Membership:
    """The membership of one process."""

    def __init__(self, session_s: float) -> None:
        self._session_s = session_s
        self._owned: frozenset[int] = frozenset()
        self._requested_s = 0.0
        self.may_have_lost_them = False

    @property
    def shards(self) -> frozenset[int]:
        """The shards to read now."""
        return frozenset() if self.may_have_lost_them else self._owned

    def assigned(self, shards: frozenset[int], at_s: float) -> None:
        """Record a new assignment by the group."""
        self._owned = shards
        self.confirmed(at_s)

    def on_wakeup(self, at_s: float) -> None:
        """Check for a pause: the process runs again, perhaps after a long time."""
        if at_s - self._requested_s > self._session_s:
            self.may_have_lost_them = True

    def confirmed(self, at_s: float) -> None:
        """Record that Kafka confirmed the membership in answer to a request at that time."""
        self._requested_s, self.may_have_lost_them = at_s, False

    def unanswered(self, at_s: float) -> None:
        """Record a request at that time that Kafka has not answered."""
        if not self.may_have_lost_them:
            self._requested_s = at_s
