"""Records isolations: targets that are out of service, and the history that rates, budgets and cool-downs count.

A target counts from the decision until its restore is complete, because reports of automation can be lost. No answer
removes an entry of the history, so a FAILED result does not shorten a cool-down.
"""

from dataclasses import dataclass, field
from enum import StrEnum

WEEK_S = 604_800
"""The history of a target is retained for a week, the longest interval of a budget (UFM: two resets a week)."""


class TargetKind(StrEnum):
    """The kind of a target; a relative cap counts the targets of one kind."""

    LINK = "link"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Isolation:
    """One target that is out of service."""

    kind: TargetKind
    pod: str
    since_ns: int


@dataclass(slots=True)
class Isolations:
    """All isolations and their history; plain values, stored in the snapshot."""

    active: dict[str, Isolation] = field(default_factory=dict)
    """Target id -> its isolation, from the decision until the restore."""
    started_ns: dict[str, list[int]] = field(default_factory=dict)
    """Target id -> the times of its isolations."""
    resets_ns: dict[str, list[int]] = field(default_factory=dict)
    """Target id -> the times of its NIC resets."""
    changed_ns: dict[str, int] = field(default_factory=dict)
    """Target id -> the time of its last isolation, reset or restore."""
    version: int = 0
    """Increases when a target is isolated or restored, so that readers can cache results."""

    def isolate(self, target: str, kind: TargetKind, pod: str, at_ns: int) -> None:
        """Record that a target is taken out of service; no effect if it already is."""
        if target not in self.active:
            self.active[target] = Isolation(kind, pod, at_ns)
            self.version += 1
            self.started_ns.setdefault(target, []).append(at_ns)
        self._change(target, at_ns)

    def reset(self, target: str, at_ns: int) -> None:
        """Record a NIC reset."""
        self.resets_ns.setdefault(target, []).append(at_ns)
        self._change(target, at_ns)

    def restored(self, target: str, at_ns: int) -> None:
        """Record that a target is back in service; the history remains."""
        if self.active.pop(target, None) is not None:
            self.version += 1
            self._change(target, at_ns)

    def count(self, kind: TargetKind | None = None, pod: str | None = None, without: str = "") -> int:
        """Return the number of isolated targets, optionally of one kind or one pod and without one target."""
        return sum(
            (kind is None or isolation.kind == kind) and (pod is None or isolation.pod == pod)
            for target, isolation in self.active.items()
            if target != without
        )

    def count_started(self, after_ns: int, target: str | None = None) -> int:
        """Return the number of isolations that started after a time, of one target or of all targets."""
        return _count_after(self.started_ns, after_ns, target)

    def count_resets(self, after_ns: int, target: str | None = None) -> int:
        """Return the number of NIC resets after a time, of one target or of all targets."""
        return _count_after(self.resets_ns, after_ns, target)

    def prune(self, now_ns: int) -> None:
        """Evict history that is older than a week."""
        oldest_ns = now_ns - WEEK_S * 1_000_000_000
        for history in (self.started_ns, self.resets_ns):
            for target, times in list(history.items()):
                retained = [at_ns for at_ns in times if at_ns > oldest_ns]
                if retained:
                    history[target] = retained
                else:
                    del history[target]
        for target, at_ns in list(self.changed_ns.items()):
            if at_ns <= oldest_ns:
                del self.changed_ns[target]

    def _change(self, target: str, at_ns: int) -> None:
        self.changed_ns[target] = max(at_ns, self.changed_ns.get(target, at_ns))


def _count_after(history: dict[str, list[int]], after_ns: int, target: str | None) -> int:
    selected = history.values() if target is None else (history.get(target, []),)
    return sum(at_ns > after_ns for times in selected for at_ns in times)
