"""What one run of the pipeline's benchmark is asked to do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from streams.bench.profiling import Profile

Compression = Literal["none", "lz4", "zstd", "snappy", "gzip"]


@dataclass(frozen=True, slots=True)
class Params:
    """`folder` is where everything of the run lies; `kill_every_s` None kills nobody."""

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

    @property
    def warm_s(self) -> float:
        """From the start of the load to that of the window: every device has been read twice by then."""
        return max(2 * self.cadence_s, 12.0) + 2.0
