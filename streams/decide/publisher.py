"""Publishes revisions of remediations and answers to controls, and numbers the attempts of each finding and action."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streams.decide.state import DecideState
from streams.wire.models import Action, Control, ControlAnswer, ControlEffect, Remediation
from streams.wire.stage import Output
from streams.wire.topics import CONTROL_ANSWERS, REMEDIATIONS, REMEDIATIONS_OPEN


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

    def answer(self, control: Control, effect: ControlEffect, reason: str = "", nearest: Sequence[str] = ()) -> None:
        """Add the answer to a control."""
        self._outputs.append(Output(CONTROL_ANSWERS, ControlAnswer(control, effect, reason, tuple(nearest))))

    def remove(self, control_id: str) -> None:
        """Remove the answer to a control that has ended."""
        self._outputs.append(Output(CONTROL_ANSWERS, None, key=control_id))

    @property
    def count(self) -> int:
        """Return the number of records that wait."""
        return len(self._outputs)

    def revisions_after(self, count: int) -> list[Remediation]:
        """Return the revisions that were added after the first `count` records."""
        messages = [output.message for output in self._outputs[count:] if output.topic is REMEDIATIONS]
        return [message for message in messages if isinstance(message, Remediation)]

    def drain(self) -> list[Output]:
        """Return the revisions added since the last call."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_attempt(self, finding_id: str, action: Action) -> int:
        """Return the number of the next attempt of an action for a finding."""
        attempts = self._state.attempts.setdefault(finding_id, {})
        attempts[action.name] = attempts.get(action.name, 0) + 1
        return attempts[action.name]
