"""The place and the state of each host as records of railsight.topology.v1."""

from streams.locality.fabric_state import Usability
from streams.locality.groups import NO_GROUP
from streams.locality.model import Locality
from streams.wire.models import HostIssue, HostLocality, HostUsability

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
