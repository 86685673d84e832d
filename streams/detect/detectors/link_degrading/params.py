"""Thresholds of link/degrading."""

from typing import Annotated

from pydantic import Field

from streams.detect.evidence.params import TrendParams
from streams.detect.thresholds import Ratio, Seconds, Thresholds


class DegradingParams(Thresholds):
    """`[detect.degrading]`: DETECTION 3, "Degradation"."""

    span_s: Seconds = 600
    """The windows within this time make a case together."""

    windows: Annotated[int, Field(ge=2)] = 3
    """Windows within it that must be bad: a single error or burst is no case."""

    errors: Annotated[int, Field(ge=2)] = 5
    """Lost frames in them: a single CRC error on a busy link must not alert."""

    loss_ratio: Ratio = 1e-8
    """Of frames; from there CorrOpt (SIGCOMM'17) calls a link lossy. Only where packets are counted."""

    ber: Ratio = 1e-5
    """Raw BER fails here (DETECTION 3)."""

    ber_clear: Ratio = 5e-6
    """The BER is healthy again below this: the hysteresis."""

    symbols_per_min: Annotated[float, Field(gt=0)] = 2
    """IBTA's 120 an hour, where no BER is known: PAM4 links always have raw errors."""

    recoveries_per_min: Annotated[float, Field(gt=0)] = 5
    """InfiniBand's link_error_recovery (DETECTION 3)."""

    drop_db: Annotated[float, Field(gt=0)] = 3
    """Power or SNR lost against the best of the last week: half the light."""

    drop_clear_db: Annotated[float, Field(gt=0)] = 2
    """The loss is over below this: the hysteresis of `drop_db`."""
    one_lane: Ratio = 0.75
    """Of raw errors on one lane of several: one fiber or laser. A real bad cable in `data/nic` has 99.8 %."""

    follows_load: Ratio = 0.7
    """Correlation of the share lost with the load: loss that follows utilization is congestion (CorrOpt)."""

    quiet_s: Seconds = 600
    """Closes after this time without a bad window, if the port was read: the windows that follow the last bad one."""

    trend: TrendParams = TrendParams()
    trend_over_s: Seconds = 86_400
    """A forecast that no further step confirms for a day has not come true."""
