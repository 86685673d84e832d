"""Takes the faults that a fabric's sources cannot show out of a score: they are neither found nor missed.

A finding of one is no false one, because the fault is there: a reading may show it, or its effect shows and its cause
does not. A NIC whose PCIe link is not read is a slow rail, for instance, and a storm that no poll shows pauses other
ports.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from streams.bench.detection.fabrics import Fabric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.replay.score import Score, Truth
from streams.simulation.ground_truth import InjectedFault
from streams.wire.models import Condition


class HiddenFault(NamedTuple):
    """A fault that the sources cannot show, and the other ports, as (device, port), that show its effect."""

    truth: Truth
    affected: frozenset[tuple[str, str]]

    def is_at(self, ends: Iterable[Port], start_ns: int) -> bool:
        """Return whether a finding at these ends that starts then is at its port, or device, or at affected ports."""
        truth = self.truth
        at = any(
            (end.device == truth.device and (not truth.port or not end.port or end.port == truth.port))
            or end in self.affected
            for end in ends
        )
        return at and truth.start_ns - truth.tolerance_ns <= start_ns <= truth.end_ns + truth.tolerance_ns


class ShownScore(NamedTuple):
    """The score of the faults that the sources can show; the others, and their number by condition and reason."""

    score: Score
    hidden: list[HiddenFault]
    counts: Counter[tuple[Condition, str]]


def without_hidden(
    score: Score, truths: Iterable[tuple[InjectedFault, Truth]], fabric: Fabric, topology: Topology
) -> ShownScore:
    """Return the score without the hidden faults; `truths` are all that were scored, with their faults."""
    counts: Counter[tuple[Condition, str]] = Counter()
    hidden: list[HiddenFault] = []
    for injection, truth in truths:
        if reason := fabric.hidden(truth, injection.kind, topology):
            counts[truth.condition, reason] += 1
            hidden.append(HiddenFault(truth, frozenset(injection.affected)))
    shown = replace(
        score,
        found=tuple(match for match in score.found if not _is_one_of(match.truth, hidden)),
        missed=tuple(truth for truth in score.missed if not _is_one_of(truth, hidden)),
        invented=tuple(
            finding
            for finding in score.invented
            if not any(one.is_at(finding.endpoints, finding.start_ns) for one in hidden)
        ),
    )
    return ShownScore(shown, hidden, counts)


def _is_one_of(scored: Truth, faults: Iterable[HiddenFault]) -> bool:
    """Return whether a scored truth begins with one of these: the score merges consecutive ones of one place."""
    return any(_place(one.truth) == _place(scored) and one.truth.start_ns == scored.start_ns for one in faults)


def _place(truth: Truth) -> tuple[Condition, str, str]:
    return truth.condition, truth.device, truth.port
