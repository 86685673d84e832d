"""Episodes: what was said of a subject, against what the observations say now.

A detector concludes anew from all observations it still has; this fold gives each conclusion its id, keeps it for the
episode's life, and says only what changed: OPEN, UPDATED, RESOLVED, RETRACTED, and the final revision.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from streams.detect.evidence.link_history import FOREVER
from streams.detect.params import DetectParams
from streams.fabric.ids import finding_id
from streams.wire.models import Episode, Finding, Status


class FindingDefaults(TypedDict):
    """What is the same of all findings that are not said yet: who says them, by which settings."""

    id: str
    revision: int
    final: bool
    status: Status
    detector: str
    detector_version: str
    settings_digest: str


def finding_defaults(params: DetectParams, slug: str, version: str) -> FindingDefaults:
    """For a detector's `Finding(...)`: it concludes the rest, and `fold` gives it its id and its status."""
    return {
        "id": "", "revision": 0, "final": False, "status": Status.OPEN,
        "detector": slug, "detector_version": version, "settings_digest": params.digest,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the observations say now of one episode.

    `begin_ns` and `end_ns` span its evidence: conclusions that overlap are one episode. `finding` has no id, no
    revision and no status yet. It is final once the watermark passes `final_at_ns` (None: it is not over).
    """

    begin_ns: int
    end_ns: int
    finding: Finding
    anchor: str
    final_at_ns: int | None = None
    down_at_ns: tuple[int, ...] = ()
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedEpisode:
    """An episode as it was last published, with the span of its evidence then."""

    begin_ns: int
    end_ns: int
    episode: Episode

    def overlaps(self, begin_ns: int, end_ns: int) -> bool:
        """Whether its evidence and this span share a moment: then they are one episode."""
        return self.begin_ns <= end_ns and begin_ns <= self.end_ns


PublishedEpisodes = tuple[PublishedEpisode, ...]


def reconcile(
    state: PublishedEpisodes, conclusions: Iterable[Conclusion], watermark_ns: int, pruned_until_ns: int = 0
) -> tuple[PublishedEpisodes, list[Episode]]:
    """Match conclusions with what was said; answers the new state and the episodes to publish (revision 0).

    An episode that began with observations which were dropped since, up to `forgotten_ns`, keeps its beginning. One
    that is over for long and was never said is none then: what told so, that a person shut a port say, may be what was
    dropped.
    """
    unmatched = list(state)
    kept: list[PublishedEpisode] = []
    out: list[Episode] = []
    for conclusion in conclusions:
        said = next((s for s in unmatched if s.overlaps(conclusion.begin_ns, conclusion.end_ns)), None)
        if said is None and conclusion.begin_ns <= pruned_until_ns and _is_final(conclusion, watermark_ns):
            continue
        if said is not None:
            unmatched.remove(said)
            if said.episode.finding.final:
                kept.append(said)  # closed: what comes after the lateness changes nothing that was said
                continue
            if said.begin_ns <= pruned_until_ns:
                conclusion = _as_begun(said, conclusion)  # noqa: PLW2901 — the same conclusion, dated as it was
        episode = _episode(said, conclusion, watermark_ns)
        if said is None or _says_more(episode, said.episode):
            episode = _opened_or_updated(said, episode)
            out.append(episode)
        else:
            episode = said.episode
        kept.append(PublishedEpisode(conclusion.begin_ns, conclusion.end_ns, episode))
    for said in unmatched:
        if said.episode.finding.final:
            kept.append(said)
        else:
            out.append(_retracted(said.episode))
    return tuple(kept), out


def _as_begun(said: PublishedEpisode, conclusion: Conclusion) -> Conclusion:
    before, now = said.episode.finding, conclusion.finding
    finding = replace(
        now,
        started_at_ns=min(before.started_at_ns, now.started_at_ns),
        detected_at_ns=min(before.detected_at_ns or before.started_at_ns, now.detected_at_ns or now.started_at_ns),
    )
    return replace(conclusion, begin_ns=min(said.begin_ns, conclusion.begin_ns), finding=finding)


def prune(state: PublishedEpisodes, before_ns: int) -> PublishedEpisodes:
    """Drop closed episodes whose evidence is older than any that is still kept."""
    return tuple(said for said in state if said.end_ns >= before_ns or not said.episode.finding.final)


def _is_final(conclusion: Conclusion, watermark_ns: int) -> bool:
    return conclusion.final_at_ns is not None and conclusion.final_at_ns <= watermark_ns


def _episode(said: PublishedEpisode | None, conclusion: Conclusion, watermark_ns: int) -> Episode:
    """The conclusion under its episode's id and subject, with the status that it had if nothing else changed."""
    fresh = conclusion.finding
    final = _is_final(conclusion, watermark_ns)
    if said is None:
        identity, subject, status = (
            finding_id(fresh.detector, fresh.subject.id, conclusion.anchor),
            fresh.subject,
            Status.OPEN,
        )
    else:
        before = said.episode.finding
        identity, subject, status = before.id, before.subject, before.status
    if fresh.resolved_at_ns is not None:
        status = Status.RESOLVED
    elif status is Status.RESOLVED:
        status = Status.UPDATED
    whole = replace(fresh, id=identity, subject=subject, status=status, final=final)
    return Episode(whole, conclusion.down_at_ns, conclusion.related)


def _says_more(episode: Episode, said: Episode) -> bool:
    """Whether a reader learns anything: that it still goes on is no news, until the final revision says until when."""
    last = replace(said.finding, observed_at_ns=episode.finding.observed_at_ns)
    return episode.finding != last


def _opened_or_updated(said: PublishedEpisode | None, episode: Episode) -> Episode:
    if said is None or episode.finding.status is not Status.OPEN:
        return episode
    return replace(episode, finding=replace(episode.finding, status=Status.UPDATED))


def _retracted(episode: Episode) -> Episode:
    return replace(episode, finding=replace(episode.finding, status=Status.RETRACTED, final=False))


def next_final_ns(conclusions: Sequence[Conclusion], watermark_ns: int) -> int:
    """The watermark at which one of them becomes final; FOREVER if none will."""
    due = (c.final_at_ns for c in conclusions if c.final_at_ns is not None and c.final_at_ns > watermark_ns)
    return min(due, default=FOREVER)
