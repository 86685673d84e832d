"""Options of one run of the pipeline benchmark."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from streams.bench.profiling import Profile

Compression = Literal["none", "lz4", "zstd", "snappy", "gzip"]


@dataclass(frozen=True, slots=True)
class Params:
    """Options; `folder` has all files of the run; with `kill_every_s` None no worker is killed."""

    folder: Path
    gpus: int = 1024
    cadence_s: float = 10.0
    seconds: float = 60.0
    partitions: int = 8
    workers: int = 1
    compression: Compression = "snappy"
    seed: int = 1
    slot_s: float = 0.05
    kill_every_s: float | None = None
    senders: int = 1
    profile: Profile | None = None
    security: str = "none"
    """Of the broker: `none`, or `tls` with users and ACLs."""

    @property
    def warm_s(self) -> float:
        """Time from the start of the load to that of the window, in which every device is read twice."""
        return max(2 * self.cadence_s, 12.0) + 2.0
