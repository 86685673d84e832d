"""What contradicts itself between the rows of an inventory: a rule is a function, and all of them stand here.

What a single row may hold is streams.fabric.rows; a rule says only what several rows, or a row and the device that it
names, say against each other. Every contradiction is said, not only the first. Those that leave the pipeline nothing
to work with are `impossible` and refuse the folder; the others may be a fabric that is being built, and are named by
`railsight inventory check`.
"""

from collections.abc import Callable, Iterator

from streams.fabric.checks import devices, links, maintenance, names, planes, stays
from streams.fabric.checks.problem import Problem
from streams.fabric.checks.tables import Tables

__all__ = ["RULES", "Problem", "Tables", "contradictions"]

RULES: tuple[Callable[[Tables], Iterator[Problem]], ...] = (
    devices.listed_twice,
    devices.identity_twice,
    devices.kind_against_tier,
    devices.switch_with_gpus,
    maintenance.overlapping,
    links.port_in_two_links,
    links.unknown_device,
    links.both_ends_on_one_device,
    links.between_two_hosts,
    links.role_against_ends,
    links.identity_twice,
    links.rail_used_twice,
    planes.link_against_switch,
    planes.host_misses_a_plane,
    planes.switches_differ,
    planes.paths_differ,
    names.unknown_device,
    names.alias_of_two_ports,
    names.alias_of_an_alias,
    stays.unknown_device,
    stays.on_a_switch,
    stays.ends_before_it_starts,
    stays.overlapping,
)


def contradictions(tables: Tables) -> list[Problem]:
    """All of them, in the order of the rules."""
    return [problem for rule in RULES for problem in rule(tables)]
