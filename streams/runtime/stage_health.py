"""The health checks of the stages of one process: what they own, what they read, and what they can write."""

from collections.abc import Iterator, Sequence

from streams.config.kafka import KafkaSettings
from streams.health.health import Health
from streams.health.input_checks import Backlog, EndOffsets, Place
from streams.runtime.partition_owner import PartitionOwner
from streams.runtime.runner import Runner

_SENDING_S = 1.0
"""A send takes milliseconds; one that takes longer waits for the brokers, and so does its partition."""
_ATTEMPT_S = 120.0
"""Added to the limit for one attempt to take over or to send. They end by themselves, after 60 and 80 s: aiokafka
waits 40 s for metadata and as long for an acknowledgement."""


class StageHealth:
    """Adds the checks of these stages to the health of their process; `run` asks the brokers for them."""

    def __init__(self, runners: Sequence[Runner], kafka: KafkaSettings, health: Health) -> None:
        self._runners = runners
        self._health = health
        self._ends = EndOffsets(kafka.client_options(), health, self._places)
        self._backlog = Backlog(health.params.stuck_s, health.now_s)
        self._joining = Backlog(health.params.stuck_s, health.now_s)
        self._attempts = Backlog(health.params.stuck_s + _ATTEMPT_S, health.now_s)
        health.live_while("input", self._stuck_input)
        health.live_while("group", self._stuck_rebalance)
        health.live_while("attempt", self._stuck_attempt)
        health.ready_while("brokers", self._ends.problem)
        health.ready_while("partitions", self._missing_partitions)
        health.ready_while("state", self._unrestored_state)
        health.ready_while("output", self._undelivered_output)

    async def run(self) -> None:
        """Ask the brokers for the ends of the inputs until cancelled."""
        await self._ends.run()

    def _owners(self) -> Iterator[tuple[str, PartitionOwner]]:
        for runner in self._runners:
            for partition, owner in runner.owners.items():
                yield f"{runner.binding.stage}/{partition}", owner

    def _places(self) -> list[Place]:
        return [place for _, owner in self._owners() for place in owner.positions]

    def _stuck_input(self) -> str:
        problems, names = [], set()
        for name, owner in self._owners():
            positions = owner.positions
            ends = {place: self._ends.end_of(place) or 0 for place in positions}
            is_behind = any(ends[place] > position for place, position in positions.items())
            is_waiting = is_behind and owner.sending_s < _SENDING_S
            problems.append(self._backlog.problem(name, sum(positions.values()), is_waiting=is_waiting))
            names.add(name)
        self._backlog.retain(names)
        return next(filter(None, problems), "")

    def _stuck_rebalance(self) -> str:
        """Return the stage whose rebalance does not end; whether a worker then has partitions does not matter."""
        for runner in self._runners:
            is_waiting = runner.is_joining and not self._ends.problem()
            if stuck_s := self._joining.stuck_s(runner.binding.stage, runner.generation, is_waiting=is_waiting):
                return f"{runner.binding.stage} is in a rebalance for {stuck_s:.0f} s"
        return ""

    def _stuck_attempt(self) -> str:
        """Return the partition whose takeover, or whose sending of records, does not even fail."""
        problems, names = [], set()
        for name, owner in self._owners():
            is_waiting = (not owner.is_restored or owner.sending_s > _SENDING_S) and not self._ends.problem()
            stuck_s = self._attempts.stuck_s(name, owner.attempts, is_waiting=is_waiting)
            what = "waits for an acknowledgement" if owner.is_restored else "is taken over"
            problems.append(f"{name} {what} for {stuck_s:.0f} s" if stuck_s else "")
            names.add(name)
        self._attempts.retain(names)
        return next(filter(None, problems), "")

    def _missing_partitions(self) -> str:
        missing = [runner.binding.stage for runner in self._runners if not runner.owns_its_assignment]
        return f"{', '.join(missing)} has none assigned yet, or is in a rebalance" if missing else ""

    def _unrestored_state(self) -> str:
        names = [name for name, owner in self._owners() if not owner.is_restored]
        return f"{names[0]} is not restored, and {len(names) - 1} others" if names else ""

    def _undelivered_output(self) -> str:
        for name, owner in self._owners():
            if (sending_s := owner.sending_s) > self._health.params.undelivered_s:
                return f"{name} waits for an acknowledgement of its records for {sending_s:.0f} s"
        return ""
