"""Thresholds of link/flap, with its presets."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from streams.detect.thresholds import Seconds, Thresholds


class FlapPreset(Thresholds):
    """Opens when at least `downs` outages of at least `outage_s` begin within `window_s`.

    With `recovered`, only outages that are over count. `boot_grace_s` excludes outages within that time of a restart.
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


class FlapParams(Thresholds):
    """`[detect.flap]`: which presets apply (any of them opens an episode), and when it closes."""

    presets: tuple[str, ...] = ("burst", "daily")
    """The presets that apply; any of them opens an episode. docs/detectors/link-flap.md lists them."""
    quiet_s: Seconds = 600
    """Closes after this time without a transition: the window of the preset `burst`."""

    @model_validator(mode="after")
    def _presets_exist(self) -> Self:
        if unknown := [name for name in self.presets if name not in FLAP_PRESETS]:
            raise ValueError(f"no such preset: {', '.join(unknown)} (there are {', '.join(FLAP_PRESETS)})")
        if not self.presets:
            raise ValueError("at least one preset is needed")
        return self
