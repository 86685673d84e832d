"""Thresholds of fleet/version-drift: the allowed versions, and the significance of faults."""

from typing import Annotated

from pydantic import Field

from streams.detect.thresholds import Seconds, Thresholds


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

    min_devices: Annotated[int, Field(ge=3)] = 8
    """Devices of a cohort: among fewer a majority is not significant."""

    majority: Annotated[float, Field(gt=0.5, le=1)] = 0.8
    """This share of a cohort must run one version; below it a rollout is in progress."""

    settle_s: Seconds = 300
    """After the first census of a cohort: collectors reach a fleet within minutes."""

    rollout_s: Seconds = 86_400
    """The share of a version counts as changing this long after a device last changed its version."""

    every_s: Seconds = 60
    """The interval of the census of versions."""
    members: Annotated[int, Field(ge=8)] = 128
    """Devices by version and partition whose faults are counted: 1,024 of a version with 8 partitions."""

    days: Annotated[float, Field(gt=0)] = 28
    """Faults are counted over this time (as occurrences are)."""

    look_s: Seconds = 3600
    """The interval at which fault rates are compared while no version changes."""

    harm_faults: Annotated[int, Field(ge=2)] = 3
    """The minimum of failed links at devices of a version: one lemon is not the fault of a version."""

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.99
    """The confidence of the interval of the ratio of both rates, which must lie above 1. Every version of each cohort
    is compared: 0.95 would be wrong for one in twenty of them."""
