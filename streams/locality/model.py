"""Combines the groups of one inventory with the present impairments, and builds the published records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.fabric.topology import Topology
from streams.locality import impairments
from streams.locality.distance import Distances
from streams.locality.fabric_state import FabricState, Usability
from streams.locality.groups import NO_GROUP, Groups
from streams.wire.models import Control, Finding, HostIssue, HostLocality, HostUsability, Remediation


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The open findings, the open remediations and the controls."""

    findings: Sequence[Finding] = ()
    remediations: Sequence[Remediation] = ()
    controls: Sequence[Control] = ()


class Locality:
    """The locality of the hosts at one time."""

    def __init__(self, groups: Groups, knowledge: Knowledge, now_ns: int) -> None:
        topology = groups.topology
        self.groups, self.now_ns = groups, now_ns
        self.state = FabricState(groups, _impairments(topology, knowledge, now_ns))
        self.distances = Distances(self.state)

    def busy_hosts(self) -> dict[str, str]:
        """Return the hosts with a running job, each with the reason for its exclusion from placements."""
        return {
            each.device: f"{each.job} runs on it"
            for each in self.groups.topology.placement.allocations
            if each.contains(self.now_ns)
        }


def _impairments(topology: Topology, knowledge: Knowledge, now_ns: int) -> list[impairments.Impairment]:
    found: Iterable[impairments.Impairment] = (
        *impairments.of_findings(knowledge.findings),
        *impairments.of_remediations(knowledge.remediations),
        *impairments.of_controls(knowledge.controls, now_ns),
        *impairments.of_devices(topology.devices.values(), now_ns),
    )
    return sorted(found, key=lambda each: -each.effect)


_USABILITY = {
    Usability.GOOD: HostUsability.GOOD,
    Usability.DOUBTFUL: HostUsability.DOUBTFUL,
    Usability.OUT: HostUsability.OUT,
}


def host_localities(locality: Locality) -> dict[str, HostLocality]:
    """Return a record for each host of the inventory, by its name."""
    groups, state = locality.groups, locality.state
    graph, topology = groups.graph, groups.topology
    units, *above = groups.levels()
    found = {}
    for host in groups.hosts.tolist():
        name = graph.names[host]
        is_connected = units.group[host] != NO_GROUP
        found[name] = HostLocality(
            name,
            units.names[int(units.group[host])] if is_connected else "",
            tuple(level.names[int(level.group[host])] for level in above) if is_connected else (),
            topology.devices[name].pod,
            int(graph.gpus[host]),
            tuple(graph.names[leaf] for leaf in groups.leaves[host]),
            _USABILITY[Usability(int(state.usability[host]))],
            round(float(state.ratio[-1][host]), 6) if is_connected else None,
            tuple(HostIssue(each.subject_id, each.kind, each.reason, each.source_id) for each in state.issues(host)),
            topology.digest,
        )
    return found
