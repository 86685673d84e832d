"""Checks the rows of an inventory against each other. Each rule is a function; RULES lists them.

streams.fabric.inventory_rows validates each row by itself. A rule compares several rows, or a row with the device that
it names, and reports every contradiction. An error (`is_error`) makes the inventory unusable, and the folder is
refused. Other problems can occur in a fabric under construction; `railsight inventory check` lists them.
"""

from collections.abc import Callable, Iterator

from streams.fabric.checks import links, rows
from streams.fabric.checks.tables import Problem, Tables

__all__ = ["RULES", "Problem", "Tables", "find_problems"]

RULES: tuple[Callable[[Tables], Iterator[Problem]], ...] = (
    rows.control_character,
    rows.device_listed_twice,
    rows.device_identity_twice,
    rows.kind_against_tier,
    rows.switch_with_gpus,
    rows.overlapping_maintenance,
    links.port_in_two_links,
    links.unknown_device,
    links.both_ends_on_one_device,
    links.between_two_hosts,
    links.role_against_ends,
    links.identity_twice,
    links.rail_used_twice,
    links.link_against_switch,
    links.host_misses_a_plane,
    links.switches_differ,
    links.paths_differ,
    rows.alias_on_an_unknown_device,
    rows.alias_of_two_ports,
    rows.part_of_an_unknown_device,
    rows.alias_of_an_alias,
    rows.job_on_an_unknown_device,
    rows.job_on_a_switch,
    rows.job_ends_before_it_starts,
    rows.job_twice_on_a_host,
)


def find_problems(tables: Tables) -> list[Problem]:
    """Return all problems, in the order of the rules."""
    return [problem for rule in RULES for problem in rule(tables)]
