"""One fault of the trial: what there is to find, and what happens."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from streams.simulation.effects import Effect, Interval
from streams.simulation.fault_placement import FaultPlacer
from streams.wire.models import Condition, Finding

EVENT_TOLERANCE_S, POLL_TOLERANCE_S, WINDOW_TOLERANCE_S = 20.0, 40.0, 120.0
"""What events or readings of each 10 s date, what the last reading of an agent does, and what minutes do."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One row of a truth file (DESIGN 6). `port` is empty for a fault of a device; `device` may name a pod."""

    start_ns: int
    end_ns: int
    condition: Condition
    device: str
    port: str
    tolerance_s: float

    @property
    def tolerance_ns(self) -> int:
        """Return how far outside the interval a matching finding may start."""
        return round(self.tolerance_s * 1e9)


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """What a perfect detector would find, and from when on it can be known.

    Where that takes a report of a link's signal, `reported` is (the link, when it went): as much later as that comes.
    """

    truth: Truth
    detectable_from_ns: int
    reported_by: tuple[int, int] | None = None
    devices: tuple[str, ...] = ()
    """Where it is at several at once; a finding names the one that was told first."""

    def at_reported_device(self, findings: Iterable[Finding]) -> "GroundTruth":
        """The same at the device that a finding of it names."""
        if not self.devices:
            return self
        truth = self.truth
        named = {
            finding.subject.a.device
            for finding in findings
            if finding.condition is truth.condition
            and finding.subject.a is not None
            and truth.start_ns - truth.tolerance_ns <= finding.started_at_ns <= truth.end_ns + truth.tolerance_ns
        }
        device = next((device for device in self.devices if device in named), truth.device)
        return replace(self, truth=replace(truth, device=device))


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One fault: what there is to find, and what happens."""

    ground_truths: tuple[GroundTruth, ...]
    effects: tuple[Effect, ...]
    kind: str

    @property
    def truths(self) -> tuple[Truth, ...]:
        """Without when they can be known."""
        return tuple(known.truth for known in self.ground_truths)


Make = Callable[[FaultPlacer, Interval], InjectedFault]


def truth_at(
    places: FaultPlacer, condition: Condition, port: int, span: Interval, tolerance_s: float = EVENT_TOLERANCE_S
) -> Truth:
    """Of a port."""
    device, name = places.port_name(port)
    return Truth(span.start_ns, span.end_ns, condition, device, name, tolerance_s)
