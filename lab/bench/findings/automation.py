"""Simulates an automation, and people who repair: accepts what is approved, once each, and reports results."""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from streams.wire.models import Action, Outcome, Remediation, RemediationResult
from streams.wire.models import RemediationState as State

ACTOR = "bench"
_S = 10**9
_FAILS = 0.05
"""Share of the actions that fail (choice)."""
_ACCEPT_S, _ACT_S, _REPAIR_S = (0.5, 3.0), (2.0, 30.0), (600.0, 3600.0)


@dataclass(slots=True)
class SimulatedAutomation:
    """Answers remediations as the reference automation does: by id, never twice."""

    seed: int
    acted: int = 0
    _accepted: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)
    _answers: list[tuple[int, int, RemediationResult]] = field(default_factory=list)
    _chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 — no secret

    def observe(self, remediation: Remediation, now_ns: int) -> None:
        """Follow one revision of a remediation."""
        identity, state = remediation.id, remediation.state
        if remediation.action is Action.OBSERVE:
            return
        if state is State.APPROVED and identity not in self._accepted:
            self._accepted.add(identity)
            self._answer(identity, Outcome.ACCEPTED, now_ns, _ACCEPT_S)
        elif state is State.ACCEPTED and remediation.actor == ACTOR and identity not in self._begun:
            self._begun.add(identity)
            self.acted += 1
            is_repair = remediation.action is Action.REPAIR_LINK
            outcome = Outcome.FAILED if self._chance.random() < _FAILS else Outcome.DONE
            self._answer(identity, outcome, now_ns, _REPAIR_S if is_repair else _ACT_S)

    def due(self, now_ns: int) -> Iterator[RemediationResult]:
        """Yield the answers up to a time."""
        while self._answers and self._answers[0][0] <= now_ns:
            yield heapq.heappop(self._answers)[2]

    def _answer(self, identity: str, outcome: Outcome, now_ns: int, within_s: tuple[float, float]) -> None:
        at_ns = now_ns + round(self._chance.uniform(*within_s) * _S)
        result = RemediationResult(identity, outcome, at_ns, ACTOR)
        heapq.heappush(self._answers, (at_ns, len(self._accepted) + len(self._begun), result))
