"""Thresholds of the detectors, each with its source; configuration composes them as `[detect.…]`."""

import hashlib
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Seconds = Annotated[float, Field(gt=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]


class _Params(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FlapPreset(_Params):
    """Opens when at least `downs` outages of at least `outage_s` begin within `window_s`.

    With `recovered`, only outages that were over count; `boot_grace_s` leaves out what follows a restart by less.
    """

    downs: Annotated[int, Field(ge=1)]
    window_s: Seconds
    outage_s: Annotated[float, Field(ge=0)] = 0
    recovered: bool = False
    boot_grace_s: Annotated[float, Field(ge=0)] = 0


FLAP_PRESETS: dict[str, FlapPreset] = {
    # Arista EOS, Cisco IOS, Huawei and OcNOS disable a port at five flaps in ten seconds.
    "switch-errdisable": FlapPreset(downs=5, window_s=10),
    # NVIDIA's health validation fails a link for one outage of 30 s or more.
    "health-validation": FlapPreset(downs=1, window_s=86_400, outage_s=30),
    # gpud reports a flap after three recoveries from downs of 25 s or more.
    "recoveries": FlapPreset(downs=3, window_s=86_400, outage_s=25, recovered=True),
    # AzNHC: five in 24 hours.
    "daily": FlapPreset(downs=5, window_s=86_400),
    # OCI: any in six hours, but not in the 30 minutes after boot.
    "any": FlapPreset(downs=1, window_s=21_600, boot_grace_s=1_800),
    # NVSentinel's design: three in ten minutes.
    "burst": FlapPreset(downs=3, window_s=600),
}


class FlapParams(_Params):
    """link/flap: which presets apply (any of them opens), and when it is over."""

    presets: tuple[str, ...] = ("burst", "daily")
    quiet_s: Seconds = 600
    """Over when no transition followed for so long: the window of the preset `burst`."""

    @model_validator(mode="after")
    def _presets_exist(self) -> Self:
        if unknown := [name for name in self.presets if name not in FLAP_PRESETS]:
            raise ValueError(f"no such preset: {', '.join(unknown)} (there are {', '.join(FLAP_PRESETS)})")
        if not self.presets:
            raise ValueError("at least one preset is needed")
        return self


class DownParams(_Params):
    """link/down: DETECTION's defaults, 30 s down to open and 5 s up to resolve."""

    open_after_s: Seconds = 30
    hold_up_s: Seconds = 5


class LinkParams(_Params):
    """What link detectors share: which observations say nothing of the link's health."""

    admin_grace_s: Seconds = 30
    """An administrative down known within this of a transition explains it: the time in which link/down waits."""

    restart_grace_s: Seconds = 60
    """Ports of a device that restarted train for so long after its first sign of life."""


class DeviceDownParams(_Params):
    """device/down: a silent device whose neighbours also lost it."""

    links_down_ratio: Ratio = 0.5
    """Of its links, at least this share is down as its neighbours see it. Half: a line card can take a quarter."""

    merge_s: Seconds = 60
    """Two signs of a restart closer than this are one restart."""


class StaleParams(_Params):
    """telemetry/stale: DESIGN 2, silent for longer than max(3 x cadence, 30 s)."""

    cadences: Annotated[float, Field(ge=1)] = 3
    at_least_s: Seconds = 30
    unseen_ratio: Ratio = 0.05
    """This share of the fabric unseen is CRITICAL (DETECTION 3a)."""

    unlearned_s: Seconds = 300
    """The limit of a source that never said its cadence and was read too few times to tell."""

    def limit_ns(self, cadence_ns: int) -> int:
        """For how long a source of this cadence may be silent; 0 is a cadence that nobody knows."""
        return max(round(self.cadences * cadence_ns), ns(self.at_least_s)) if cadence_ns else ns(self.unlearned_s)


class DetectParams(_Params):
    """All detectors' thresholds."""

    lateness_s: Seconds = 30
    """A window is final when the watermark is so far behind its end (DESIGN 2.1)."""

    capacity_floor: Ratio = 0.75
    """The share of its paths upwards that a switch must keep; CorrOpt (SIGCOMM'17) evaluated 50 % and 75 %."""

    link: LinkParams = LinkParams()
    flap: FlapParams = FlapParams()
    down: DownParams = DownParams()
    device_down: DeviceDownParams = DeviceDownParams()
    stale: StaleParams = StaleParams()

    @property
    def digest(self) -> str:
        """Names these settings in every finding: the first 12 digits of SHA-256 over their JSON."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def ns(seconds: float) -> int:
    """Seconds as the nanoseconds that event time counts in."""
    return round(seconds * 1_000_000_000)
