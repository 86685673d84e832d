"""What hurt a job: the findings that stood while it ran and touch its hosts, its links or its paths, the worst first.

A finding that only says that something was not seen hurts nobody: it is for what was not seen.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from streams.report.job.place import Place
from streams.report.job.spans import both, joined, length, touches
from streams.wire.models import Condition, Finding, Severity


@dataclass(frozen=True, slots=True)
class Harm:
    """A finding, for how long of the job it stood, which of its hosts it hit, and what it explains."""

    finding: Finding
    lasted_ns: int
    hosts: tuple[str, ...]
    """Of the job; empty where it is on a path of it."""
    children: tuple["Harm", ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it speaks against the network: what is INFO is for the record."""
        return self.finding.severity >= Severity.WARNING or any(child.counts for child in self.children)


def harms(place: Place, findings: Iterable[Finding]) -> tuple[Harm, ...]:
    """Those that touch the job, parents before what they explain, by severity, hosts hit and time."""
    all_ = {finding.id: finding for finding in findings}
    found = {id_: harm for id_, finding in all_.items() if (harm := _harm(place, finding)) is not None}
    for parent in [all_[h.finding.parent_id] for h in found.values() if h.finding.parent_id in all_]:
        # What explains a harm is said with it, however far from the job it is.
        found.setdefault(parent.id, Harm(parent, 0, ()))
    children: dict[str, list[Harm]] = {}
    for harm in found.values():
        children.setdefault(harm.finding.parent_id, []).append(harm)

    def whole(harm: Harm, above: frozenset[str]) -> Harm:
        inside = above | {harm.finding.id}
        own = [child for child in children.get(harm.finding.id, ()) if child.finding.id not in inside]
        return replace(harm, children=_ordered(whole(child, inside) for child in own))

    roots = [h for h in found.values() if h.finding.parent_id not in found]
    return _ordered(whole(harm, frozenset()) for harm in roots)


def is_blind(finding: Finding) -> bool:
    """Whether it says only that something was not seen."""
    return finding.condition is Condition.TELEMETRY_STALE


def _ordered(harm: Iterable[Harm]) -> tuple[Harm, ...]:
    def worst(one: Harm) -> tuple[int, int, int, int, str]:
        severity = max([one.finding.severity, *(child.finding.severity for child in one.children)])
        return -severity, -len(one.hosts), -one.lasted_ns, one.finding.started_at_ns, one.finding.id

    return tuple(sorted(harm, key=worst))


def _harm(place: Place, finding: Finding) -> Harm | None:
    begin, end = finding.started_at_ns, finding.resolved_at_ns or place.span[1]
    radius = finding.blast_radius
    ends = [end_.device for end_ in (finding.subject.a, finding.subject.z) if end_ is not None]
    named = {*ends, *(radius.hosts if radius else ())}
    hosts = tuple(sorted(host for host in named & place.stays.keys() if touches(place.stays[host], begin, end)))
    there = joined(span for spans in place.stays.values() for span in spans)
    if not touches(there, begin, end):
        return None
    own = radius is not None and place.job in radius.jobs
    if not (own or hosts or _passed(place, finding)):
        return None
    return Harm(finding, length(both([(begin, max(end, begin))], there)), hosts)


def _passed(place: Place, finding: Finding) -> bool:
    subject = finding.subject
    if subject.z is not None:
        return subject.id in place.passed or not place.passed.isdisjoint(subject.former_ids)
    if subject.a is not None:
        # A port without a known link, or a device: a host of somebody else's is on no path.
        return subject.a.device in place.devices
    kind, _, name = subject.id.partition(":")
    return kind == "pod" and name in place.pods
