"""Which versions may run, and when one does harm: thresholds of fleet/*."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Seconds, Thresholds


class AllowedVersions(Thresholds):
    """What may run in parts of a kind; `vendor`, `model` and the versions are patterns as of a shell (`*`, `?`)."""

    kind: str = "*"
    vendor: str = "*"
    model: str = "*"
    versions: Annotated[tuple[str, ...], Field(min_length=1)]


class DriftParams(Thresholds):
    """fleet/version-drift: versions against an allow-list and against what most of a cohort run."""

    kinds: tuple[str, ...] = ("nic", "os", "transceiver")
    """NIC firmware, the switches' software, the firmware of optics."""

    allowed: tuple[AllowedVersions, ...] = ()
    """The first that fits a cohort holds for it; where none does, the majority decides."""

    min_devices: Annotated[int, Field(ge=3)] = 8
    """Devices of a cohort: among few there is no majority worth the name."""

    majority: Annotated[float, Field(gt=0.5, le=1)] = 0.8
    """This share of a cohort must run one version; between that and the rest of it a rollout is on its way."""

    settle_s: Seconds = 300
    """After a cohort was first seen: collectors reach a fleet within minutes."""

    rollout_s: Seconds = 86_400
    """For so long after a device last changed its version the share is moving."""

    every_s: Seconds = 60
    members: Annotated[int, Field(ge=8)] = 128
    """Devices a version and partition whose faults are counted: 1,024 of a version with 8 partitions."""

    days: Annotated[float, Field(gt=0)] = 28
    """Faults are counted over so long (as occurrences are)."""

    look_s: Seconds = 3600
    """How often rates are compared while nothing else changes."""

    harm_faults: Annotated[int, Field(ge=2)] = 3
    """Links that failed at devices of a version, at least: one lemon is no version's fault."""

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.99
    """Of the interval of the ratio of both rates; it must lie above 1. Every version of each cohort is compared, so
    that 0.95 would be wrong once in twenty of them."""
