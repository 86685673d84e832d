"""Takes the faults that a fabric's sources cannot show out of a score: they are neither found nor missed.

A finding of one is no false one, because the fault is there: by chance a reading may show it, or its effect shows and
its cause does not. A NIC whose PCIe link is not read is a slow rail, for instance.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from streams.bench.detection.fabrics import Fabric
from streams.fabric.topology import Topology
from streams.replay.score import Score, ScoredFinding, Truth
from streams.simulation.ground_truth import InjectedFault
from streams.wire.models import Condition


class ShownScore(NamedTuple):
    """The score of the faults that the sources can show, and how many others there are by condition and reason."""

    score: Score
    hidden: Counter[tuple[Condition, str]]


def without_hidden(
    score: Score, truths: Iterable[tuple[InjectedFault, Truth]], fabric: Fabric, topology: Topology
) -> ShownScore:
    """Return the score without the hidden faults; `truths` are all that were scored, with their faults."""
    counts: Counter[tuple[Condition, str]] = Counter()
    hidden: list[Truth] = []
    for injection, truth in truths:
        if reason := fabric.hidden(truth, injection.kind, topology):
            counts[truth.condition, reason] += 1
            hidden.append(truth)
    shown = replace(
        score,
        found=tuple(match for match in score.found if not _is_one_of(match.truth, hidden)),
        missed=tuple(truth for truth in score.missed if not _is_one_of(truth, hidden)),
        invented=tuple(finding for finding in score.invented if not any(_is_at(finding, truth) for truth in hidden)),
    )
    return ShownScore(shown, counts)


def _is_one_of(scored: Truth, truths: Iterable[Truth]) -> bool:
    """Return whether a scored truth begins with one of these: the score merges consecutive ones of one place."""
    return any(_place(truth) == _place(scored) and truth.start_ns == scored.start_ns for truth in truths)


def _place(truth: Truth) -> tuple[Condition, str, str]:
    return truth.condition, truth.device, truth.port


def _is_at(finding: ScoredFinding, truth: Truth) -> bool:
    """Return whether a finding is at the port, or the device, of a fault in its time."""
    at = any(
        end.device == truth.device and (not truth.port or not end.port or end.port == truth.port)
        for end in finding.endpoints
    )
    return at and truth.start_ns - truth.tolerance_ns <= finding.start_ns <= truth.end_ns + truth.tolerance_ns
