"""Publishes revisions of remediations, and numbers the attempts of each finding and action."""

from collections.abc import Iterator
from dataclasses import replace

from streams.decide.state import DecideState
from streams.wire.models import Action, Remediation
from streams.wire.stage import Output
from streams.wire.topics import REMEDIATIONS, REMEDIATIONS_OPEN


class Publisher:
    """The revisions that wait to be sent, in order."""

    def __init__(self, state: DecideState, revisions: Iterator[int]) -> None:
        self._state, self._revisions = state, revisions
        self._outputs: list[Output] = []

    def emit(self, record: Remediation, *, is_open: bool = True) -> Remediation:
        """Add the next revision, and return it; a closed remediation is removed from the open ones."""
        record = replace(record, revision=next(self._revisions), decided_at_ns=self._state.watermark_ns)
        self._outputs.append(Output(REMEDIATIONS, record))
        self._outputs.append(Output(REMEDIATIONS_OPEN, record if is_open else None, key=record.id))
        return record

    def drain(self) -> list[Output]:
        """Return the revisions added since the last call."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_attempt(self, finding_id: str, action: Action) -> int:
        """Return the number of the next attempt of an action for a finding."""
        attempts = self._state.attempts.setdefault(finding_id, {})
        attempts[action.name] = attempts.get(action.name, 0) + 1
        return attempts[action.name]
