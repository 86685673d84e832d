"""Finds the leaf or the plane in which NICs retransmit together, on fabrics that spray packets. Pure.

No probe takes the paths of RoCE there, and a QP uses all of them: a path that drops packets costs each host that uses
it some retransmits. Half of the hosts of a job, or of a leaf, retransmit at their port of one plane, and not in most
planes of their rail. If these ports have one leaf in common, it is the leaf; else it is the tiers above, the plane.
A receiver that drains slowly, congestion and a slow host show in all planes, a faulty NIC or cable at one host.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from streams.detect.evidence.episodes import Conclusion, Ledger, evidence_of
from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.subjects import device_subject, plane_subject
from streams.detect.evidence.windows import BadPeriod, Marks, conclude_all, watch_window
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import BlastRadius, Cause, Coverage, Endpoint, Episode, HostRates, Subject

_Cell = tuple[TopologyLink, float]
"""A host's link that retransmits, and its rate as a multiple of the limit."""

METRIC = "local_ack_timeouts"
_HOSTS = 3
"""The fewest hosts of a job or leaf that prove a common path; fewer have a NIC or a cable in common (choice)."""
_WINDOWS = 3
"""Consecutive windows to open, and to close without retransmits, as `[detect.rail]`."""
_NAMED = 8
_MAX_HOSTS = 1024


@dataclass(frozen=True, slots=True)
class RetryMark:
    """One window of a leaf or plane: the hosts that retransmit there, of those of a job or leaf; none if it is good."""

    begin_ns: int
    end_ns: int
    hosts: tuple[str, ...] = ()
    of: int = 0
    groups: tuple[str, ...] = ()
    """The jobs and leaves of which at least half of the hosts retransmit."""
    leaves: tuple[str, ...] = ()
    ratio: float = 0.0
    """The highest rate as a multiple of the limit."""
    has_planes: bool = True
    """False if the rails have one plane, and other leaves are the peers."""

    @property
    def is_bad(self) -> bool:
        return bool(self.hosts)


@dataclass(slots=True)
class RetryState:
    """The incomplete windows with retransmits, and the leaves and planes that are or were bad."""

    windows: dict[str, dict[str, float]] = field(default_factory=dict)
    """Start of the window -> `host` NUL `port` -> the rate as a multiple of the limit."""
    ends_ns: dict[str, int] = field(default_factory=dict)
    places: dict[str, Marks[RetryMark]] = field(default_factory=dict)
    compared_until_ns: int = 0
    due_ns: int = FOREVER


def add_retries(state: RetryState, rates: HostRates) -> None:
    """Add the ports of hosts that retransmit in a window; a window without any matters only to an open finding."""
    if rates.end_ns <= state.compared_until_ns or not (rates.retry_port or state.places):
        return
    key = str(rates.begin_ns)
    state.ends_ns[key] = rates.end_ns
    known = state.windows.setdefault(key, {})
    for place, port, ratio in zip(rates.retry_host, rates.retry_port, rates.retry_ratio, strict=True):
        name = f"{rates.host[place]}\0{port}"
        known[name] = max(known.get(name, 0.0), ratio)


def evaluate_retries(ledger: Ledger, state: RetryState, topology: Topology) -> list[Episode]:
    """Compare the complete windows, and conclude on every leaf and plane that was bad."""
    settings, watermark_ns = ledger.settings, ledger.watermark_ns
    lateness_ns = ns(settings.lateness_s)
    complete = [begin for begin, end_ns in state.ends_ns.items() if end_ns + lateness_ns <= watermark_ns]
    if not complete and watermark_ns < state.due_ns:
        return []
    for begin in sorted(complete, key=int):
        span = int(begin), state.ends_ns.pop(begin)
        state.compared_until_ns = max(state.compared_until_ns, span[1])
        found = {subject.id: (subject, mark) for subject, mark in _bad(topology, span, state.windows.pop(begin))}
        for key in state.places.keys() | found.keys():
            subject, mark = found.get(key, (None, RetryMark(*span)))
            own = state.places.get(key) or Marks(subject)  # type: ignore[arg-type]  # one of the two has it
            state.places[key] = own.with_marks((*own.marks, mark))
    state.places = dict(sorted(state.places.items()))
    watch = watch_window(settings, watermark_ns, is_read=True)

    def conclude(own: Marks[RetryMark]) -> tuple[Marks[RetryMark], list[Episode], int]:
        return own.conclude(
            ledger, watch, lambda bad: len(bad) >= _WINDOWS, _WINDOWS, _worst,
            lambda subject, period: _conclusion(settings.lateness_s, topology, subject, period),
        )  # fmt: skip

    episodes, due_ns = conclude_all(state.places, conclude)
    state.due_ns = min((due_ns, *(end_ns + lateness_ns for end_ns in state.ends_ns.values())))
    return episodes


def _bad(
    topology: Topology, span: tuple[int, int], retries: Mapping[str, float]
) -> Iterator[tuple[Subject, RetryMark]]:
    """Yield the leaves and planes that are bad in a window."""
    by_plane: dict[int | None, dict[str, list[_Cell]]] = defaultdict(lambda: defaultdict(list))
    for link, ratio in _of_few_planes(topology, retries):
        by_plane[link.plane][link.lower.device].append((link, ratio))
    for plane, of_host in by_plane.items():
        groups = {
            group: members
            for group, members in _groups(topology, of_host, span[0]).items()
            if len(members & of_host.keys()) >= max(_HOSTS, len(members) / 2)
        }
        if not groups:
            continue
        compared = frozenset().union(*groups.values())
        hosts = compared & of_host.keys()
        cells = [cell for host in hosts for cell in of_host[host]]
        leaves = sorted({link.upper.device for link, _ in cells})
        has_planes = any(len(topology.rail_links(link)) > 1 for link, _ in cells)
        mark = RetryMark(
            *span, tuple(sorted(hosts)), len(compared), tuple(sorted(groups)), tuple(leaves),
            max(ratio for _, ratio in cells), has_planes,
        )  # fmt: skip
        if len(leaves) == 1 and (has_planes or _has_healthy_members(topology, hosts, span[0])):
            yield device_subject(topology, leaves[0]), mark
        elif len(leaves) > 1 and plane is not None and has_planes:
            yield plane_subject(plane), mark


def _of_few_planes(topology: Topology, retries: Mapping[str, float]) -> Iterator[_Cell]:
    """Yield the host links that retransmit, without rails that do so in more than half of their planes."""
    found: dict[str, _Cell] = {}
    for name, ratio in retries.items():
        link = topology.link_at(Port(*name.split("\0", 1)))
        if link is not None and link.rail is not None:
            found[link.id] = link, ratio
    for link, ratio in found.values():
        rail = topology.rail_links(link)
        if len(rail) < 2 or 2 * sum(one.id in found for one in rail) <= len(rail):
            yield link, ratio


def _groups(topology: Topology, of_host: Mapping[str, Sequence[_Cell]], at_ns: int) -> dict[str, frozenset[str]]:
    """Return the hosts that are compared: those of each job, and those below each leaf that carry a job."""
    jobs = topology.jobs_on(of_host, at_ns)
    groups = {f"job {job}": frozenset(topology.placement.hosts_of(job, at_ns)) for job in jobs}
    for leaf in {link.upper.device for cells in of_host.values() for link, _ in cells}:
        below = {link.lower.device for link in topology.links_of.get(leaf, ()) if link.upper.device == leaf}
        groups[leaf] = frozenset(host for host in below if not topology.jobs or topology.jobs_on([host], at_ns))
    return groups


def _has_healthy_members(topology: Topology, hosts: Collection[str], at_ns: int) -> bool:
    """Return whether their jobs have hosts that do not retransmit: without planes, these show that load is no cause."""
    members = {one for job in topology.jobs_on(hosts, at_ns) for one in topology.placement.hosts_of(job, at_ns)}
    return len(members.difference(hosts)) >= _HOSTS


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if names[_NAMED:] else "")


def _worst(bad: Sequence[RetryMark]) -> RetryMark:
    return max(bad, key=lambda mark: (len(mark.hosts), mark.ratio, -mark.begin_ns))


def _conclusion(lateness_s: float, topology: Topology, subject: Subject, period: BadPeriod[RetryMark]) -> Conclusion:
    """Return the episode of a bad period."""
    bad, ended_at_ns = period.bad, period.ended_at_ns
    span = begin_ns, end_ns = bad[0].begin_ns, bad[-1].end_ns
    worst = _worst(bad)
    is_plane = subject.a is None
    place = f"plane {subject.plane}" if is_plane else subject.id.partition(":")[2]
    others = "not in most planes of their rails" if worst.has_planes else "unlike other leaves"
    return Conclusion(
        subject, begin_ns, end_ns, opened_ns=bad[_WINDOWS - 1].end_ns + ns(lateness_s), seen_ns=end_ns,
        resolved_ns=None if ended_at_ns is None else end_ns, over_ns=ended_at_ns or FOREVER,
        summary=f"NICs of {len(worst.hosts)} of {worst.of} hosts retransmit {'in' if is_plane else 'below'} {place},"
        f" {others}: packets are sprayed, and a path there loses some",
        cause=Cause.PLANE if is_plane else Cause.SWITCH,
        evidence=(
            evidence_of(
                f"{len(worst.hosts)} of {worst.of} hosts of {_list(worst.groups)} retransmit at their ports of {place}:"
                f" {_list(worst.hosts)}",
                METRIC, Endpoint(worst.hosts[0]), span, float(len(worst.hosts)), worst.of / 2, "peers", worst.of,
            ),
            evidence_of(
                f"up to {worst.ratio:.1f} times the limit of rail/degraded a port, below {len(worst.leaves)}"
                f" leaf{'' if len(worst.leaves) == 1 else ' switches'}: {_list(worst.leaves)}",
                METRIC, Endpoint(worst.leaves[0]), span, worst.ratio, 1.0,
            ),
        ),
        confidence=0.7,
        coverage=Coverage(seen=worst.of, expected=worst.of),
        anchor=f"retries {begin_ns}",
        blast_radius=BlastRadius(worst.hosts[:_MAX_HOSTS], topology.jobs_between(worst.hosts, begin_ns, end_ns)),
    )  # fmt: skip
