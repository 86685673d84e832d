"""Declares the ground truth of an injected fault: what a perfect detector would find, and from when on."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab.world.effects import Effect, Interval
from lab.world.fault_placement import FaultPlacer
from streams.wire.models import Condition, Finding

_S = 10**9
EVENT_TOLERANCE_S, POLL_TOLERANCE_S, WINDOW_TOLERANCE_S = 20.0, 40.0, 120.0
"""Tolerances of starts that are dated by events or polls each 10 s, by an agent's last poll, and by minute windows."""
LINK_DOWN_AFTER_NS = 30 * _S
"""A link without signal for so long is down (DETECTION 3)."""
CONGESTED_AFTER_NS = 60 * _S
"""Shorter congestion is a burst of a collective operation (DETECTION 3, "Congestion")."""


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
    """One truth, and the time from which on it can be detected.

    If detection needs a report of a link's signal loss, `reported_by` is (link, time of the loss), and the delay of
    that report is added.
    """

    truth: Truth
    detectable_from_ns: int
    reported_by: tuple[int, int] | None = None
    devices: tuple[str, ...] = ()
    """Devices of a fault at several at once; a finding names the first that was reported."""
    by_agent: bool = False
    """The last poll of a host's agent dates it, which polls less often than NICs are read."""

    def at_reported_device(self, findings: Iterable[Finding]) -> "GroundTruth":
        """Return the same truth at the device that a finding of it names."""
        if not self.devices:
            return self
        truth = self.truth
        reported = {
            finding.subject.a.device
            for finding in findings
            if finding.condition is truth.condition
            and finding.subject.a is not None
            and truth.start_ns - truth.tolerance_ns <= finding.started_at_ns <= truth.end_ns + truth.tolerance_ns
        }
        device = next((device for device in self.devices if device in reported), truth.device)
        return replace(self, truth=replace(truth, device=device))


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One injected fault: its ground truths and its effects. `kind` names the variant that was drawn."""

    ground_truths: tuple[GroundTruth, ...]
    effects: tuple[Effect, ...]
    kind: str
    affected: tuple[tuple[str, str], ...] = ()
    """Other ports, as (device, port), that show its effect while they have no fault."""
    senders: tuple[str, ...] = ()
    """The hosts in other pods that cause it."""

    @property
    def truths(self) -> tuple[Truth, ...]:
        """Return the rows of the truth file."""
        return tuple(known.truth for known in self.ground_truths)


def truth_at(
    placer: FaultPlacer, condition: Condition, port: int, interval: Interval, tolerance_s: float = EVENT_TOLERANCE_S
) -> Truth:
    """Return the truth of a fault at a port."""
    device, name = placer.port_name(port)
    return Truth(*interval, condition, device, name, tolerance_s)
