"""What makes a link down, degrading or miscabled: thresholds of link/*, and of the windows that tell of ports."""

from typing import Annotated

from pydantic import Field

from streams.detect.params.shape import Ratio, Seconds, Thresholds


class DownParams(Thresholds):
    """link/down: DETECTION's defaults, 30 s down to open and 5 s up to resolve."""

    open_after_s: Seconds = 30
    hold_up_s: Seconds = 5


class LinkParams(Thresholds):
    """What link detectors share: which observations say nothing of the link's health."""

    admin_grace_s: Seconds = 30
    """An administrative down known within this of a transition explains it: the time in which link/down waits."""

    restart_grace_s: Seconds = 60
    """Ports of a device that restarted train for so long after its first sign of life."""


class WindowParams(Thresholds):
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


class TrendParams(Thresholds):
    """When a level's course carries a forecast."""

    points: Annotated[int, Field(ge=3)] = 4
    """Steps in one direction: a decade of BER, two decibels."""

    span_s: Seconds = 600
    """Over so long at least: a module that warms up after it was plugged moves for some minutes."""

    r2: Ratio = 0.9
    """Steps that are no line are no trend."""

    horizon_s: Seconds = 7 * 86_400
    """What lies further is no news: parts and people are had within a week."""


class DegradingParams(Thresholds):
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


class MiscabledParams(Thresholds):
    """link/miscabled: what the ends of a link hear (LLDP) against the inventory."""

    hold_s: Seconds = 300
    """For so long it must stand. IEEE 802.1AB keeps a neighbour for 4 x 30 s after its last word: an entry of before a
    change lives for 120 s, and this is twice that and a minute."""

    moved_s: Seconds = 7_800
    """After the inventory moved a link: collectors read neighbours each hour, so two readings and ten minutes for
    whoever moves the cable."""

    lost_s: Seconds = 86_400
    """Over when no end has heard anything for a day: a port out of use is not miscabled for ever."""
