"""The sentences of fleet/version-drift: its summary, and its evidence on shares, devices and failure rates."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from streams.detect.detectors.fleet_version_drift.cohorts import Cohort, CohortAssessment, FaultRates, RunningVersion
from streams.wire.models import Evidence

_MAX_NAMED = 16
"""Versions and devices by name; the rest are in `facts`."""


class DriftFacts(NamedTuple):
    """One version of a cohort that should not run, beside the others."""

    cohort: Cohort
    version: RunningVersion
    versions: Mapping[str, RunningVersion]
    assessment: CohortAssessment
    rates: FaultRates | None

    @property
    def total(self) -> int:
        """Return the number of devices of the cohort."""
        return sum(running.devices for running in self.versions.values())


def summary_of(facts: DriftFacts, *, is_faulty: bool) -> str:
    """Return the summary."""
    version, expected = facts.version, facts.assessment.expected
    instead = f"not {expected}" if facts.assessment.by_list else f"{expected} is what most run"
    faulty = f"; links fail {facts.rates.ratio:.1f} times as often there" if is_faulty and facts.rates else ""
    return f"{facts.cohort.name}: {version.devices} of {facts.total} devices run {version.version}, {instead}{faulty}"


def evidence_of(facts: DriftFacts, confidence: float) -> Iterator[Evidence]:
    """Yield the shares of the versions, some devices with this one, and the comparison of failure rates."""
    version, total, rates = facts.version, facts.total, facts.rates
    largest = sorted(facts.versions.values(), key=lambda running: -running.devices)[:_MAX_NAMED]
    shares = ", ".join(f"{running.version} {running.devices / total:.1%}" for running in largest)
    yield Evidence(
        f"{facts.cohort.name} of {total} devices: {shares}",
        "version",
        observed=float(version.devices),
        expected=0.0,
        comparison="allow-list" if facts.assessment.by_list else "peers",
        peers=total - version.devices,
    )
    if version.members:
        names = sorted(version.members)[:_MAX_NAMED]
        rest = f" and {version.devices - len(names)} more" if version.devices > len(names) else ""
        yield Evidence(f"{version.version} runs in {', '.join(names)}{rest}", "version")
    if rates is not None and rates.faults + rates.others:
        yield Evidence(
            f"{rates.faults} links failed in {rates.days:.0f} device-days with it, {rates.others} in"
            f" {rates.other_days:.0f} with others: {rates.ratio:.1f} times as often ({confidence:.0%}:"
            f" {rates.low:.1f} to {rates.high:.1f})",
            "link_faults_per_1000_device_days",
            observed=1000 * rates.faults / rates.days,
            expected=1000 * rates.others / rates.other_days,
            comparison="peers",
        )
