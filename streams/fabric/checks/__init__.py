"""Checks the rows of an inventory against each other. A rule is a function; RULES lists all of them.

streams.fabric.inventory_rows validates each row by itself. A rule compares several rows, or a row with the device
that it names, and reports every contradiction. An error (`is_error`) makes the inventory unusable and refuses the
folder; other problems may be a fabric under construction, and `railsight inventory check` lists them.
"""

from collections.abc import Callable, Iterator

from streams.fabric.checks import devices, jobs, links, maintenance, names, planes
from streams.fabric.checks.problem import Problem
from streams.fabric.checks.tables import Tables

__all__ = ["RULES", "Problem", "Tables", "find_problems"]

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
    jobs.unknown_device,
    jobs.on_a_switch,
    jobs.ends_before_it_starts,
    jobs.overlapping,
)


def find_problems(tables: Tables) -> list[Problem]:
    """All of them, in the order of the rules."""
    return [problem for rule in RULES for problem in rule(tables)]
