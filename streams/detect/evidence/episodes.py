"""Reconciles the conclusions of a detector with its published episodes.

A detector concludes from all retained observations. `Ledger.reconcile` gives each conclusion an id, keeps the id for
the whole episode, and returns only changes: OPEN, UPDATED, RESOLVED, RETRACTED, the final revision.
"""

from collections.abc import Iterable, Sized
from dataclasses import dataclass, replace
from typing import NamedTuple

from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.revisions import MINUTE_NS, revision_due_ns
from streams.detect.thresholds import ns
from streams.fabric.ids import finding_id
from streams.fabric.intervals import Interval
from streams.wire.models import (
    BlastRadius,
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Episode,
    Evidence,
    Finding,
    Forecast,
    Severity,
    Status,
    Subject,
)

BOTH_ENDS, ONE_END = 0.95, 0.6
"""The confidence of a finding that both ends of the link show, or one end. Our own numbers, so that a reader can
distinguish the two cases."""


def confidence_of(reporters: Sized) -> float:
    """Return the confidence in a conclusion from these ends of a link."""
    return BOTH_ENDS if len(reporters) > 1 else ONE_END


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One episode by the present observations, without the fields of its detector's descriptor.

    `begin_ns` and `end_ns` are the interval of its evidence; conclusions that overlap are one episode.
    """

    subject: Subject
    begin_ns: int
    end_ns: int
    opened_ns: int
    """The earliest time of its detection."""
    seen_ns: int
    """The time of the newest observation."""
    resolved_ns: int | None
    """The time of its end; None while it is open."""
    over_ns: int
    """The watermark from which nothing can continue it; FOREVER while it lasts. It is final after the lateness."""
    summary: str
    cause: Cause
    evidence: Iterable[Evidence]
    confidence: float
    coverage: Coverage | None = None
    severity: Severity = Severity.WARNING
    started_ns: int | None = None
    """None means the start of the evidence."""
    anchor: str = ""
    """Names the episode in its id; empty means the start of the evidence."""
    down_at_ns: tuple[int, ...] = ()
    related: tuple[str, ...] = ()
    blast_radius: BlastRadius | None = None
    forecast: Forecast | None = None


@dataclass(frozen=True, slots=True)
class PublishedEpisode:
    """An episode as last published, with the interval of its evidence at that time."""

    begin_ns: int
    end_ns: int
    episode: Episode
    published_ns: int = 0
    """The watermark of the last revision."""

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether its evidence overlaps an interval, so that both are one episode."""
        return self.begin_ns <= end_ns and begin_ns <= self.end_ns


PublishedEpisodes = tuple[PublishedEpisode, ...]


class Reconciled(NamedTuple):
    """The published episodes, the changed ones (revision 0), and the watermark at which one changes with time."""

    published: PublishedEpisodes
    episodes: list[Episode]
    due_ns: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Publishes the episodes of one detector at one watermark."""

    condition: Condition
    version: str
    settings: SharedSettings
    watermark_ns: int

    def reconcile(
        self, published: PublishedEpisodes, conclusions: Iterable[Conclusion], pruned_until_ns: int = 0
    ) -> Reconciled:
        """Match conclusions with published episodes.

        An episode keeps its start if its first observations were pruned, up to `pruned_until_ns`. A final episode that
        was never published is then ignored, because a pruned observation, such as an administrative down, may excuse
        it. Conclusions from the evidence of a final episode are ignored too, however many it was divided into.
        """
        finals = [known for known in published if known.episode.finding.final]
        unmatched = [known for known in published if not known.episode.finding.final]
        result = list(finals)
        out: list[Episode] = []
        due_ns = FOREVER
        for one in conclusions:
            begin_ns, finding = one.begin_ns, self.finding(one)
            times_ns = [one.over_ns, self._final_ns(one)]
            known = next((s for s in unmatched if s.overlaps(one.begin_ns, one.end_ns)), None)
            if known is None:
                is_known = any(s.overlaps(one.begin_ns, one.end_ns) for s in finals)
                if is_known or (one.begin_ns <= pruned_until_ns and finding.final):
                    continue
                episode = _episode(None, one, finding)
                out.append(episode)
                result.append(PublishedEpisode(begin_ns, one.end_ns, episode, self.watermark_ns))
            else:
                unmatched.remove(known)
                if known.begin_ns <= pruned_until_ns:
                    begin_ns, finding = min(known.begin_ns, one.begin_ns), _as_begun(known.episode.finding, finding)
                episode, last, at_ns = _episode(known, one, finding), known.episode, known.published_ns
                if _differs(episode, last) and (revision_ns := _revision_ns(last, episode, at_ns)) > self.watermark_ns:
                    times_ns.append(revision_ns)
                elif _differs(episode, last):
                    last, at_ns = _updated(episode), self.watermark_ns
                    out.append(last)
                result.append(PublishedEpisode(begin_ns, one.end_ns, last, at_ns))
            due_ns = min([due_ns, *(at_ns for at_ns in times_ns if at_ns > self.watermark_ns)])
        out += [_retracted(known.episode) for known in unmatched]
        return Reconciled(tuple(result), out, due_ns)

    def _final_ns(self, one: Conclusion) -> int:
        return FOREVER if one.over_ns == FOREVER else one.over_ns + ns(self.settings.lateness_s)

    def finding(self, one: Conclusion) -> Finding:
        """Return the finding of a conclusion, without an id."""
        slug = self.condition.slug
        return Finding(
            "", 0, self._final_ns(one) <= self.watermark_ns, self.condition, Status.OPEN, one.severity, one.subject,
            one.begin_ns if one.started_ns is None else one.started_ns, one.seen_ns, one.resolved_ns, one.opened_ns,
            summary=one.summary, cause=one.cause, evidence=tuple(one.evidence), confidence=one.confidence,
            coverage=one.coverage, blast_radius=one.blast_radius, forecast=one.forecast, detector=slug,
            detector_version=self.version, settings_digest=self.settings.digest,
        )  # fmt: skip


def evidence_of(
    statement: str, metric: str, at: Endpoint | None, span: tuple[int, int | None], observed: float | None = None,
    expected: float | None = None, comparison: str = "threshold", peers: int | None = None,
) -> Evidence:  # fmt: skip
    """Return a line of evidence for the time `span`."""
    return Evidence(
        statement, metric, at, observed=observed, expected=expected, comparison=comparison, peers=peers,
        window_start_ns=span[0], window_end_ns=span[1],
    )  # fmt: skip


def has_open(state: PublishedEpisodes) -> bool:
    """Return whether any published episode can still change."""
    return any(not known.episode.finding.final for known in state)


def open_intervals(state: PublishedEpisodes) -> list[Interval]:
    """Return the evidence intervals of the episodes that can still change, ends included."""
    return [(known.begin_ns, known.end_ns) for known in state if not known.episode.finding.final]


def prune(state: PublishedEpisodes, before_ns: int) -> PublishedEpisodes:
    """Drop final episodes whose evidence is older than all retained observations."""
    return tuple(known for known in state if known.end_ns >= before_ns or not known.episode.finding.final)


def _as_begun(before: Finding, now: Finding) -> Finding:
    return replace(
        now,
        started_at_ns=min(before.started_at_ns, now.started_at_ns),
        detected_at_ns=min(before.detected_at_ns or before.started_at_ns, now.detected_at_ns or now.started_at_ns),
    )


def _episode(known: PublishedEpisode | None, one: Conclusion, fresh: Finding) -> Episode:
    """Return the conclusion with the id and subject of its episode, and its status if nothing else changed."""
    if known is None:
        identity = finding_id(fresh.detector, fresh.subject.id, one.anchor or str(one.begin_ns))
        subject, status = fresh.subject, Status.OPEN
    else:
        before = known.episode.finding
        identity, subject, status = before.id, before.subject, before.status
    if fresh.resolved_at_ns is not None:
        status = Status.RESOLVED
    elif status is Status.RESOLVED:
        status = Status.UPDATED
    return Episode(replace(fresh, id=identity, subject=subject, status=status), one.down_at_ns, one.related)


def _differs(episode: Episode, known: Episode) -> bool:
    """Return whether more than the last observation's time changed; the final revision has its last value."""
    was = replace(known.finding, observed_at_ns=episode.finding.observed_at_ns)
    return episode != replace(known, finding=was)


def _revision_ns(known: Episode, episode: Episode, published_ns: int) -> int:
    """Return the watermark of the next revision; `attribute` receives further downs of an episode within a minute."""
    due_ns = revision_due_ns(known.finding, episode.finding, published_ns)
    is_same = (known.down_at_ns, known.related) == (episode.down_at_ns, episode.related)
    return due_ns if is_same else min(due_ns, published_ns + MINUTE_NS)


def _updated(episode: Episode) -> Episode:
    if episode.finding.status is not Status.OPEN:
        return episode
    return replace(episode, finding=replace(episode.finding, status=Status.UPDATED))


def _retracted(episode: Episode) -> Episode:
    return replace(episode, finding=replace(episode.finding, status=Status.RETRACTED, final=False))
