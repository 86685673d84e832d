"""Defines the settings of a worker: intervals, timeouts and ports."""

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field


class RuntimeSettings(BaseModel):
    """The settings of one worker; times are in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bulk_s: ClassVar[float] = 0.5
    """The maximum delay of samples for a larger batch; events are not delayed."""
    progress_s: ClassVar[float] = 0.1
    """The interval of Progress after outputs, and the time between the Progress of two stages without outputs."""
    progress_at_least_s: ClassVar[float] = 1.0
    """The interval of Progress without outputs; four stages and their consumers take a third of an idle pipeline's CPU
    at 0.1 s."""
    snapshot_s: ClassVar[float] = 1.0
    """The snapshot interval of correlate, attribute and decide after input other than Progress."""
    quiet_snapshot_s: ClassVar[float] = 15.0
    """The snapshot interval after only Progress and states of ports. A takeover reads at most this much of them again,
    without duplicates."""
    measure_snapshot_s: ClassVar[float] = 30.0
    """The snapshot interval of measure: its state is large and its input is retained for hours (DESIGN 2.2)."""
    wall_clock_ticks: ClassVar[bool] = True
    """False while a recording is played: arrival times then come from its messages instead of the brokers' records, and
    the player emits the watermarks of the recorded time."""
    tick_s: ClassVar[float] = 1.0
    """The interval in which stages evaluate without input."""
    settle_s: ClassVar[float] = 10.0
    """After a start or an outage, no device counts as silent for this time, because its data may be in a spool."""
    inventory_wait_s: ClassVar[float] = 30.0
    """The longest wait of a stage's start for an inventory."""
    broker_wait_s: ClassVar[float] = 60.0
    """The interval of warnings while a process that starts waits for brokers."""
    session_s: ClassVar[float] = 8.0
    """The session timeout, after which partitions of a killed worker move; brokers accept at least 6 s by default."""
    instance: str | None = None
    """A unique name of this worker that is stable over restarts (static membership): a killed worker then regains its
    partitions at once instead of after `session_s`. Without a restart they wait that long after any stop."""
    metrics_host: str = "127.0.0.1"
    """The address of self-metrics and health."""
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """The port of self-metrics and health; 0: any free port; unset: they are not served."""
    data: Path | None = None
    """The directory of this pipeline's data: the folders of Faust, which stay empty, and all data of `railsight up`, so
    that two pipelines share nothing. Default: the user's data directory."""
    inventory: Path | None = None
    """The inventory's folder, which `railsight up` publishes at its start if no version is in effect. If another one is
    in effect, it stays, with a warning; `railsight inventory apply` replaces it."""
