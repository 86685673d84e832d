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

    repeats: Annotated[int, Field(ge=2)] = 3
    """Findings of a link within 28 days that make it a repeat offender: one more than chance brings it in a year.

    A fault in 5 days on 400 servers (DETECTION 3) is one in five years a server.
    """

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

    unseen_after_s: Seconds = 60
    """And it lasts so long after it was told: by then neighbours have told (30 s) whether the devices are gone."""

    unlearned_s: Seconds = 300
    """The limit of a source that never said its cadence and was read too few times to tell."""

    def limit_ns(self, cadence_ns: int) -> int:
        """For how long a source of this cadence may be silent; 0 is a cadence that nobody knows."""
        return max(round(self.cadences * cadence_ns), ns(self.at_least_s)) if cadence_ns else ns(self.unlearned_s)


class WindowParams(_Params):
    """What `measure` tells of ports by windows of event time; see docs/writing-a-detector.md."""

    width_s: Seconds = 60
    """Six readings at the usual cadence. Minutes decide nothing here, and a window is what a healthy port costs."""

    watch: Annotated[int, Field(ge=1)] = 10
    """Windows of a port that are told after one in which something was notable: those in which it is well, too."""

    ber_step_decades: Annotated[float, Field(gt=0)] = 0.25
    """A step of the pre-FEC BER: about 1.8 times. At 400 Gb/s a minute counts 2.4e13 bits: 1e-8 is known to 0.2 %."""

    ber_told: Annotated[float, Field(gt=0, lt=1)] = 5e-6
    """From here a pre-FEC BER is told each window: half of what DETECTION 3 calls failed."""

    optics_step_db: Annotated[float, Field(gt=0)] = 0.5
    """Power and SNR; modules read them to 0.1 dB, and a day's warmth moves them by some 0.3 dB."""

    heat_step_c: Annotated[float, Field(gt=0)] = 10
    """DETECTION 3: +10 degrees between readings."""

    symbols_a_minute: Annotated[float, Field(gt=0)] = 2
    """IBTA's 120 symbol errors an hour (DETECTION 3)."""


class TrendParams(_Params):
    """When a level's course carries a forecast."""

    points: Annotated[int, Field(ge=3)] = 4
    """Steps in one direction: a decade of BER, two decibels."""

    span_s: Seconds = 600
    """Over so long at least: a module that warms up after it was plugged moves for some minutes."""

    r2: Ratio = 0.9
    """Steps that are no line are no trend."""

    horizon_s: Seconds = 7 * 86_400
    """What lies further is no news: parts and people are had within a week."""


class DegradingParams(_Params):
    """link/degrading: DETECTION 3, "Degradation"."""

    span_s: Seconds = 600
    """Looks so far back for the windows that make a case."""

    windows: Annotated[int, Field(ge=2)] = 3
    """Windows within it that must be bad: a single error, or burst, is none."""

    errors: Annotated[int, Field(ge=2)] = 5
    """Lost frames in them: a single CRC error on a busy link must not alert."""

    loss_ratio: Ratio = 1e-8
    """Of frames; from there CorrOpt (SIGCOMM'17) calls a link lossy. Only where packets are counted."""

    ber: Ratio = 1e-5
    """Raw BER fails here (DETECTION 3)."""

    ber_clear: Ratio = 5e-6
    """And is well again below this: the hysteresis."""

    symbols_a_minute: Annotated[float, Field(gt=0)] = 2
    """IBTA's 120 an hour, where no BER is known: PAM4 links always have raw errors."""

    recoveries_a_minute: Annotated[float, Field(gt=0)] = 5
    """InfiniBand's link_error_recovery (DETECTION 3)."""

    drop_db: Annotated[float, Field(gt=0)] = 3
    """Power or SNR lost against the best of the last week: half the light."""

    drop_clear_db: Annotated[float, Field(gt=0)] = 2
    one_lane: Ratio = 0.75
    """Of raw errors on one lane of several: one fibre or laser. A real bad cable in `data/nic` has 99.8 %."""

    follows_load: Ratio = 0.7
    """Correlation of the share lost with the load: loss that follows utilisation is congestion (CorrOpt)."""

    quiet_s: Seconds = 600
    """Over when the port was seen well for so long: the windows that `measure` tells after the last bad one."""

    trend: TrendParams = TrendParams()
    trend_over_s: Seconds = 86_400
    """A forecast that no further step confirms for a day has not come true."""


class RailParams(_Params):
    """rail/degraded: DETECTION 3, "Rails, against peers"."""

    slow: Ratio = 0.9
    """Of the median of both kinds of peers: Greyhound's 10 %. A healthy fabric stays within 3 % (`a100-roce-leaf`)."""

    sigmas: Annotated[float, Field(ge=0)] = 3
    """And so many robust deviations (MAD) of its peers below them: peers that differ much say little."""

    peers: Annotated[int, Field(ge=2)] = 3
    """The same rail on so many other hosts at least: with two NICs under a switch one is always 50 %."""

    other_rails: Annotated[int, Field(ge=1)] = 2
    busy: Ratio = 0.05
    """Of its speed that both kinds of peers must carry: below it a host is idle, and a share of nothing is noise."""

    stalled: Ratio = 0.3
    """Of the seconds in which the NIC stalled on PCIe; the counter itself means more than 30 % of such a second."""

    timeouts_a_second: Annotated[float, Field(gt=0)] = 1
    restarts_a_second: Annotated[float, Field(gt=0)] = 10
    """local_ack_timeout and slow_restart (DETECTION 3)."""

    bad_windows: Annotated[int, Field(ge=2)] = 3
    """Minder waits 4 min, Aegis 10 (reported); three windows and the lateness stay within five minutes."""

    good_windows: Annotated[int, Field(ge=1)] = 5


class StormParams(_Params):
    """congestion/pfc-storm: pause without traffic, and for how long."""

    paused: Ratio = 0.8
    """Of the time. SONiC asks for pause that stays on; a reading's own jitter takes a part of an interval of seconds.

    Where only frames are counted, each pauses for 65535 quanta of 512 bit times at most (IEEE 802.1Qbb).
    """

    traffic: Ratio = 0.01
    """Of its speed at most goes the way that is paused: an incast of a hundred senders leaves each one hundredth."""

    transitions_a_second: Annotated[float, Field(ge=0)] = 1
    """Between on and off, where they are counted: congestion switches thousands of times, in a storm pause stays."""

    sustained_s: Seconds = 3
    """Between what a switch's watchdog waits (SONiC: 0.2 s) and a NIC's own guard (mlx5: 8 s)."""

    stalled: Ratio = 0.3
    """Of the seconds in which the NIC waited for PCIe: then its host is the cause (DETECTION 1)."""

    quiet_s: Seconds = 30
    """Over when the port was free for so long: storms come back as the queue that made them fills again."""


class GpuParams(_Params):
    """host/gpu-fault: when one is over of which nobody says that it is."""

    quiet_s: Seconds = 3600
    """Corrected and contained: the driver tells of the same row or program again within minutes, if at all."""

    reset_quiet_s: Seconds = 86_400
    """What needs a reset, where nobody saw one: gpud and NVSentinel wait for the restart; a reset alone tells nothing.

    A day later the GPU was looked after, or its next Xid begins a finding of its own.
    """


class PcieParams(_Params):
    """host/pcie-degraded: how long a link is low, or full, before it counts."""

    open_after_s: Seconds = 60
    """Six readings: a link that trains anew after a reset or a hot plug is low for some seconds."""

    full_s: Seconds = 60
    """Full again for so long; one that trains up and down is one finding."""

    busy: Ratio = 0.5
    """Utilisation of a GPU at work: by nvidia-smi's manual its link may be slower and narrower while it idles."""


class MiscabledParams(_Params):
    """link/miscabled: what the ends of a link hear (LLDP) against the inventory."""

    hold_s: Seconds = 300
    """For so long it must stand. IEEE 802.1AB keeps a neighbour for 4 x 30 s after its last word: an entry of before a
    change lives for 120 s, and this is twice that and a minute."""

    moved_s: Seconds = 7_800
    """After the inventory moved a link: collectors read neighbours each hour, so two readings and ten minutes for
    whoever moves the cable."""

    lost_s: Seconds = 86_400
    """Over when no end has heard anything for a day: a port out of use is not miscabled for ever."""


class AllowedVersions(_Params):
    """What may run in parts of a kind; `vendor`, `model` and the versions are patterns as of a shell (`*`, `?`)."""

    kind: str = "*"
    vendor: str = "*"
    model: str = "*"
    versions: Annotated[tuple[str, ...], Field(min_length=1)]


class DriftParams(_Params):
    """fleet/version-drift: versions against an allow-list and against what most of a cohort run."""

    kinds: tuple[str, ...] = ("nic", "os", "transceiver")
    """NIC firmware, the switches' software, the firmware of optics."""

    allowed: tuple[AllowedVersions, ...] = ()
    """The first that fits a cohort holds for it; where none does, the majority decides."""

    at_least: Annotated[int, Field(ge=3)] = 8
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


class TogetherParams(_Params):
    """What began together has one cause: how close, and how many are too many for chance."""

    links_s: Seconds = 10
    """Between one link of a device and the next. A cadence: neighbours read a device's loss at their own moments."""

    links: Annotated[int, Field(ge=2)] = 3
    """A fault a day in a fabric (DETECTION 3, base rate): three at one device within seconds are no chance."""

    device_ratio: Ratio = 0.8
    """Of its links, lost together as their other ends tell: the device, whether or not anyone reads it. Above a half,
    which a host loses with one plane of two, and a leaf with all that is above it."""

    devices_s: Seconds = 60
    """Between one device and the next: the last samples of slow cadences lie so far apart (as device_down.merge_s)."""

    devices: Annotated[int, Field(ge=2)] = 3
    devices_ratio: Ratio = 0.5
    """Of a tier of a pod, or of a plane: a rack of several shares no more than power."""

    outlive_s: Seconds = 300
    """A link that is still down so long after its device is back has a fault of its own; ports train within it."""


class IncastParams(_Params):
    """congestion/incast: more comes to one host's port than goes in (DETECTION 3, "Congestion")."""

    full: Ratio = 0.9
    """Of its speed that comes in: below it the link is not what holds the senders. Headers and gaps take the rest."""

    marked: Ratio = 0.1
    """Of its packets: DCQCN (SIGCOMM'15) marks one in a hundred at most while a queue is within its bounds."""

    drops_a_second: Annotated[float, Field(gt=0)] = 100
    """xmit_discards (DETECTION 3), where no ECN holds the senders back."""

    pauses: Ratio = 0.1
    """Of the time in which a host pauses the fabric: its part of what slowed a job by Greyhound's 10 %."""

    stalled: Ratio = 0.3
    """Of the seconds in which its NIC waits for PCIe: the host's doing (DETECTION 1)."""

    sustained_s: Seconds = 60
    """A collective's burst lasts seconds; what lasts for a minute is how the job's traffic is laid out."""

    peers: Ratio = 0.5
    """Of the same rail of the pod's other hosts: as many crowded at the same time are a load, and no incast."""

    quiet_s: Seconds = 120
    """Over when it was not crowded for so long: jobs come back to it each step."""

    remember_s: Seconds = 600
    """What is over is still compared with what began at the same time."""


class ImbalanceParams(_Params):
    """congestion/imbalance: uplinks of one switch that differ persistently (DETECTION 3)."""

    uneven: Ratio = 0.15
    """Off the mean of its uplinks: five times what a healthy fabric stays within (3 %, `a100-roce-leaf`)."""

    busy: Ratio = 0.5
    """Of its speed that the fullest must carry at least: where none is half full, unevenness delays nobody."""

    unused: Ratio = 0.01
    """Of the fullest; what carries less is down, drained or a standby, and is not compared."""

    windows: Annotated[int, Field(ge=2)] = 5
    """In a row, uneven to open and even to close: flows of a collective that ends and begins anew are hashed anew."""


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
    together: TogetherParams = TogetherParams()
    window: WindowParams = WindowParams()
    degrading: DegradingParams = DegradingParams()
    rail: RailParams = RailParams()
    storm: StormParams = StormParams()
    imbalance: ImbalanceParams = ImbalanceParams()
    incast: IncastParams = IncastParams()
    miscabled: MiscabledParams = MiscabledParams()
    drift: DriftParams = DriftParams()
    gpu: GpuParams = GpuParams()
    pcie: PcieParams = PcieParams()

    @model_validator(mode="after")
    def _late_is_within_one_window(self) -> Self:
        if self.lateness_s > self.window.width_s:
            raise ValueError("lateness_s is longer than a window of [detect.window] width_s")
        return self

    @property
    def digest(self) -> str:
        """Names these settings in every finding: the first 12 digits of SHA-256 over their JSON."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def ns(seconds: float) -> int:
    """Seconds as the nanoseconds that event time counts in."""
    return round(seconds * 1_000_000_000)
