"""Scores links, hosts, part numbers and firmware by their faults in a period, compared with the rest of their kind.

A fault is a finding, a repair after which the target did not qualify, or a relapse on probation. The rate of a link or
host counts all its faults. The rate of a part number or firmware counts the links with faults among the links that have
it, so that one bad link does not mark a part of thousands of links; a firmware is compared with the other firmware of
the same part. A lemon is a subject whose ratio to the rest has its whole confidence interval above 1.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from streams.wire.models import Lemon, LemonKind


class FaultKind(StrEnum):
    """The kinds of faults; the values are attributes of Lemon."""

    FINDING = "findings"
    FAILED_REPAIR = "failed_repairs"
    RELAPSE = "relapses"


class Part(NamedTuple):
    """The part at an end of a link."""

    kind: str
    """`transceiver` or `nic`."""
    number: str
    firmware: str = ""


class Fault(NamedTuple):
    """One fault of a link or host; `parts` has the link's parts at that time."""

    kind: FaultKind
    subject_id: str
    parts: frozenset[Part] = frozenset()


@dataclass(frozen=True, slots=True)
class Fleet:
    """The existing links, hosts and parts, which are the denominators of the rates."""

    links: Collection[str]
    hosts: Collection[str]
    """The ids of the hosts, `device:…`."""
    parts: Mapping[str, frozenset[Part]] = field(default_factory=dict)
    """Link id -> its present parts."""


def scores(faults: Sequence[Fault], fleet: Fleet) -> list[Lemon]:
    """Return the scores of all subjects with faults, the highest lower bound first."""
    found = [*_units(LemonKind.LINK, faults, fleet.links), *_units(LemonKind.HOST, faults, fleet.hosts)]
    found += _parts(faults, fleet)
    return sorted(found, key=lambda lemon: (-(lemon.ratio_low or 0), lemon.kind, lemon.subject_id))


def is_lemon(lemon: Lemon) -> bool:
    """Return whether a subject has significantly more faults than the rest of its kind."""
    return (lemon.ratio_low or 0) > 1


def _units(kind: LemonKind, faults: Iterable[Fault], members: Collection[str]) -> Iterable[Lemon]:
    """Yield the scores of single links or hosts; faults of subjects that left the fleet do not count."""
    known = members if isinstance(members, set | frozenset | dict) else frozenset(members)
    by_subject: dict[str, list[Fault]] = defaultdict(list)
    for fault in faults:
        if fault.subject_id in known:
            by_subject[fault.subject_id].append(fault)
    total = sum(map(len, by_subject.values()))
    for subject, own in by_subject.items():
        yield from _scored(
            Lemon(
                kind, subject, events=len(own), exposure=1, fleet_events=total - len(own),
                fleet_exposure=len(known) - 1, **_counts(own),
            ),
            len(known),
        )  # fmt: skip


def _parts(faults: Sequence[Fault], fleet: Fleet) -> Iterable[Lemon]:
    """Yield the scores of part numbers, and of the firmware of each part number."""
    for kind in (LemonKind.PART, LemonKind.FIRMWARE):
        fleets: dict[str, dict[str, _Group]] = defaultdict(lambda: defaultdict(_Group))
        for link, parts in fleet.parts.items():
            for place, subject in _places(kind, parts):
                fleets[place][subject].links.add(link)
        for fault in faults:
            for place, subject in _places(kind, fault.parts):
                group = fleets[place][subject]
                group.links.add(fault.subject_id)
                group.faults.append(fault)
        for place, groups in fleets.items():
            yield from _compared(kind, place.partition("/")[0], groups)


@dataclass(slots=True)
class _Group:
    """The links with a part, and their faults."""

    links: set[str] = field(default_factory=set)
    faults: list[Fault] = field(default_factory=list)

    @property
    def faulty_links(self) -> set[str]:
        return {fault.subject_id for fault in self.faults}


def _places(kind: LemonKind, parts: Iterable[Part]) -> set[tuple[str, str]]:
    """Return the fleets and subjects of parts: all parts of a kind, or all firmware of a part number."""
    if kind is LemonKind.PART:
        return {(part.kind, part.number) for part in parts}
    return {(f"{part.kind}/{part.number}", f"{part.number} {part.firmware}") for part in parts if part.firmware}


def _compared(kind: LemonKind, part_kind: str, groups: Mapping[str, _Group]) -> Iterable[Lemon]:
    """Yield the scores of groups, each compared with the links of its fleet without the part."""
    links = set().union(*(group.links for group in groups.values()))
    faulty = set().union(*(group.faulty_links for group in groups.values()))
    for subject, group in groups.items():
        if group.faults:
            lemon = Lemon(
                kind, subject, events=len(group.faulty_links), exposure=len(group.links),
                fleet_events=len(faulty - group.links), fleet_exposure=len(links - group.links),
                part_kind=part_kind, **_counts(group.faults),
            )  # fmt: skip
            yield from _scored(lemon, len(groups))


def _counts(faults: Iterable[Fault]) -> dict[str, Any]:
    return dict(Counter(fault.kind.value for fault in faults))


def _scored(lemon: Lemon, comparisons: int) -> Iterable[Lemon]:
    """Yield the score with its ratio; nothing if there is no rest to compare with."""
    if lemon.fleet_exposure:
        ratio = rate_ratio(lemon.events, lemon.exposure, lemon.fleet_events, lemon.fleet_exposure, comparisons)
        yield replace(lemon, ratio=ratio.ratio, ratio_low=ratio.low, ratio_high=ratio.high)


CONFIDENCE = 0.95

_STEPS = 100
"""The number of bisections, which each halve the interval."""


@dataclass(frozen=True, slots=True)
class RateRatio:
    """The ratio of two rates; None is infinite, because the rest has no events."""

    ratio: float | None
    low: float
    high: float | None


def rate_ratio(events: int, exposure: int, rest_events: int, rest_exposure: int, comparisons: int = 1) -> RateRatio:
    """Return the ratio of events / exposure to that of the rest; both exposures are positive.

    The intervals of all `comparisons` groups hold together with `CONFIDENCE` (Bonferroni), because among many healthy
    groups some randomly have more events.
    """
    tail = (1 - CONFIDENCE) / 2 / comparisons
    total, scale = events + rest_events, rest_exposure / exposure
    high = 1 - _lower(rest_events, total, tail)
    return RateRatio(
        events / rest_events * scale if rest_events else None,
        _odds(_lower(events, total, tail)) * scale,
        _odds(high) * scale if high < 1 else None,
    )


def _odds(probability: float) -> float:
    return probability / (1 - probability)


def _lower(successes: int, total: int, tail: float) -> float:
    """Return the lower bound of Clopper and Pearson: the p with which P(X >= successes) is `tail`."""
    if not successes:
        return 0.0
    low, high = 0.0, successes / total
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_least(successes, total, middle) < tail:
            low = middle
        else:
            high = middle
    return low


def _at_least(successes: int, total: int, probability: float) -> float:
    """Return the binomial probability of at least `successes`; its terms decrease below successes / total."""
    if not 0 < probability < 1:
        return probability
    ways = math.lgamma(total + 1) - math.lgamma(successes + 1) - math.lgamma(total - successes + 1)
    term = math.exp(ways + successes * math.log(probability) + (total - successes) * math.log1p(-probability))
    found = term
    for count in range(successes, total):
        term *= (total - count) / (count + 1) * _odds(probability)
        found += term
        if term <= found * 1e-16:
            break
    return found
