"""What is behind a pod's collapse: a storm of pause, or that of another pod in which the same job runs.

Decides only that: the collapses that share a job and a time are one, of which the first that could be told stands for
all, and where a storm holds the pod or the job, all of them are its children.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from streams.detect.attribute import pfc_storm_tree
from streams.detect.attribute.case_index import root_rank
from streams.detect.attribute.state import Case, overlap
from streams.detect.detectors.congestion_pfc_storm.evaluate import paused_of, pauser_of
from streams.fabric.topology import Topology
from streams.wire.models import BlastRadius, Condition, Evidence, Finding, Status

_MOST_NAMED = 1024
"""Hosts by name, as impact.py names them."""


def is_collapse(finding: Finding) -> bool:
    """Whether it is of this kind."""
    return finding.condition is Condition.CONGESTION_COLLAPSE


class CollapseIndex:
    """The collapses and storms among the cases; told of every change of theirs."""

    def __init__(self, at_device: Callable[[str], list[Finding]], cases: Iterable[Case]) -> None:
        self._at_device = at_device
        self._own: dict[str, Finding] = {}
        self._storms: dict[str, Finding] = {}
        for case in cases:
            self.add(case.episode.finding)

    def add(self, finding: Finding) -> None:
        """A new case, or one whose episode changed."""
        kept = self._own if is_collapse(finding) else self._storms if pfc_storm_tree.is_storm(finding) else None
        if kept is None:
            return
        if finding.status is Status.RETRACTED:
            kept.pop(finding.id, None)
        else:
            kept[finding.id] = finding

    def remove(self, finding: Finding) -> None:
        """A case that is let go."""
        self._own.pop(finding.id, None)
        self._storms.pop(finding.id, None)

    def affected_by(self, finding: Finding) -> dict[str, None]:
        """The collapses that may be said otherwise because of this one, or of this storm."""
        if not (self._own and (is_collapse(finding) or pfc_storm_tree.is_storm(finding))):
            return {}
        return {one.id: None for one in self._own.values() if one.id != finding.id and overlap(one, finding)}

    def assign_cause(self, topology: Topology, own: Finding) -> tuple[Finding, Finding | None]:
        """A collapse, with what it says of the others where it stands for them, and its parent."""
        members = self._together(own)
        if (root := self._storm_behind(topology, members)) is not None:
            return own, root
        first = min(members, key=root_rank)
        if first.id != own.id:
            return own, first
        return (_for_all(own, members) if len(members) > 1 else own), None

    def _together(self, own: Finding) -> list[Finding]:
        """Those that share a job and a time with it, and those that do with them."""
        found, waiting = {own.id: own}, [own]
        while waiting:
            one = waiting.pop()
            for other in self._own.values():
                if other.id not in found and overlap(one, other) and not _jobs(one).isdisjoint(_jobs(other)):
                    found[other.id] = other
                    waiting.append(other)
        return list(found.values())

    def _storm_behind(self, topology: Topology, members: Iterable[Finding]) -> Finding | None:
        """The root of the first storm that holds one of these pods or jobs, and was there when that was told."""
        roots = [
            pfc_storm_tree.root_storm(self._at_device, storm) or storm
            for storm in self._storms.values()
            for own in members
            if overlap(storm, own) and storm.started_at_ns <= (own.detected_at_ns or own.started_at_ns)
            and (storm.subject.pod == own.subject.pod or not _held(topology, storm).isdisjoint(_jobs(own)))
        ]  # fmt: skip
        return min(roots, key=root_rank, default=None)


def _jobs(finding: Finding) -> frozenset[str]:
    return frozenset(finding.blast_radius.jobs if finding.blast_radius is not None else ())


def _held(topology: Topology, storm: Finding) -> frozenset[str]:
    """The jobs at the ends of a storm's link."""
    return frozenset(topology.jobs_on([pauser_of(storm), paused_of(storm)], storm.started_at_ns))


def _for_all(own: Finding, members: Iterable[Finding]) -> Finding:
    """The first with the pods, hosts and jobs of all."""
    radii = [one.blast_radius for one in members if one.blast_radius is not None]
    pods = sorted({one.subject.pod for one in members})
    jobs = tuple(sorted({job for radius in radii for job in radius.jobs}))
    hosts = sorted({host for radius in radii for host in radius.hosts})
    named = ", ".join(jobs)
    said = f"{len(pods)} pods collapsed at once ({', '.join(pods[:8])}); on the hosts that are hit runs job {named}"
    evidence = Evidence(said, metric="together", observed=float(len(pods)), comparison="peers", peers=len(pods))
    return replace(
        own,
        summary=f"{len(pods)} pods of job {named} collapsed; first: {own.summary}",
        evidence=(*own.evidence, evidence),
        blast_radius=BlastRadius(tuple(hosts[:_MOST_NAMED]), jobs, sum(radius.gpus or 0 for radius in radii)),
    )
