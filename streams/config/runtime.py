"""How the stages are run: cadences, bounds and ports of a Faust worker."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class RuntimeSettings(BaseModel):
    """One worker's settings; every bound is in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bulk_s: float = Field(default=0.5, ge=0, lt=5)
    """How long samples may be gathered for a batch when they are many; events never wait for one."""
    progress_s: float = Field(default=0.1, gt=0)
    """How often Progress goes out where it moved."""
    progress_at_least_s: float = Field(default=1.0, gt=0)
    snapshot_s: float = Field(default=1.0, gt=0)
    """Of the small stages, where more happened than that time went on."""
    quiet_snapshot_s: float = Field(default=15.0, gt=0)
    """Where nothing but time went on: a successor reads so much Progress again, and says nothing twice."""
    measure_snapshot_s: float = Field(default=30.0, gt=0)
    """DESIGN 2.2: its state is large and its input is kept for hours, so it repeats half a minute rather."""
    wall_clock_ticks: bool = True
    """False while a recording with old times is played: then its player says how far time has come."""
    tick_s: float = Field(default=1.0, gt=0)
    settle_s: float = Field(default=10.0, ge=0)
    """After a start or an outage no device is called silent for this long: what it said may be in a spool."""
    inventory_wait_s: float = Field(default=30.0, ge=0)
    broker_wait_s: float = Field(default=60.0, gt=0)
    session_s: float = Field(default=8.0, ge=6)
    """After how long a killed worker's partitions go to another; 6 s is the least that brokers allow by default."""
    instance: str | None = None
    """A name that this worker keeps over restarts and shares with no other: then, killed, it has its partitions back
    at once and not after `session_s`; the price is that they wait as long when it is stopped for good."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    data: Path | None = None
    """Where Faust makes its folders, which stay empty; default: in the user's data folder."""
