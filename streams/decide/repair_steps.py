"""Chooses the next repair step of a link by its past success for the same cause and part number.

CorrOpt (SIGCOMM'17) orders the steps from cheap to expensive: clean and reseat, transceiver, cable, port. That order is
the prior: each step starts with the success of `PRIOR_REPAIRS` imagined repairs, fewer for each later step, so that few
real repairs decide. A repair helped if its target completed probation. It did not help if the target failed to qualify,
or if the fault returned on probation. The step of the hint counts as the step that was done.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streams.wire.models import Cause, Remediation, RepairOutcome, RepairStep

ORDER = (
    RepairStep.CLEAN_RESEAT,
    RepairStep.REPLACE_TRANSCEIVER,
    RepairStep.REPLACE_CABLE,
    RepairStep.REPLACE_PORT,
)
"""The repair steps of a link, in the order in which CorrOpt tries them."""

TEXTS: Mapping[RepairStep, str] = {
    RepairStep.CLEAN_RESEAT: "clean and reseat both ends",
    RepairStep.REPLACE_TRANSCEIVER: "replace the transceiver",
    RepairStep.REPLACE_CABLE: "replace the cable",
    RepairStep.REPLACE_PORT: "replace the port or its line card",
}

_FIRST: Mapping[Cause, RepairStep] = {
    Cause.OPTIC: RepairStep.REPLACE_TRANSCEIVER,
    Cause.CABLE: RepairStep.REPLACE_CABLE,
    Cause.SWITCH: RepairStep.REPLACE_PORT,
}
"""Cause -> the step for the part that it names."""

PRIOR_REPAIRS = 4.0
"""The number of imagined repairs of a step without a count (choice)."""

_PRIOR_SUCCESS = (0.5, 0.4, 0.3, 0.2)
"""Their success, from the first step on (choice; CorrOpt: half of all repairs without hints help)."""

MAX_GROUPS = 1024
"""The most pairs of cause and part number with retained counts; a fleet has some dozens of part numbers."""


@dataclass(slots=True)
class StepCount:
    """The repairs with one step: the number tried, and the number that helped."""

    helped: int = 0
    tried: int = 0


@dataclass(slots=True)
class RepairCounts:
    """The outcomes of repairs by cause and part number; plain values, stored in the snapshot."""

    groups: dict[str, dict[str, StepCount]] = field(default_factory=dict)
    """Cause and part number -> step -> its count."""
    dropped: int = 0
    """Groups that were dropped because there were more than `MAX_GROUPS`."""

    def record(self, remediation: Remediation) -> None:
        """Count the outcome of a repair step that a revision reports, if any."""
        step, outcome = remediation.outcome_step, remediation.repair_outcome
        if not step or not outcome:
            return
        key = _key(remediation.cause, remediation.part_number)
        count = self.groups.setdefault(key, {}).setdefault(step.name, StepCount())
        count.tried += 1
        count.helped += outcome is RepairOutcome.HELPED
        if len(self.groups) > MAX_GROUPS:
            self._drop_least_used(key)

    def recover(self, history: Iterable[Remediation]) -> None:
        """Count the outcomes of the published revisions after a loss of state, each step of a remediation once."""
        self.groups, counted = {}, set[tuple[str, RepairStep]]()
        for record in history:
            key = record.id, record.outcome_step
            if key not in counted:
                counted.add(key)
                self.record(record)

    def count(self, cause: Cause, part_number: str, step: RepairStep) -> StepCount:
        """Return the repairs with a step for a cause and part number."""
        return self.groups.get(_key(cause, part_number), {}).get(step.name) or StepCount()

    def choose(self, cause: Cause, part_number: str, tried: Collection[RepairStep] = ()) -> RepairStep | None:
        """Return the step with the highest probability of success; None if all eligible steps were tried.

        A step before the one for the cause is eligible only if it helped before.
        """
        first = ORDER.index(_FIRST.get(cause, ORDER[0]))
        scores: dict[RepairStep, float] = {}
        for place, step in enumerate((*ORDER[first:], *ORDER[:first])):
            count = self.count(cause, part_number, step)
            if step not in tried and (count.helped or ORDER.index(step) >= first):
                imagined = PRIOR_REPAIRS * _PRIOR_SUCCESS[place]
                scores[step] = (count.helped + imagined) / (count.tried + PRIOR_REPAIRS)
        return max(scores, key=scores.__getitem__, default=None)

    def _drop_least_used(self, newest: str) -> None:
        """Drop the group with the fewest repairs, the oldest of several, but never the newest."""
        del self.groups[
            min(
                (key for key in self.groups if key != newest),
                key=lambda key: sum(count.tried for count in self.groups[key].values()),
            )
        ]
        self.dropped += 1


def hint(step: RepairStep, part_number: str, count: StepCount) -> str:
    """Return the text of a step for people, with its count if there is one; empty without a step."""
    if not count.tried:
        return TEXTS.get(step, "")
    part = f"part {part_number}" if part_number else "unknown parts"
    return f"{TEXTS[step]} (helped {count.helped} of {count.tried} times for this cause and {part})"


def repair_fields(record: Remediation) -> dict[str, Any]:
    """Return the fields of the order that repairs the target of a remediation."""
    count = StepCount(record.step_helped, record.step_tried)
    names = ("cause", "part_number", "repair_step", "step_helped", "step_tried")
    own = {name: getattr(record, name) for name in names}
    return {"repair_hint": hint(record.repair_step, record.part_number, count), **own}


def _key(cause: Cause, part_number: str) -> str:
    return f"{cause.label}/{part_number}"
