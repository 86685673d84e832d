"""Options of one demo run."""

from dataclasses import dataclass
from pathlib import Path

from lab.demo.player import Playback
from streams.fabric.inventory import Inventory
from streams.replay.score import Truth


@dataclass(frozen=True, slots=True)
class PlaybackPlan:
    """A recording that replaces the simulated fabric."""

    playback: Playback
    inventory: Inventory
    speed: float
    truths: tuple[Truth, ...] | None = None


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """Options of one run."""

    folder: Path
    seconds: float = 60.0
    seed: int = 1
    """The seed of the simulated fabric's faults."""
    playback: PlaybackPlan | None = None
    alertmanager: str | None = None
    act: bool = False
    """Automation carries out what `decide` approves, and the simulated links flap until they are repaired."""
    grafana: bool = False
    """A Grafana shows the boards: the one at GRAFANA_URL, or one from PATH."""
