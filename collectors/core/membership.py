"""Which shards a member of a group reads, as far as it can know: what it was assigned, unless it may have lost it.

Pure; times are of a clock that goes on while the process is paused. Who asked nobody for a session time-out was
paused, and may have lost its shards: it reads none until Kafka has answered. A Kafka that was asked and gave no answer
takes no shard away: it can give it to nobody else either.
"""


class Membership:
    """One member's."""

    def __init__(self, session_s: float) -> None:
        self._session_s = session_s
        self._owned: frozenset[int] = frozenset()
        self._asked_s = 0.0
        self.may_have_lost_them = False

    @property
    def shards(self) -> frozenset[int]:
        """What to read now."""
        return frozenset() if self.may_have_lost_them else self._owned

    def assigned(self, shards: frozenset[int], at_s: float) -> None:
        """The group has been shared out anew."""
        self._owned = shards
        self.confirmed(at_s)

    def on_wakeup(self, at_s: float) -> None:
        """The process runs: it may not have for a while."""
        if at_s - self._asked_s > self._session_s:
            self.may_have_lost_them = True

    def confirmed(self, at_s: float) -> None:
        """Kafka was asked at that time, and said that nothing has changed."""
        self._asked_s, self.may_have_lost_them = at_s, False

    def unanswered(self, at_s: float) -> None:
        """Kafka was asked at that time, and has not answered."""
        if not self.may_have_lost_them:
            self._asked_s = at_s
