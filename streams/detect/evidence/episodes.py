"""Reconciles the conclusions of a detector with the episodes that it has published.

A detector concludes from all observations that are retained; `reconcile` gives each conclusion an id, keeps the id for
the life of the episode, and returns only what changed: OPEN, UPDATED, RESOLVED, RETRACTED, and the final revision.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from streams.detect.evidence.link_history import FOREVER
from streams.detect.evidence.params import SharedSettings
from streams.fabric.ids import finding_id
from streams.wire.models import Episode, Finding, Status


class FindingDefaults(TypedDict):
    """The fields that all unpublished findings of a detector share."""

    id: str
    revision: int
    final: bool
    status: Status
    detector: str
    detector_version: str
    settings_digest: str


def finding_defaults(settings: SharedSettings, slug: str, version: str) -> FindingDefaults:
    """Return the fields of a `Finding(...)` that its detector does not conclude; `reconcile` sets id and status."""
    return {
        "id": "", "revision": 0, "final": False, "status": Status.OPEN,
        "detector": slug, "detector_version": version, "settings_digest": settings.digest,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conclusion:
    """One episode as the observations show it now.

    `begin_ns` and `end_ns` are the interval of its evidence: conclusions that overlap are one episode. `finding` has
    no id, revision or status yet. It is final once the watermark passes `final_at_ns` (None: it is not over).
    """

    begin_ns: int
    end_ns: int
    finding: Finding
    anchor: str
    final_at_ns: int | None = None
    down_at_ns: tuple[int, ...] = ()
    related: tuple[str, ...] = ()
    is_continuous: bool = False
    """The evidence lasts: that its end alone is later needs no revision before the final one."""


@dataclass(frozen=True, slots=True)
class PublishedEpisode:
    """An episode as it was last published, with the interval of its evidence then."""

    begin_ns: int
    end_ns: int
    episode: Episode

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether its evidence overlaps an interval: then they are one episode."""
        return self.begin_ns <= end_ns and begin_ns <= self.end_ns


PublishedEpisodes = tuple[PublishedEpisode, ...]


def reconcile(
    state: PublishedEpisodes, conclusions: Iterable[Conclusion], watermark_ns: int, pruned_until_ns: int = 0
) -> tuple[PublishedEpisodes, list[Episode]]:
    """Match conclusions with published episodes; return the new state and the episodes to publish (revision 0).

    An episode that began with observations which were pruned since, up to `pruned_until_ns`, keeps its beginning. One
    that is final and was never published is ignored then: an observation that excuses it, such as an administrative
    down, may be among the pruned ones.
    """
    unmatched = list(state)
    result: list[PublishedEpisode] = []
    out: list[Episode] = []
    for conclusion in conclusions:
        known = next((s for s in unmatched if s.overlaps(conclusion.begin_ns, conclusion.end_ns)), None)
        if known is None and conclusion.begin_ns <= pruned_until_ns and _is_final(conclusion, watermark_ns):
            continue
        if known is not None:
            unmatched.remove(known)
            if known.episode.finding.final:
                result.append(known)  # final: observations beyond the lateness change nothing
                continue
            if known.begin_ns <= pruned_until_ns:
                conclusion = _as_begun(known, conclusion)  # noqa: PLW2901 — the same conclusion, dated as it was
        episode = _episode(known, conclusion, watermark_ns)
        if known is None or _differs(episode, known.episode, is_continuous=conclusion.is_continuous):
            episode = _opened_or_updated(known, episode)
            out.append(episode)
        else:
            episode = known.episode
        result.append(PublishedEpisode(conclusion.begin_ns, conclusion.end_ns, episode))
    for known in unmatched:
        if known.episode.finding.final:
            result.append(known)
        else:
            out.append(_retracted(known.episode))
    return tuple(result), out


def _as_begun(known: PublishedEpisode, conclusion: Conclusion) -> Conclusion:
    before, now = known.episode.finding, conclusion.finding
    finding = replace(
        now,
        started_at_ns=min(before.started_at_ns, now.started_at_ns),
        detected_at_ns=min(before.detected_at_ns or before.started_at_ns, now.detected_at_ns or now.started_at_ns),
    )
    return replace(conclusion, begin_ns=min(known.begin_ns, conclusion.begin_ns), finding=finding)


def has_open(state: PublishedEpisodes) -> bool:
    """Return whether any published episode can still change."""
    return any(not known.episode.finding.final for known in state)


def open_intervals(state: PublishedEpisodes) -> list[tuple[int, int]]:
    """Return the evidence of the episodes that can still change, ends included."""
    return [(known.begin_ns, known.end_ns) for known in state if not known.episode.finding.final]


def prune(state: PublishedEpisodes, before_ns: int) -> PublishedEpisodes:
    """Drop final episodes whose evidence is older than all that is retained."""
    return tuple(known for known in state if known.end_ns >= before_ns or not known.episode.finding.final)


def _is_final(conclusion: Conclusion, watermark_ns: int) -> bool:
    return conclusion.final_at_ns is not None and conclusion.final_at_ns <= watermark_ns


def _episode(known: PublishedEpisode | None, conclusion: Conclusion, watermark_ns: int) -> Episode:
    """Return the conclusion with the id and subject of its episode, and its status if nothing else changed."""
    fresh = conclusion.finding
    final = _is_final(conclusion, watermark_ns)
    if known is None:
        identity, subject, status = (
            finding_id(fresh.detector, fresh.subject.id, conclusion.anchor),
            fresh.subject,
            Status.OPEN,
        )
    else:
        before = known.episode.finding
        identity, subject, status = before.id, before.subject, before.status
    if fresh.resolved_at_ns is not None:
        status = Status.RESOLVED
    elif status is Status.RESOLVED:
        status = Status.UPDATED
    whole = replace(fresh, id=identity, subject=subject, status=status, final=final)
    return Episode(whole, conclusion.down_at_ns, conclusion.related)


def _differs(episode: Episode, known: Episode, *, is_continuous: bool) -> bool:
    """Return whether more than the time of the last observation changed; the final revision has its last value."""
    now, last = episode.finding, known.finding
    evidence = last.evidence
    if is_continuous and len(evidence) == len(now.evidence):
        evidence = tuple(
            replace(was, window_end_ns=one.window_end_ns) for was, one in zip(evidence, now.evidence, strict=True)
        )
    return now != replace(last, observed_at_ns=now.observed_at_ns, evidence=evidence)


def _opened_or_updated(known: PublishedEpisode | None, episode: Episode) -> Episode:
    if known is None or episode.finding.status is not Status.OPEN:
        return episode
    return replace(episode, finding=replace(episode.finding, status=Status.UPDATED))


def _retracted(episode: Episode) -> Episode:
    return replace(episode, finding=replace(episode.finding, status=Status.RETRACTED, final=False))


def next_final_ns(conclusions: Sequence[Conclusion], watermark_ns: int) -> int:
    """Return the watermark at which the next of them becomes final; FOREVER if none will."""
    due = (c.final_at_ns for c in conclusions if c.final_at_ns is not None and c.final_at_ns > watermark_ns)
    return min(due, default=FOREVER)
