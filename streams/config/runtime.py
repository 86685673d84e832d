"""The settings of a worker: intervals, timeouts and ports."""

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field


class RuntimeSettings(BaseModel):
    """The settings of one worker; times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bulk_s: ClassVar[float] = 0.5
    """The maximum delay of samples for a larger batch; events are not delayed."""
    progress_s: ClassVar[float] = 0.1
    """The interval of Progress when the watermark has advanced."""
    progress_at_least_s: ClassVar[float] = 1.0
    """The longest interval of Progress, without an advance of the watermark."""
    snapshot_s: ClassVar[float] = 1.0
    """The snapshot interval of correlate, attribute and decide after input other than Progress."""
    quiet_snapshot_s: ClassVar[float] = 15.0
    """The snapshot interval after Progress and states of ports only: a takeover reads that much of them again, with no
    duplicates."""
    measure_snapshot_s: ClassVar[float] = 30.0
    """The snapshot interval of measure: its state is large and its input is retained for hours (DESIGN 2.2)."""
    wall_clock_ticks: ClassVar[bool] = True
    """False while a recording is played: its messages then have the times of arrival, not the brokers' records, and its
    player emits the watermarks of the recorded time."""
    tick_s: ClassVar[float] = 1.0
    """The interval in which stages evaluate without input."""
    settle_s: ClassVar[float] = 10.0
    """The time after a start or an outage in which no device counts as silent, because its data may be in a spool."""
    inventory_wait_s: ClassVar[float] = 30.0
    """The longest wait of a stage's start for an inventory."""
    broker_wait_s: ClassVar[float] = 60.0
    """The interval of warnings while a process that starts waits for brokers."""
    session_s: ClassVar[float] = 8.0
    """The session timeout, after which partitions of a killed worker move; brokers accept at least 6 s by default."""
    instance: str | None = None
    """A name of this worker that is unique and stable over restarts (static membership): a killed worker then regains
    its partitions at once and not after `session_s`. Without a restart they wait that long after any stop."""
    metrics_host: str = "127.0.0.1"
    """The address of self-metrics and health."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """The port of self-metrics and health; 0: any free one; without it they are not served."""
    data: Path | None = None
    """The directory of this pipeline's data: the folders of Faust, which stay empty, and with `railsight up` all that
    it stores, so that two of them share nothing. Default: the user's data directory."""
    inventory: Path | None = None
    """The inventory's folder, which `railsight up` checks and publishes at its start if it differs from the version in
    effect; where that would remove devices or links, it is refused and must be published by `railsight inventory`."""
