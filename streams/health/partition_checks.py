"""Defines the health checks of a process that owns partitions: assignment, restore, reading and writing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from streams.health.health import Health
from streams.health.input_checks import Backlog, EndOffsets, Place


class OwnedPartition(Protocol):
    """The interface of the work on one partition for its health checks."""

    @property
    def is_restored(self) -> bool:
        """Return whether its state is restored."""
        ...

    @property
    def attempts(self) -> int:
        """Count the attempts to restore and to write; each ends within a limited time."""
        ...

    @property
    def positions(self) -> Mapping[Place, int]:
        """Return the next offset of each input that is not compacted, once the state is restored."""
        ...

    @property
    def sending_s(self) -> float:
        """Return for how long its oldest output has waited for an acknowledgement; 0 without one."""
        ...


class Group(NamedTuple):
    """The membership in a consumer group: the start of its problem's text, its generation, whether it is joining."""

    text: str
    generation: int
    is_joining: bool


class Wording(NamedTuple):
    """The texts of problems, as formats of `name` and of a time `s`."""

    restoring: str
    sending: str
    undelivered: str
    output: str
    """The name of the check of the output."""


class PartitionChecks:
    """Adds the checks to the health of the process; `run` asks the brokers for the end offsets of the inputs."""

    def __init__(
        self,
        options: Mapping[str, Any],
        health: Health,
        owned: Callable[[], Mapping[str, OwnedPartition]],
        groups: Callable[[], Iterable[Group]],
        unassigned: Callable[[], str],
        wording: Wording,
        *,
        input_s: float = 0.0,
        attempt_s: float,
        sending_s: float = 0.0,
    ) -> None:
        """Take the partitions by name, and the problem of a process without its assignment.

        `input_s` and `attempt_s` extend the limit for one step of the input and for one attempt. An output that waits
        for longer than `sending_s` blocks the input.
        """
        stuck_s, self._undelivered_s, self._sending_s = health.params.stuck_s, health.params.undelivered_s, sending_s
        self._owned, self._groups, self._wording = owned, groups, wording
        self.ends = EndOffsets(options, health, lambda: [at for one in owned().values() for at in one.positions])
        self._inputs = Backlog(stuck_s + input_s, health.now_s)
        self._joining = Backlog(stuck_s, health.now_s)
        self._attempts = Backlog(stuck_s + attempt_s, health.now_s)
        health.live_while("input", self._stuck_input)
        health.live_while("group", self._stuck_rebalance)
        health.live_while("attempt", self._stuck_attempt)
        health.ready_while("brokers", self.ends.problem)
        health.ready_while("partitions", unassigned)
        health.ready_while("state", self._unrestored_state)
        health.ready_while(wording.output, self._undelivered_output)

    async def run(self) -> None:
        """Ask the brokers until cancelled."""
        await self.ends.run()

    def _stuck_input(self) -> str:
        problems = []
        for name, one in self._owned().items():
            is_behind = any((self.ends.end_of(place) or 0) > at for place, at in one.positions.items())
            is_waiting = is_behind and one.sending_s <= self._sending_s
            problems.append(self._inputs.problem(name, sum(one.positions.values()), is_waiting=is_waiting))
        self._inputs.retain(self._owned().keys())
        return next(filter(None, problems), "")

    def _stuck_rebalance(self) -> str:
        """Return the group whose rebalance does not end, with or without partitions of this process."""
        for text, generation, is_joining in self._groups():
            is_waiting = is_joining and not self.ends.problem()
            if stuck_s := self._joining.stuck_s(text, generation, is_waiting=is_waiting):
                return f"{text}in a rebalance for {stuck_s:.0f} s"
        return ""

    def _stuck_attempt(self) -> str:
        """Return the partition whose takeover or write neither succeeds nor fails in time."""
        problems = []
        for name, one in self._owned().items():
            is_waiting = (not one.is_restored or one.sending_s > self._sending_s) and not self.ends.problem()
            stuck_s = self._attempts.stuck_s(name, one.attempts, is_waiting=is_waiting)
            text = self._wording.sending if one.is_restored else self._wording.restoring
            problems.append(text.format(name=name, s=stuck_s) if stuck_s else "")
        self._attempts.retain(self._owned().keys())
        return next(filter(None, problems), "")

    def _unrestored_state(self) -> str:
        names = [name for name, one in self._owned().items() if not one.is_restored]
        return f"{names[0]} is not restored, and {len(names) - 1} others" if names else ""

    def _undelivered_output(self) -> str:
        for name, one in self._owned().items():
            if (sending_s := one.sending_s) > self._undelivered_s:
                return self._wording.undelivered.format(name=name, s=sending_s)
        return ""
