"""The specification of a trial: the simulated day, and a source to leave out."""

from dataclasses import dataclass

from streams.simulation.delivery_model import Cadence
from streams.simulation.scenario import ScenarioSpec

_DAYS_SLICE_S = 15.0


@dataclass(frozen=True, slots=True)
class TrialSpec(ScenarioSpec):
    """A simulated day as the stages receive it."""

    fabric: str = "all"
    """One of FABRICS: which sources read it, and how often."""
    without: str = ""
    """One of SOURCES: no messages of it arrive after the warm-up."""

    @property
    def slower_s(self) -> float:
        """Return by how much switches are polled less often than at the cadence for which tolerances are declared."""
        return max(0.0, self.cadence.switch_s - Cadence().switch_s)

    @property
    def slice_s(self) -> float:
        """Return the time processed at once: over days a page's hold time, otherwise a tenth of a cadence."""
        return _DAYS_SLICE_S if self.days else max(1.0, self.cadence.switch_s / 10)
