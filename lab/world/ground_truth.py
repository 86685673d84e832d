"""Declares a fault at a place and a time: its effects, the expected findings and their earliest time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from lab.world.effects import Effect, Interval
from lab.world.fabric_arrays import FabricArrays
from streams.fabric.ids import Port
from streams.fabric.inventory_rows import Part
from streams.replay.score import Truth
from streams.wire.models import Condition, Finding

_S = 10**9
LINK_DOWN_AFTER_NS = 30 * _S
"""A link without signal for this long is down (DETECTION 3)."""
CONGESTED_AFTER_NS = 60 * _S
"""Shorter congestion is a burst of a collective operation (DETECTION 3, "Congestion")."""


class Dated(NamedTuple):
    """The tolerance of a start: in a trial, and in the truth file of a world that is read each second."""

    trial_s: float
    file_s: int


BY_EVENT, BY_POLL, BY_WINDOW = Dated(20.0, 15), Dated(40.0, 15), Dated(120.0, 120)
"""Tolerances of starts from events or polls each 10 s, from an agent's last poll, and from minute windows."""
BY_FACTS = Dated(180.0, 3600)
"""The facts that report a change date it; facts are polled each hour if nothing changes."""


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """One truth, and its earliest possible detection.

    If detection needs a report of a link's signal loss, `reported_by` is (lower end of the link, time of the loss), and
    the delay of that report is added.
    """

    truth: Truth
    detectable_from_ns: int
    reported_by: tuple[tuple[str, str], int] | None = None
    devices: tuple[str, ...] = ()
    """The devices of a fault at several devices; a finding names the first that was reported."""
    by_agent: bool = False
    """True if a host agent's last poll dates it; agents poll less often than NICs are read."""
    file_tolerance_s: int = BY_EVENT.file_s
    """The tolerance in the truth file of a world that is read each second."""

    def at_reported_device(self, findings: Iterable[Finding]) -> "GroundTruth":
        """Return the same truth at the device that its finding names."""
        if not self.devices:
            return self
        truth = self.truth
        reported = {
            finding.subject.a.device
            for finding in findings
            if finding.condition is truth.condition
            and finding.subject.a is not None
            and truth.is_during(finding.started_at_ns)
        }
        device = next((device for device in self.devices if device in reported), truth.device)
        return replace(self, truth=replace(truth, device=device))


def known(
    condition: Condition,
    interval: Interval,
    place: tuple[str, str],
    dated: Dated = BY_EVENT,
    *,
    after_ns: int = 0,
    reported_by: tuple[tuple[str, str], int] | None = None,
) -> GroundTruth:
    """Return the truth of a fault at (device, port) that can be detected from `after_ns` after its start."""
    truth = Truth(*interval, condition, *place, dated.trial_s)
    return GroundTruth(truth, interval.start_ns + after_ns, reported_by, file_tolerance_s=dated.file_s)


class PlacedFault(Protocol):
    """A fault at a given place and time, declared once for trials, the demo, the load and tests."""

    def effects(self, fabric: FabricArrays) -> list[Effect]:
        """Return the effects of the fault."""
        ...

    def ground_truths(self) -> list[GroundTruth]:
        """Return the findings of a perfect detector."""
        ...


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One randomly placed fault: its truths and its effects. `kind` names the drawn variant."""

    ground_truths: tuple[GroundTruth, ...]
    effects: tuple[Effect, ...]
    kind: str
    affected: tuple[tuple[str, str], ...] = ()
    """Other ports, as (device, port), that show the effect without a fault."""
    senders: tuple[str, ...] = ()
    """The hosts in other pods that cause it."""
    parts: tuple[Part, ...] = ()
    """The rows of the inventory with the part that its links share."""

    @property
    def truths(self) -> tuple[Truth, ...]:
        """Return the rows of the truth file."""
        return tuple(known.truth for known in self.ground_truths)


AnyFault = PlacedFault | InjectedFault


def injected(
    fault: PlacedFault, fabric: FabricArrays, kind: str, *,
    affected: tuple[Port, ...] = (), senders: tuple[str, ...] = (), parts: tuple[Part, ...] = (),
) -> InjectedFault:  # fmt: skip
    """Return a fault at its place and time with its truths and effects; `kind` names its variant."""
    return InjectedFault(tuple(fault.ground_truths()), tuple(fault.effects(fabric)), kind, affected, senders, parts)


class TruthRow(NamedTuple):
    """A row of a truth file (DESIGN 6); `port` is empty for a device."""

    start: int
    end: int
    condition: str
    device: str
    port: str
    tolerance_s: int


def effects_of(faults: Sequence[AnyFault], fabric: FabricArrays) -> list[Effect]:
    """Return the effects of all faults."""
    return [
        effect
        for fault in faults
        for effect in (fault.effects if isinstance(fault, InjectedFault) else fault.effects(fabric))
    ]


def truth_rows(faults: Sequence[AnyFault]) -> list[TruthRow]:
    """Return the findings of a perfect detector; randomly placed faults have the tolerances of a trial."""
    rows = []
    for fault in faults:
        is_injected = isinstance(fault, InjectedFault)
        for one in fault.ground_truths if isinstance(fault, InjectedFault) else fault.ground_truths():
            tolerance_s = round(one.truth.tolerance_s) if is_injected else one.file_tolerance_s
            truth = one.truth
            condition = truth.condition.name.lower()
            rows.append(TruthRow(truth.start_ns, truth.end_ns, condition, truth.device, truth.port, tolerance_s))
    return rows
