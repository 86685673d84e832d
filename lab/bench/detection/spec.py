"""The specification of a trial: the simulated day, and a source to leave out."""

from dataclasses import dataclass, replace

from lab.world.delivery_model import Cadence, DeliveryModel
from lab.world.ground_truth import GroundTruth, InjectedFault
from lab.world.scenario import ScenarioSpec

_DAYS_SLICE_S = 15.0


@dataclass(frozen=True, slots=True)
class TrialSpec(ScenarioSpec):
    """A simulated day as the stages receive it."""

    fabric: str = "all"
    """One of FABRICS: which sources read it, and how often."""
    without: str = ""
    """One of SOURCES: no messages of it arrive after the warm-up."""

    def with_tolerances(self, fault: InjectedFault) -> InjectedFault:
        """Return a fault with tolerances as for the declared cadences, longer by as much as devices are read later."""
        return replace(fault, ground_truths=tuple(map(self._tolerant, fault.ground_truths)))

    def _tolerant(self, known: GroundTruth) -> GroundTruth:
        declared_s, own_s = Cadence().switch_s, self.cadence.switch_s
        if known.by_agent:
            declared_s, own_s = declared_s * DeliveryModel().agent_rounds, own_s * self.delivery.agent_rounds
        tolerance_s = known.truth.tolerance_s + max(0.0, own_s - declared_s)
        return replace(known, truth=replace(known.truth, tolerance_s=tolerance_s))

    @property
    def slice_s(self) -> float:
        """Return the time processed at once: over days a page's hold time, otherwise a tenth of a cadence."""
        return _DAYS_SLICE_S if self.days else max(1.0, self.cadence.switch_s / 10)
