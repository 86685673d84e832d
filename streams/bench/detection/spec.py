"""The specification of a trial: the simulated day, and a source to leave out."""

from dataclasses import dataclass

from streams.simulation.scenario import ScenarioSpec

_DAYS_SLICE_S = 15.0


@dataclass(frozen=True, slots=True)
class TrialSpec(ScenarioSpec):
    """A simulated day as the stages receive it."""

    without: str = ""
    """One of SOURCES: no messages of it arrive after the warm-up."""

    @property
    def slice_s(self) -> float:
        """Return the time processed at once: over days a page's hold time, otherwise a tenth of a cadence."""
        return _DAYS_SLICE_S if self.days else max(1.0, self.cadence.switch_s / 10)
