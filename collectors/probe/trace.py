"""Traces the paths of flows by TTL on their own 5-tuples, forward and back, within a rate for each rail. Pure.

A hop that does not answer is unknown, not lost. A path that was traced before a loss is retained: the trace after the
loss shows how far packets get now.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

_TRIES = 3
"""Consecutive traces of a path with silent hops: switches limit the ICMP errors that they send."""
_ANSWER_S = 2.0
"""Answers that arrive later are ignored."""


@dataclass(slots=True)
class TracedPath:
    """The traced path of one direction of a flow."""

    hops: tuple[str, ...] = ()
    """Addresses of the last trace that reached the target; empty for a silent hop. No hops: not traced yet."""
    reach: int | None = None
    """After a loss: the number of hops to the last one that answered the newest trace; None without such a trace."""
    reached_target: bool = False
    """True if the newest trace reached the target."""
    _answers: dict[int, str] = field(default_factory=dict)
    _arrived_from: int = 0
    """The lowest TTL that reached the target in the running trace."""

    def begin(self) -> None:
        """Start a trace."""
        self._answers, self._arrived_from = {}, 0

    def answered(self, ttl: int, address: str) -> None:
        """Record the address of the hop at a TTL."""
        self._answers.setdefault(ttl, address)

    def arrived(self, ttl: int) -> None:
        """Record that a packet with this TTL reached the target."""
        if not self._arrived_from or ttl < self._arrived_from:
            self._arrived_from = ttl

    def end(self, *, after_loss: bool) -> None:
        """Conclude the running trace. If it did not reach the target, the known path is retained."""
        self.reached_target = bool(self._arrived_from)
        if self._arrived_from:
            length = self._arrived_from - 1
            hops = tuple(self._answers.get(ttl, "") for ttl in range(1, length + 1))
            if len(hops) == len(self.hops):
                # A hop that is silent now had answered before; a different answer shows a different path.
                is_same = all(not one or not known or one == known for one, known in zip(hops, self.hops, strict=True))
                if is_same:
                    hops = tuple(one or known for one, known in zip(hops, self.hops, strict=True))
            self.hops = hops
        self.reach = max((ttl for ttl in self._answers), default=0) if after_loss else None
        if after_loss and self.reached_target:
            self.reach = len(self.hops)

    @property
    def is_complete(self) -> bool:
        """Return True if every hop is known."""
        return self.reached_target and all(self.hops)


@dataclass(slots=True)
class FlowTrace:
    """The traces of both directions of a flow, and the time of the next one."""

    forward: TracedPath = field(default_factory=TracedPath)
    back: TracedPath = field(default_factory=TracedPath)
    due_s: float = 0.0
    tries: int = 0
    is_urgent: bool = False
    """True if the flow's probes are lost."""
    begun_s: float | None = None
    after_loss: bool = False

    def request_urgent(self, now_s: float) -> None:
        """Request a trace as soon as the rate permits, because probes are lost."""
        if not self.is_urgent and self.begun_s is None:
            self.is_urgent, self.tries = True, 0
            self.due_s = now_s

    def begin(self, now_s: float) -> None:
        """Start both traces."""
        self.begun_s, self.after_loss = now_s, self.is_urgent
        self.forward.begin()
        self.back.begin()

    def end_if_over(self, now_s: float, every_s: float) -> None:
        """Conclude traces whose answers have timed out, and schedule the next."""
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
        """Reset `reach`, because the flow has replies again."""
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
