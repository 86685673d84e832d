"""Traces the paths of flows by TTL on their own 5-tuples, forward and back, within a rate for each rail. Pure.

A hop that does not answer is unknown, not lost. A path that was traced before a loss stays: the trace after it shows
how far packets get now.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

_TRIES = 3
"""Traces in a row of a path with silent hops: switches limit the ICMP errors that they send."""
_ANSWER_S = 2.0
"""Answers to a trace that come later belong to none."""


@dataclass(slots=True)
class TracedPath:
    """One direction of a flow."""

    hops: tuple[str, ...] = ()
    """Addresses of the last trace that reached the target; empty where a hop is silent. No hops: not traced yet."""
    reach: int | None = None
    """After a loss: the number of hops up to the last that answered the newest trace; None where none was made."""
    reached_target: bool = False
    """The newest trace reached it."""
    _answers: dict[int, str] = field(default_factory=dict)
    _arrived_from: int = 0
    """The lowest TTL that reached the target in the running trace."""

    def begin(self) -> None:
        """Begin a trace."""
        self._answers, self._arrived_from = {}, 0

    def answered(self, ttl: int, address: str) -> None:
        """Add the hop at a TTL."""
        self._answers.setdefault(ttl, address)

    def arrived(self, ttl: int) -> None:
        """Add that a packet with this TTL reached the target."""
        if not self._arrived_from or ttl < self._arrived_from:
            self._arrived_from = ttl

    def end(self, *, after_loss: bool) -> None:
        """Conclude the running trace. Unless it reached the target, the known path stays."""
        self.reached_target = bool(self._arrived_from)
        if self._arrived_from:
            length = self._arrived_from - 1
            hops = tuple(self._answers.get(ttl, "") for ttl in range(1, length + 1))
            if len(hops) == len(self.hops):
                # A hop that was silent now had answered before; another that answers shows another path.
                is_same = all(not one or not known or one == known for one, known in zip(hops, self.hops, strict=True))
                if is_same:
                    hops = tuple(one or known for one, known in zip(hops, self.hops, strict=True))
            self.hops = hops
        self.reach = max((ttl for ttl in self._answers), default=0) if after_loss else None
        if after_loss and self.reached_target:
            self.reach = len(self.hops)

    @property
    def is_complete(self) -> bool:
        """Return whether every hop is known."""
        return self.reached_target and all(self.hops)


@dataclass(slots=True)
class FlowTrace:
    """Both directions of a flow, and when it is traced next."""

    forward: TracedPath = field(default_factory=TracedPath)
    back: TracedPath = field(default_factory=TracedPath)
    due_s: float = 0.0
    tries: int = 0
    is_urgent: bool = False
    """Its probes are lost."""
    begun_s: float | None = None
    after_loss: bool = False

    def request_urgent(self, now_s: float) -> None:
        """Trace as soon as the rate permits, because probes are lost."""
        if not self.is_urgent and self.begun_s is None:
            self.is_urgent, self.tries = True, 0
            self.due_s = now_s

    def begin(self, now_s: float) -> None:
        """Begin both traces."""
        self.begun_s, self.after_loss = now_s, self.is_urgent
        self.forward.begin()
        self.back.begin()

    def end_if_over(self, now_s: float, every_s: float) -> None:
        """Conclude traces whose answers had time to come, and schedule the next."""
        if self.begun_s is None or now_s - self.begun_s < _ANSWER_S:
            return
        self.begun_s = None
        self.forward.end(after_loss=self.after_loss)
        self.back.end(after_loss=self.after_loss)
        self.tries += 1
        if self.after_loss or ((self.forward.is_complete and self.back.is_complete) or self.tries >= _TRIES):
            self.tries, self.due_s, self.is_urgent = 0, now_s + every_s, False
        else:
            self.due_s = now_s

    def recovered(self) -> None:
        """Forget how far packets got while the flow had no replies."""
        self.forward.reach = self.back.reach = None


def next_turns(traces: Iterable[tuple[int, str, FlowTrace]], now_s: float) -> list[int]:
    """Return at most one flow of each rail to trace now, urgent ones first."""
    best: dict[str, tuple[bool, float, int]] = {}
    for flow, rail, trace in traces:
        if trace.begun_s is None and trace.due_s <= now_s:
            order = (not trace.is_urgent, trace.due_s, flow)
            if rail not in best or order < best[rail]:
                best[rail] = order
    return [flow for _, _, flow in best.values()]
