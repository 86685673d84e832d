"""Selects the candidates that are taken out together if capacity does not allow all (CorrOpt, SIGCOMM 2017).

CorrOpt's optimizer minimises the remaining penalty: (1) find the groups that fall below the floor if all candidates are
taken out; (2) select the candidates that are in none of them; (3) search the rest. The rest is split into parts that
share no such group. The search of a part first selects by descending penalty, then tries better combinations within a
limit of capacity checks, because a complete search is exponential (7 to 8 hours at 75 % in the paper's fabric).
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from streams.decide.capacity import Capacity, Group


class Candidate(NamedTuple):
    """A link to be taken out, and the penalty of leaving it in service (CorrOpt: its loss rate)."""

    link: int
    penalty: float


class Selection(NamedTuple):
    """The candidates that fit together, and those that wait for capacity; both by descending penalty."""

    selected: tuple[Candidate, ...]
    waiting: tuple[Candidate, ...]


def select(
    capacity: Capacity,
    candidates: Sequence[Candidate],
    floor: float,
    max_checks: int = 200,
    isolated: Collection[int] = (),
) -> Selection:
    """Return the candidates that fit together and leave the smallest penalty.

    `isolated` are links that earlier decisions took out of service, whatever their ports report. `max_checks` limits
    the capacity checks of each part; the first combination is always complete, so a limit of 1 is the greedy selection
    by penalty.
    """
    ordered = sorted(set(candidates), key=lambda candidate: (-candidate.penalty, candidate.link))
    broken = capacity.below([candidate.link for candidate in ordered], floor, isolated) if ordered else set()
    constraints = {candidate: capacity.groups_of(candidate.link) & broken if broken else set() for candidate in ordered}
    selected = {candidate for candidate in ordered if not constraints[candidate]}
    for part in _parts({candidate: groups for candidate, groups in constraints.items() if groups}):
        lost = [*isolated, *(candidate.link for candidate in selected)]
        selected |= set(_Search(capacity, part, floor, lost, max_checks).best)
    return Selection(
        tuple(candidate for candidate in ordered if candidate in selected),
        tuple(candidate for candidate in ordered if candidate not in selected),
    )


def _parts(constraints: dict[Candidate, set[Group]]) -> list[list[Candidate]]:
    """Split candidates so that no two parts share a constrained group; each part is in order of descending penalty."""
    members: dict[Group, list[Candidate]] = defaultdict(list)
    for candidate, groups in constraints.items():
        for group in groups:
            members[group].append(candidate)
    parts: list[list[Candidate]] = []
    assigned: set[Candidate] = set()
    for first in constraints:
        if first in assigned:
            continue
        part, frontier = {first}, [first]
        while frontier:
            for group in constraints[frontier.pop()]:
                found = [candidate for candidate in members.pop(group, ()) if candidate not in part]
                part.update(found)
                frontier += found
        assigned |= part
        parts.append([candidate for candidate in constraints if candidate in part])
    return parts


class _Search:
    """Searches the subsets of one part by branch and bound; a superset of a rejected set is never evaluated."""

    def __init__(
        self, capacity: Capacity, part: Sequence[Candidate], floor: float, lost: Sequence[int], max_checks: int
    ) -> None:
        self._capacity, self._part, self._floor, self._lost = capacity, part, floor, lost
        self._checks = max_checks
        self._rest = [sum(candidate.penalty for candidate in part[place:]) for place in range(len(part) + 1)]
        self.best: tuple[Candidate, ...] = ()
        self._best_penalty = -1.0
        self._descend()

    def _descend(self) -> None:
        """Visit the subsets depth-first; each candidate is included before it is excluded."""
        stack: list[tuple[int, tuple[Candidate, ...], float]] = [(0, (), 0.0)]
        while stack:
            place, chosen, penalty = stack.pop()
            while place < len(self._part) and penalty + self._rest[place] > self._best_penalty:
                candidate = self._part[place]
                place += 1
                if self._fits([*chosen, candidate]):
                    stack.append((place, chosen, penalty))
                    chosen, penalty = (*chosen, candidate), penalty + candidate.penalty
            if place == len(self._part) and penalty > self._best_penalty:
                self.best, self._best_penalty = chosen, penalty
            if self._checks <= 0:
                return

    def _fits(self, chosen: Sequence[Candidate]) -> bool:
        self._checks -= 1
        return not self._capacity.below([candidate.link for candidate in chosen], self._floor, self._lost)
