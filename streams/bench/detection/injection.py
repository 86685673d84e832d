"""One fault of the trial: what there is to find, and what happens."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from streams.bench.detection.effects import Effect, Span
from streams.bench.detection.places import Places
from streams.replay.score import Truth
from streams.wire.models import Condition, Finding

EXACT_S, READ_S, MINUTES_S = 20.0, 40.0, 120.0
"""What events or readings of each 10 s date, what the last reading of an agent does, and what minutes do."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a perfect detector would find, and from when on it can be known.

    Where that takes a report of a link's signal, `reported` is (the link, when it went): as much later as that comes.
    """

    truth: Truth
    complete_ns: int
    reported: tuple[int, int] | None = None
    devices: tuple[str, ...] = ()
    """Where it is at several at once; a finding names the one that was told first."""

    def named(self, findings: Iterable[Finding]) -> "Known":
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
class Injection:
    """One fault: what there is to find, and what happens."""

    known: tuple[Known, ...]
    effects: tuple[Effect, ...]
    kind: str

    @property
    def truths(self) -> tuple[Truth, ...]:
        """Without when they can be known."""
        return tuple(known.truth for known in self.known)


Make = Callable[[Places, Span], Injection]


def truth_at(places: Places, condition: Condition, port: int, span: Span, tolerance_s: float = EXACT_S) -> Truth:
    """Of a port."""
    device, name = places.name(port)
    return Truth(span.start_ns, span.end_ns, condition, device, name, tolerance_s)
