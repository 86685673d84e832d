"""Computes the surviving capacity without a link; links that decisions isolated count as lost.

Many proposals share one context, so a result is computed again only after a target was isolated or restored.
"""

from streams.decide.capacity import Surviving
from streams.decide.guard_context import GuardContext
from streams.fabric.topology import TopologyLink


def least_surviving(link: TopologyLink, context: GuardContext) -> Surviving | None:
    """Return the group that retains the lowest ratio without a link between switches; None if it has no group.

    Links that a decision isolated count as lost even if their ports are up.
    """
    number = context.capacity.number_of(link)
    if number is None:
        return None
    isolated = isolated_links(context)
    least = context.computed.least
    if number not in least:
        least[number] = context.current_capacity(number).least([number], isolated)
    return least[number]


def isolated_links(context: GuardContext) -> list[int]:
    """Return the numbers of the links between switches that decisions took out of service."""
    computed, isolations = context.computed, context.isolations
    if computed.version != isolations.version:
        found = (context.topology.links.get(target) for target in isolations.active)
        numbers = (context.capacity.number_of(link) for link in found if link is not None)
        computed.isolated = [number for number in numbers if number is not None]
        computed.version, computed.least = isolations.version, {}
    return computed.isolated


def other_planes(link: TopologyLink, context: GuardContext) -> list[bool]:
    """Return, for each other link of the same host and rail, whether it is in service and proven to carry."""
    return [
        other.id not in context.isolations.active and context.carries(other)
        for other in context.topology.uplinks_of[link.lower.device]
        if other.rail == link.rail and other.id != link.id
    ]
