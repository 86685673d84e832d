"""Ranks sets of hosts for a job by locality and by the impairments of hosts and links.

A set comes from the smallest group with enough usable GPUs: an NVLink domain, a unit, else a group of the lowest
sufficient tier. Within a group it fills whole units, and in a unit whole NVLink domains, and takes the rest from the
one with the fewest remaining GPUs. Sets of one tier are ranked by doubtful hosts, by the remaining capacity towards the
tier, then by unused GPUs of their group.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from streams.fabric.graph import Ints
from streams.locality.answers import HostSetAnswer, LeftOutAnswer, PlacementAnswer
from streams.locality.fabric_state import FabricState, Usability
from streams.locality.groups import NO_GROUP, Level, natural_key

MAX_GPUS = 1 << 24
"""The limit of a request, above the size of any fabric."""


def place(
    state: FabricState,
    gpus: int,
    *,
    limit: int = 3,
    allow_doubtful: bool = False,
    busy: Mapping[str, str] | None = None,
) -> PlacementAnswer:
    """Return up to `limit` sets of hosts with this number of GPUs; `busy` maps excluded hosts to the reason."""
    return _Search(state, gpus, allow_doubtful, busy or {}).run(limit)


class _Search:
    """One placement: the usable hosts, and their GPUs by group of each level."""

    def __init__(self, state: FabricState, gpus: int, allow_doubtful: bool, busy: Mapping[str, str]) -> None:
        self._state, self._groups, self._graph = state, state.groups, state.groups.graph
        self._gpus, self._busy = gpus, busy
        worst = Usability.DOUBTFUL if allow_doubtful else Usability.GOOD
        taken = [self._graph.number[host] for host in busy if host in self._graph.number]
        usable = state.usable(worst, taken)
        self._usable = usable[self._graph.gpus[usable] > 0]
        self._levels: tuple[Level, ...] = self._groups.levels()
        weights = self._graph.gpus[self._usable].astype(np.float64)
        self._available = [
            np.bincount(level.group[self._usable], weights, len(level.names)).astype(np.int64) for level in self._levels
        ]
        self._is_usable = np.zeros(len(self._graph.names), np.bool_)
        self._is_usable[self._usable] = True
        self._children = [self._children_of(number) for number in range(len(self._levels))]

    def _children_of(self, number: int) -> list[list[int]]:
        """Return, for each group of a level, its groups of the level below that have usable GPUs."""
        children: list[list[int]] = [[] for _ in self._levels[number].names]
        if number:
            below, level = self._levels[number - 1], self._levels[number]
            for child in np.flatnonzero(self._available[number - 1]).tolist():
                children[int(level.group[below.members[child][0]])].append(child)
        return children

    def run(self, limit: int) -> PlacementAnswer:
        found = self._domain_sets(limit)
        for number in range(len(self._levels)):
            if len(found) < limit:
                sets = [
                    self._host_set(number, group, self._fill(number, group, self._gpus))
                    for group in self._groups_that_suffice(number, limit - len(found))
                ]
                known = {each.hosts for each in found}
                fresh = [each for each in sets if each.hosts not in known]
                found += sorted(fresh, key=lambda each: (len(each.doubtful), -round(each.ratio, 2)))
        usable = int(self._graph.gpus[self._usable].sum())
        return PlacementAnswer(gpus=self._gpus, usable_gpus=usable, sets=tuple(found), left_out=self._left_out())

    def _domain_sets(self, limit: int) -> list[HostSetAnswer]:
        """Return the best sets that lie within one NVLink domain with enough usable GPUs."""
        domains, found = self._groups.domains, list[tuple[Any, HostSetAnswer]]()
        for name, members in zip(domains.names, domains.members, strict=True):
            usable = members[self._is_usable[members]]
            available = int(self._graph.gpus[usable].sum())
            if available < self._gpus:
                continue
            hosts = self._first(usable, self._gpus)
            shared = (number for number, level in enumerate(self._levels) if len(set(level.group[hosts].tolist())) == 1)
            if (number := next(shared, None)) is None:
                continue
            one = self._host_set(number, int(self._levels[number].group[hosts[0]]), hosts)
            found.append(((len(one.doubtful), -round(one.ratio, 2), available, natural_key(name)), one))
        return [one for _, one in sorted(found, key=lambda each: each[0])[:limit]]

    def _groups_that_suffice(self, number: int, limit: int) -> list[int]:
        """Return the best-ranked groups that have enough GPUs without a part that has enough."""
        available = self._available[number]
        enough = [
            group
            for group in np.flatnonzero(available >= self._gpus).tolist()
            if all(self._available[number - 1][child] < self._gpus for child in self._children[number][group])
        ]
        ratio = self._state.ratio[self._place(number)]
        names = self._levels[number].names

        def rank(group: int) -> tuple[Any, ...]:
            members = self._levels[number].members[group]
            members = members[self._is_usable[members]]
            doubtful = int((self._state.usability[members] == Usability.DOUBTFUL).sum())
            return doubtful, -round(float(ratio[members].min()), 2), int(available[group]), natural_key(names[group])

        return sorted(enough, key=rank)[:limit]

    def _place(self, number: int) -> int:
        """Return the index of a level's tier."""
        return self._groups.tiers.index(self._levels[number].tier)

    def _fill(self, number: int, group: int, gpus: int) -> list[int]:
        """Return hosts of a group with this number of GPUs; a greedy choice minimizes the number of units."""
        if number == 0:
            members = self._levels[0].members[group]
            return self._by_domain(members[self._is_usable[members]], gpus)
        available = self._available[number - 1]
        left = sorted(self._children[number][group], key=lambda child: (int(available[child]), child))
        hosts: list[int] = []
        while gpus > 0:
            child = next((child for child in left if available[child] >= gpus), left[-1])
            hosts += self._fill(number - 1, child, min(gpus, int(available[child])))
            gpus -= int(available[child])
            left.remove(child)
        return hosts

    def _first(self, hosts: Ints, gpus: int) -> list[int]:
        """Return the first of these hosts by usability and capacity that have this number of GPUs, or all."""
        order = hosts[np.lexsort((hosts, -self._state.ratio[0][hosts], self._state.usability[hosts]))]
        enough = int(np.searchsorted(np.cumsum(self._graph.gpus[order]), gpus)) + 1
        return [int(host) for host in order[:enough]]

    def _by_domain(self, hosts: Ints, gpus: int) -> list[int]:
        """Return hosts of a unit with this number of GPUs, by whole NVLink domains; hosts without one are the last."""
        chosen: list[int] = []
        domain_of = self._groups.domains.group[hosts]
        left = [hosts[domain_of == domain] for domain in np.unique(domain_of[domain_of != NO_GROUP]).tolist()]
        while left and gpus > 0:
            size = [int(self._graph.gpus[each].sum()) for each in left]
            enough = [number for number in range(len(left)) if size[number] >= gpus]
            best = min(enough, key=size.__getitem__) if enough else max(range(len(left)), key=size.__getitem__)
            chosen += self._first(left.pop(best), gpus)
            gpus -= size[best]
        return chosen + (self._first(hosts[domain_of == NO_GROUP], gpus) if gpus > 0 else [])

    def _host_set(self, number: int, group: int, hosts_of_set: list[int]) -> HostSetAnswer:
        names, state = self._graph.names, self._state
        level, place = self._levels[number], self._place(number)
        chosen = np.array(sorted(hosts_of_set), np.int64)
        unit_of = self._groups.units.group[chosen]
        units = Counter(self._groups.units.names[unit] for unit in unit_of.tolist())
        ratio = float(state.ratio[place][chosen].min())
        doubtful = tuple(names[host] for host in chosen[state.usability[chosen] == Usability.DOUBTFUL].tolist())
        gpus = int(self._graph.gpus[chosen].sum())
        switches = 2 * place + 1
        if number == 0:
            where = f"the {len(chosen)} hosts have the same leaves: 1 switch on every rail"
        else:
            where = f"{len(chosen)} hosts of {len(units)} units, connected by {level.tier}: up to {switches} switches"
        why = [
            where,
            f"at least {ratio:.0%} of the built capacity of each host reaches {level.tier}",
            f"{int(self._available[number][group]) - gpus} usable GPUs of {level.names[group]} stay unused",
        ]
        domains = [domain for domain in np.unique(self._groups.domains.group[chosen]).tolist() if domain != NO_GROUP]
        if self._groups.in_one_domain(chosen.tolist()):
            why.insert(0, f"all hosts are of the NVLink domain {self._groups.domains.names[domains[0]]}")
        if doubtful:
            why.append(f"{len(doubtful)} hosts are doubtful: {', '.join(doubtful[:8])}")
        else:
            why.append("no finding and no maintenance concerns its hosts or their links")
        hosts = tuple(names[host] for host in chosen.tolist())
        return HostSetAnswer(
            hosts=hosts, gpus=gpus, units=tuple(sorted(units, key=natural_key)),
            domains=tuple(self._groups.domains.names[domain] for domain in domains), group=level.names[group],
            tier=level.tier, switches=switches, ratio=ratio, doubtful=doubtful, why=tuple(why),
        )  # fmt: skip

    def _left_out(self) -> tuple[LeftOutAnswer, ...]:
        names, units = self._graph.names, self._groups.units
        found = []
        for host in self._groups.hosts[~self._is_usable[self._groups.hosts]].tolist():
            name, unit = names[host], int(units.group[host])
            reasons = list(self._state.reasons(host))
            if name in self._busy:
                reasons.append(self._busy[name])
            if unit == NO_GROUP:
                reasons.append("the inventory has no link to a leaf")
            if not self._graph.gpus[host]:
                reasons.append("the inventory has no GPUs for it")
            place_of = "" if unit == NO_GROUP else units.names[unit]
            found.append(LeftOutAnswer(host=name, unit=place_of, reasons=tuple(reasons)))
        return tuple(found)
