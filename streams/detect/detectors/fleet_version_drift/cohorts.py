"""What a fleet runs, cohort by cohort, and which of its links failed: shares, and the ratio of two rates of faults.

A cohort is what is alike and should run alike: the NICs, switches or optics of one model. Counts are of devices.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from streams.detect.detectors.fleet_version_drift.params import AllowedVersions, DriftParams
from streams.detect.thresholds import ns
from streams.wire.models import Source, VersionCensus

_DAY_NS = ns(86_400)


class Cohort(NamedTuple):
    """What should run alike; as one source names it."""

    kind: str
    vendor: str
    model: str
    source: Source

    @property
    def name(self) -> str:
        """As people call it."""
        return " ".join(word for word in (self.vendor, self.model, _CALLED.get(self.kind, self.kind)) if word)


_CALLED = {"nic": "NIC firmware", "os": "switch software", "transceiver": "optics firmware"}


@dataclass(slots=True)
class Running:
    """Who runs one version: how many, and some of them since when."""

    version: str
    devices: int = 0
    changed_ns: int = 0
    members: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Fault:
    """A link that failed on its own account."""

    subject_id: str
    at_ns: int
    devices: tuple[str, ...]


class CohortAssessment(NamedTuple):
    """The versions of a cohort that are not what they should be, and what should be."""

    drifting: tuple[str, ...]
    expected: str
    by_list: bool


class Rates(NamedTuple):
    """Links that failed, in days of devices, at one version and at its cohort's others; how many times as often."""

    faults: int
    days: float
    others: int
    other_days: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """Of both rates."""
        rate, other = self.faults / self.days, self.others / self.other_days
        return rate / other if other else math.inf


def merge_counts(shards: Iterable[VersionCensus]) -> dict[Cohort, dict[str, Running]]:
    """All partitions' counts as one."""
    cohorts: dict[Cohort, dict[str, Running]] = {}
    for census in shards:
        for count in census.versions:
            versions = cohorts.setdefault(Cohort(count.kind, count.vendor, count.model, count.source), {})
            own = versions.setdefault(count.version, Running(count.version))
            own.devices += count.devices
            own.changed_ns = max(own.changed_ns, count.changed_ns)
            own.members |= zip(count.members, count.since_ns, strict=False)
    return cohorts


def assess(params: DriftParams, cohort: Cohort, versions: Mapping[str, Running]) -> CohortAssessment:
    """By the allow-list where it speaks of the cohort, else by the majority where there is a clear one."""
    rule = next((rule for rule in params.allowed if _fits(rule, cohort)), None)
    if rule is not None:
        wrong = (v for v in versions if not any(fnmatchcase(v, allowed) for allowed in rule.versions))
        return CohortAssessment(tuple(sorted(wrong)), " or ".join(rule.versions), by_list=True)
    total = sum(own.devices for own in versions.values())
    most = max(versions.values(), key=lambda own: (own.devices, own.version))
    if total < params.min_devices or most.devices < params.majority * total:
        return CohortAssessment((), "", by_list=False)
    return CohortAssessment(tuple(sorted(versions.keys() - {most.version})), most.version, by_list=False)


def _fits(rule: AllowedVersions, cohort: Cohort) -> bool:
    pairs = ((cohort.kind, rule.kind), (cohort.vendor, rule.vendor), (cohort.model, rule.model))
    return all(fnmatchcase(value.casefold(), pattern.casefold()) for value, pattern in pairs)


def rates(
    params: DriftParams, version: str, versions: Mapping[str, Running], faults: Iterable[Fault], now_ns: int
) -> Rates | None:
    """How often links fail at a version and at the others; None where either was not watched for a day."""
    horizon_ns = now_ns - round(params.days * _DAY_NS)
    own = {name: max(since, horizon_ns) for name, since in versions[version].members.items()}
    others = {
        name: max(since, horizon_ns)
        for other, running in versions.items()
        if other != version
        for name, since in running.members.items()
        if name not in own
    }
    days, other_days = (sum(now_ns - since for since in who.values()) / _DAY_NS for who in (own, others))
    if days < 1 or other_days < 1:
        return None
    recent = [fault for fault in faults if fault.at_ns >= horizon_ns]
    count, other = _failed(own, recent), _failed(others, recent)
    low, high = ratio_interval(count, days, other, other_days, params.confidence)
    return Rates(count, days, other, other_days, low, high)


def _failed(who: Mapping[str, int], faults: Iterable[Fault]) -> int:
    """Links, each once: one that comes back with it is a lemon, and no version's fault."""
    never = math.inf
    return len({f.subject_id for f in faults if any(f.at_ns >= who.get(device, never) for device in f.devices)})


def ratio_interval(count: int, days: float, other: int, other_days: float, confidence: float) -> tuple[float, float]:
    """Of the ratio of two Poisson rates, exact: of all faults each fell to the first with one probability.

    Clopper and Pearson's interval of that probability, and the odds that it stands for.
    """
    total, tail = count + other, (1 - confidence) / 2
    low = 0.0 if count == 0 else _solve(lambda p: 1 - _at_most(count - 1, total, p), tail)
    high = 1.0 if other == 0 else 1 - _solve(lambda p: 1 - _at_most(other - 1, total, p), tail)
    return _odds(low) * other_days / days, _odds(high) * other_days / days


def _odds(share: float) -> float:
    return math.inf if share >= 1 else share / (1 - share)


def _at_most(count: int, total: int, share: float) -> float:
    """The probability of so many or fewer."""
    if share <= 0 or share >= 1:
        return 1.0 if share <= 0 else 0.0
    one, none = math.log(share), math.log1p(-share)
    return math.fsum(
        math.exp(
            math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1) + k * one + (total - k) * none
        )
        for k in range(count + 1)
    )


def _solve(rising: Callable[[float], float], value: float) -> float:
    """Where a rising function of a share has this value."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return (low + high) / 2
