"""Compares the versions of a cohort: their shares, and the rates at which links fail at one and at the others.

A cohort is the NICs, switches or optics of one model, which should run one version. Counts are of devices.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from streams.detect.thresholds import Thresholds, ns
from streams.wire.models import Source, VersionCensus


class AllowedVersions(Thresholds):
    """The versions allowed for parts of a kind; `vendor`, `model` and the versions are shell patterns (`*`, `?`)."""

    kind: str = "*"
    """The kind of part."""
    vendor: str = "*"
    """Its vendor."""
    model: str = "*"
    """Its model."""
    versions: Annotated[tuple[str, ...], Field(min_length=1)]
    """The allowed versions."""


class DriftParams(Thresholds):
    """`[detect.drift]`: versions against an allow-list, or against the majority of a cohort."""

    kinds: tuple[str, ...] = ("nic", "os", "transceiver")
    """NIC firmware, switch software, and the firmware of optics."""
    allowed: tuple[AllowedVersions, ...] = ()
    """The first rule that matches a cohort applies; without one, the majority decides."""
    min_devices: ClassVar[int] = 8
    """The fewest devices of a cohort: among fewer a majority is not significant."""
    majority: ClassVar[float] = 0.8
    """This share of a cohort must run one version; below it a rollout is in progress."""
    settle_s: ClassVar[float] = 300
    """The time after the first census of a cohort: collectors reach a fleet within minutes."""
    rollout_s: ClassVar[float] = 86_400
    """The share of a version counts as changing for this long after a device last changed its version."""
    every_s: ClassVar[float] = 60
    """The interval of the census of versions."""
    members: ClassVar[int] = 128
    """Devices by version and partition whose faults are counted: 1,024 devices per version with 8 partitions."""
    days: ClassVar[float] = 28
    """Faults are counted over this time, as occurrences are."""
    look_s: ClassVar[float] = 3600
    """The interval at which fault rates are compared while no version changes."""
    harm_faults: ClassVar[int] = 3
    """The fewest failed links at devices of a version: one lemon is not the fault of a version."""
    confidence: ClassVar[float] = 0.99
    """The confidence of the interval of the ratio of both rates, which must lie above 1. Every version of each cohort
    is compared, so 0.95 would be wrong for one in twenty of them."""


_DAY_NS = ns(86_400)


class Cohort(NamedTuple):
    """Parts that should run one version, as one source names them."""

    kind: str
    vendor: str
    model: str
    source: Source

    @property
    def name(self) -> str:
        return " ".join(word for word in (self.vendor, self.model, _CALLED.get(self.kind, self.kind)) if word)


_CALLED = {"nic": "NIC firmware", "os": "switch software", "transceiver": "optics firmware"}


@dataclass(slots=True)
class RunningVersion:
    """The devices that run one version: their number, and the times since which some of them run it."""

    version: str
    devices: int = 0
    changed_ns: int = 0
    members: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Fault:
    """A link that failed without another finding as its root cause."""

    subject_id: str
    at_ns: int
    devices: tuple[str, ...]


class CohortAssessment(NamedTuple):
    """The versions of a cohort that should not run, and the version that should."""

    drifting: tuple[str, ...]
    expected: str
    by_list: bool


class FaultRates(NamedTuple):
    """Failed links and device-days, at one version and at the others, with the interval of the ratio of both rates."""

    faults: int
    days: float
    others: int
    other_days: float
    low: float
    high: float

    @property
    def ratio(self) -> float:
        rate, other = self.faults / self.days, self.others / self.other_days
        return rate / other if other else math.inf


def merge_counts(shards: Iterable[VersionCensus]) -> dict[Cohort, dict[str, RunningVersion]]:
    """Return the sum of the counts of all partitions."""
    cohorts: dict[Cohort, dict[str, RunningVersion]] = {}
    for census in shards:
        for count in census.versions:
            versions = cohorts.setdefault(Cohort(count.kind, count.vendor, count.model, count.source), {})
            own = versions.setdefault(count.version, RunningVersion(count.version))
            own.devices += count.devices
            own.changed_ns = max(own.changed_ns, count.changed_ns)
            own.members |= zip(count.members, count.since_ns, strict=False)
    return cohorts


def assess(params: DriftParams, cohort: Cohort, versions: Mapping[str, RunningVersion]) -> CohortAssessment:
    """Assess by the allow-list if it has a rule for the cohort, else by the majority if that is large enough."""
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


def compare_fault_rates(
    params: DriftParams,
    version: str,
    versions: Mapping[str, RunningVersion],
    faults: Iterable[Fault],
    horizon_ns: int,
    now_ns: int,
) -> FaultRates | None:
    """Return the fault rates at a version and at the others since `horizon_ns`, from which on all faults are given.

    None if either has less than one device-day.
    """
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
    return FaultRates(count, days, other, other_days, low, high)


def _failed(who: Mapping[str, int], faults: Iterable[Fault]) -> int:
    """Count each failing link once: a link that fails repeatedly is a lemon, and not the fault of a version."""
    never = math.inf
    return len({f.subject_id for f in faults if any(f.at_ns >= who.get(device, never) for device in f.devices)})


def ratio_interval(count: int, days: float, other: int, other_days: float, confidence: float) -> tuple[float, float]:
    """Return the exact interval of the ratio of two Poisson rates.

    Each fault belongs to the first with the same probability: Clopper and Pearson's interval of that probability,
    converted to odds.
    """
    total, tail = count + other, (1 - confidence) / 2
    low = 0.0 if count == 0 else _solve(lambda p: 1 - _at_most(count - 1, total, p), tail)
    high = 1.0 if other == 0 else 1 - _solve(lambda p: 1 - _at_most(other - 1, total, p), tail)
    return _odds(low) * other_days / days, _odds(high) * other_days / days


def _odds(share: float) -> float:
    return math.inf if share >= 1 else share / (1 - share)


def _at_most(count: int, total: int, share: float) -> float:
    """Return the binomial probability of at most this count."""
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
    """Return the share at which a rising function has a value, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return (low + high) / 2
