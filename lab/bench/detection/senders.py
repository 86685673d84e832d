"""Counts the senders of incasts in other pods that the findings name, beside those that the simulation drew."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from lab.world.ground_truth import InjectedFault, Truth
from streams.wire.models import Condition, Finding, Status

_METRIC = "cnp_handled"
_NAMES = re.compile(r"[^\s,:;]+")


class NamedSenders(NamedTuple):
    """The number of senders in other pods, of those that the findings name, and of other hosts that they name."""

    caused: int = 0
    named: int = 0
    others: int = 0


def named_senders(faults: Iterable[InjectedFault], findings: Iterable[Finding], hosts: Collection[str]) -> NamedSenders:
    """Return the senders of all incasts; those of an incast that was not found are not named."""
    incasts = [one for one in findings if _is_incast(one)]
    caused = named = others = 0
    for fault in faults:
        if fault.senders:
            own = {name for one in incasts if _is_of(one, fault.truths[0]) for name in _named_by(one, hosts)}
            caused += len(fault.senders)
            named += len(own & set(fault.senders))
            others += len(own - set(fault.senders))
    return NamedSenders(caused, named, others)


def _is_incast(finding: Finding) -> bool:
    return finding.condition is Condition.CONGESTION_INCAST and finding.status is not Status.RETRACTED


def _is_of(finding: Finding, truth: Truth) -> bool:
    at, tolerance_ns = finding.subject.a, truth.tolerance_ns
    return (
        at is not None
        and (at.device, at.port) == (truth.device, truth.port)
        and truth.start_ns - tolerance_ns <= finding.started_at_ns <= truth.end_ns + tolerance_ns
    )


def _named_by(finding: Finding, hosts: Collection[str]) -> Iterator[str]:
    """Yield the hosts that the evidence for senders names; it is for people, and names them in a sentence."""
    for evidence in finding.evidence:
        if evidence.metric == _METRIC:
            names = _NAMES.findall(evidence.statement)
            yield from (name for name in names if name in hosts and name != _receiver(finding))


def _receiver(finding: Finding) -> str:
    return finding.subject.a.device if finding.subject.a is not None else ""
