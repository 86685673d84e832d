"""Selects the throttled hosts' symptoms that `attribute` receives, because a job there has hosts in other pods.

A host in another pod can be a sender or a victim of an incast only then. A healthy fabric forwards nothing, and a
throttled link one symptom for each begin and end.
"""

from streams.detect.evidence.congestion_spells import Began, LinkSpells
from streams.fabric.topology import Topology
from streams.wire.models import Symptom, SymptomsReplaced
from streams.wire.symptoms import CongestionEnded


def concerns_other_pods(
    topology: Topology, observed: Symptom | SymptomsReplaced, before: LinkSpells[Began], after: LinkSpells[Began]
) -> bool:
    """Return whether `attribute` needs an observation that changes the spells of a host's link from `before`."""
    changed = set(before.spells) ^ set(after.spells)
    if not changed:
        return _ends_unknown(observed, before)
    return any(_has_hosts_elsewhere(topology, observed.device, spell.begin_ns) for spell in changed)


def _ends_unknown(observed: Symptom | SymptomsReplaced, known: LinkSpells[Began]) -> bool:
    """Return whether a state ends that began elsewhere: the owner of the link's former pod forwarded the begin."""
    if not isinstance(observed, Symptom) or not isinstance(observed.payload, CongestionEnded):
        return False
    state, last_ns = observed.payload.state, observed.payload.last_active_ns
    return not any(spell.began.state is state and spell.end_ns >= last_ns for spell in known.spells)


def _has_hosts_elsewhere(topology: Topology, host: str, at_ns: int) -> bool:
    """Return whether a job on a host at a time has hosts in several pods.

    A host without a known job carries traffic of one that is published later, where jobs are known at all.
    """
    jobs = topology.jobs_on([host], at_ns)
    return any(len(topology.pods_of_job(job)) > 1 for job in jobs) if jobs else bool(topology.jobs)
