"""link/miscabled: a link's ends hear other neighbours (LLDP) than the inventory names.

Opens when it has stood for some minutes, longer after the inventory moved the link; closes when an end hears what it
should again. Silence is no evidence either way: who hears nothing neither opens it nor closes it before a day.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from streams.detect.detectors.link_miscabled.params import MiscabledParams
from streams.detect.evidence.episodes import (
    Conclusion,
    PublishedEpisodes,
    finding_defaults,
    next_final_ns,
    prune,
    reconcile,
)
from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.ids import Port
from streams.fabric.lldp_verdict import NeighborMatch
from streams.fabric.topology import Topology, TopologyLink
from streams.wire.models import (
    CablingReport,
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Severity,
    Source,
    Status,
    Subject,
)

SLUG = "link/miscabled"
VERSION = "1"
_KEEP = 64
"""Words of a link that are kept; an end changes its mind when somebody moves a cable."""

Teller = tuple[str, Source]


@dataclass(slots=True)
class LinkCabling:
    """One link of which an end heard another than it should, and what was said of it."""

    subject: Subject
    reports: list[CablingReport] = field(default_factory=list)
    state: PublishedEpisodes = ()
    forgotten_ns: int = 0
    closing: list[Episode] = field(default_factory=list)
    """What is to be said of a link that is another now."""

    def add(self, word: CablingReport) -> bool:
        """Take a word in; False where it was known."""
        if word in self.reports:
            return False
        insort(self.reports, word, key=_order)
        if len(self.reports) > _KEEP:
            self.forgotten_ns = self.reports.pop(0).at_ns
        return True

    def moved(self, at_ns: int, since_ns: int) -> None:
        """The inventory names another far end: what was heard before is over, but for what was judged by it already.

        `since_ns` is how old that may be.
        """
        self.reports = [word for word in self.reports if word.moved_ns > since_ns]
        over_ns = min((word.at_ns for word in self.reports), default=at_ns)
        for said in self.state:
            found = said.episode.finding
            if not found.final:
                end_ns = found.resolved_at_ns or max(over_ns, found.started_at_ns)
                found = replace(found, status=Status.RESOLVED, resolved_at_ns=end_ns, observed_at_ns=end_ns, final=True)
                self.closing.append(replace(said.episode, finding=found))
        self.state = ()


@dataclass(slots=True)
class _Run:
    """From the first word of another neighbour until an end hears what it should, or nobody hears anything for long."""

    begin_ns: int
    opens_ns: int
    """When it has stood long enough; FOREVER where its witnesses fell silent before that."""
    wrong: dict[Teller, CablingReport] = field(default_factory=dict)
    mute: dict[Teller, int] = field(default_factory=dict)
    end_ns: int = FOREVER

    @property
    def mute_ns(self) -> int:
        """Since when nobody hears anything; FOREVER while somebody does."""
        return max(self.mute.values()) if len(self.mute) == len(self.wrong) else FOREVER


def step(params: DetectParams, own: LinkCabling, topology: Topology, watermark_ns: int) -> tuple[list[Episode], int]:
    """Conclude from what is heard; answers what changed, and the watermark at which to look again."""
    conclusions, due_ns = [], FOREVER
    for run in _runs(params.miscabled, own.reports):
        if run.opens_ns > min(run.end_ns, run.mute_ns):
            continue
        if run.opens_ns > watermark_ns:
            due_ns = min(due_ns, run.opens_ns)
            continue
        final_ns = FOREVER if run.end_ns == FOREVER else run.end_ns + ns(params.lateness_s)
        if run.end_ns == FOREVER and run.mute_ns != FOREVER:
            lost_ns = run.mute_ns + ns(params.miscabled.lost_s)
            if lost_ns > watermark_ns:
                due_ns = min(due_ns, lost_ns)
            else:
                run.end_ns, final_ns = run.mute_ns, lost_ns + ns(params.lateness_s)
        conclusions.append(_conclusion(params, own.subject, topology, run, final_ns))
    own.state, episodes = reconcile(own.state, conclusions, watermark_ns, own.forgotten_ns)
    own.state = prune(own.state, own.reports[0].at_ns if own.reports else watermark_ns)
    episodes, own.closing = [*own.closing, *episodes], []
    return episodes, min(due_ns, next_final_ns(conclusions, watermark_ns))


def is_over(own: LinkCabling, params: DetectParams, watermark_ns: int) -> bool:
    """Nothing is heard that should not be, and nothing can change any more."""
    if any(not said.episode.finding.final for said in own.state):
        return False
    last_ns = own.reports[-1].at_ns if own.reports else 0
    runs = list(_runs(params.miscabled, own.reports))
    return last_ns + ns(params.lateness_s) < watermark_ns and all(
        run.end_ns != FOREVER or run.mute_ns + ns(params.miscabled.lost_s) < watermark_ns for run in runs
    )


def _runs(params: MiscabledParams, words: Sequence[CablingReport]) -> Iterator[_Run]:
    run: _Run | None = None
    for word in words:
        teller = (word.device, word.source)
        if word.neighbor_match is NeighborMatch.UNEXPECTED:
            if run is not None and word.at_ns >= run.mute_ns + ns(params.lost_s):
                yield run
                run = None
            if run is None or (run.mute_ns != FOREVER and run.opens_ns > run.mute_ns):
                run = _Run(word.at_ns, _opens_ns(params, word))  # the first, or its witnesses fell silent too soon
            run.wrong[teller] = word
            run.mute.pop(teller, None)
        elif run is not None and word.neighbor_match is NeighborMatch.EXPECTED:
            run.end_ns = word.at_ns
            yield run
            run = None
        elif run is not None and teller in run.wrong:
            run.mute.setdefault(teller, word.at_ns)
    if run is not None:
        yield run


def _opens_ns(params: MiscabledParams, word: CablingReport) -> int:
    moved_ns = word.moved_ns + ns(params.moved_s) if word.moved_ns else 0
    return max(word.at_ns + ns(params.hold_s), moved_ns)


def _order(word: CablingReport) -> tuple[int, str, str, Source, NeighborMatch, str, str]:
    return (word.at_ns, word.device, word.port, word.source, word.neighbor_match, word.remote_device, word.remote_port)


def _conclusion(params: DetectParams, subject: Subject, topology: Topology, run: _Run, final_ns: int) -> Conclusion:
    over = run.end_ns != FOREVER
    words = sorted(run.wrong.values(), key=_order)
    view = _View(subject, topology, words)
    ends = [end for end in (subject.a, subject.z) if end is not None]
    told = {(word.device, word.port) for word in words}
    missing = tuple(f"{end.device}/{end.port}" for end in ends if (end.device, end.port) not in told)
    finding = Finding(
        **finding_defaults(params, SLUG, VERSION),
        condition=Condition.LINK_MISCABLED,
        severity=Severity.WARNING,
        subject=subject,
        started_at_ns=run.begin_ns,
        observed_at_ns=run.end_ns if over else max(words[-1].at_ns, run.opens_ns),
        resolved_at_ns=run.end_ns if over else None,
        detected_at_ns=run.opens_ns,
        summary=view.summary,
        cause=view.cause,
        evidence=tuple(view.evidence(word, run) for word in words),
        confidence=0.7 if missing else 0.95,
        coverage=Coverage(seen=len(ends) - len(missing), expected=len(ends), missing=missing),
    )
    final_at = None if final_ns == FOREVER else final_ns
    end_ns = run.end_ns - 1 if over else FOREVER
    return Conclusion(run.begin_ns, end_ns, finding, str(run.begin_ns), final_at, related=view.related)


class _View:
    """What the words mean by the inventory."""

    def __init__(self, subject: Subject, topology: Topology, words: Sequence[CablingReport]) -> None:
        self._subject, self._words = subject, words
        self._far = {(word.device, word.port): Port(word.remote_device, word.remote_port) for word in words}
        self._own = topology.link_at(Port(words[0].device, words[0].port))
        self._cables = {port: topology.link_at(port) for port in self._far.values()}
        devices = {port.device for port in self._far.values()} & topology.devices.keys()
        self._plane_of = {name: topology.devices[name].plane for name in devices}
        self.related = tuple(sorted({cable.id for cable in self._cables.values() if cable is not None}))

    @property
    def _swapped(self) -> TopologyLink | None:
        """The link whose ends the ends of this one hear."""
        others = [self._cables[far] for far in self._far.values()]
        first = others[0]
        both = len(self._far) == 2 and len(set(self._far.values())) == 2
        return first if both and first is not None and all(other == first for other in others) else None

    @property
    def cause(self) -> Cause:
        """What went wrong, as far as it can be told."""
        if self._swapped is not None:
            return Cause.CABLES_SWAPPED
        near, far = next(iter(self._far.items()))
        cable, own = self._cables[far], self._own
        if own is None:
            return Cause.WRONG_PORT
        if self._is_wrong_plane(far):
            return Cause.WRONG_PLANE
        if cable is not None and cable.rail is not None and cable.rail != own.rail:
            return Cause.WRONG_RAIL
        right = {own.lower.device, own.upper.device} - {near[0]}
        return Cause.WRONG_PORT if far.device in right else Cause.WRONG_DEVICE

    def _is_wrong_plane(self, far: Port) -> bool:
        plane = self._plane_of.get(far.device)
        own = self._own
        return plane is not None and own is not None and own.plane is not None and plane != own.plane

    @property
    def summary(self) -> str:
        """One line: which cables, or where this one leads."""
        own = _named(self._subject)
        if (other := self._swapped) is not None:
            return f"{own} and {_ends(other)} are swapped"
        near, far = next(iter(self._far.items()))
        cable = self._cables[far]
        taken = f", where {_ends(cable)} should end" if cable is not None else ""
        return f"{own} is miscabled: {near[0]}/{near[1]} leads to {far.device}/{far.port}{taken}"

    def evidence(self, word: CablingReport, run: _Run) -> Evidence:
        """One end's word."""
        near, far = Port(word.device, word.port), Port(word.remote_device, word.remote_port)
        should = self._own.far_end(near) if self._own is not None else None
        cable = self._cables[far]
        more = ""
        if self._own is not None and cable is not None and cable.rail != self._own.rail:
            more = f" (rail {cable.rail} instead of {self._own.rail})"
        if self._is_wrong_plane(far):
            more += f" (plane {self._plane_of[far.device]} instead of {self._own.plane if self._own else None})"
        instead = f" instead of {should.device}/{should.port}" if should is not None else ""
        return Evidence(
            statement=f"{word.device}/{word.port} hears {far.device}/{far.port}{instead}{more}",
            metric="lldp_neighbor",
            at=Endpoint(word.device, word.port),
            peer=Endpoint(word.remote_device, word.remote_port),
            comparison="inventory",
            window_start_ns=word.at_ns,
            window_end_ns=None if run.end_ns == FOREVER else run.end_ns,
        )


def _named(subject: Subject) -> str:
    return " -- ".join(f"{end.device}/{end.port}" for end in (subject.a, subject.z) if end is not None)


def _ends(cable: TopologyLink) -> str:
    return f"{cable.lower.device}/{cable.lower.port} -- {cable.upper.device}/{cable.upper.port}"
