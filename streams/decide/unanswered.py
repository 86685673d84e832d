"""Concludes from the ports of a link whether automation carried out an action that it accepted and never answered.

Without proof the result stays unknown: the link counts as out of service, and a person decides. The ports prove

- that the link is out of service, if an end is administratively down, or if the traffic stopped at both ends since the
  acceptance;
- that it is in service, if both ends are up and carried traffic in all of `not_drained_s` after the answer was due.

A port does not show the cordon or the restart of its host, so actions on hosts stay unknown.
"""

from streams.decide.fabric_view import FabricView
from streams.decide.life_cycle import Event
from streams.decide.link_block import Block
from streams.decide.link_traffic import TrafficRun
from streams.decide.params import DecideParams
from streams.decide.remedies import Remedies
from streams.decide.state import DecideState, Remedy
from streams.wire.models import Action
from streams.wire.models import RemediationState as State

_ACTIONS = (Action.DRAIN_LINK, Action.REPAIR_LINK)

_IDLE_NS = 120_000_000_000
"""The length of two one-minute readings without traffic (choice): longer than the pause after one transfer."""

_BEFORE_NS = 600_000_000_000
"""Traffic counts as stopped only if the link carried some in the ten minutes before the acceptance (choice)."""


class Unanswered:
    """The remediations of links with an unknown result."""

    def __init__(self, params: DecideParams, fabric: FabricView, state: DecideState, remedies: Remedies) -> None:
        self._params, self._fabric, self._state, self._remedies = params, fabric, state, remedies

    def advance(self, now_ns: int) -> None:
        """Move the remediations whose ports prove the result."""
        for remedy in self._remedies.in_state(State.NO_ANSWER, State.ESCALATED):
            if remedy.unanswered and remedy.record.action in _ACTIONS and self._due_ns(remedy) <= now_ns:
                self._conclude(remedy)

    def _due_ns(self, remedy: Remedy) -> int:
        """Return the time at which an answer was due."""
        is_repair = remedy.record.action is Action.REPAIR_LINK
        return remedy.accepted_ns + round((self._params.repair_s if is_repair else self._params.answer_s) * 1e9)

    def _conclude(self, remedy: Remedy) -> None:
        if reason := self._why_out(remedy):
            remedy.answered = True
            self._state.is_changed = True
            self._remedies.move(remedy, Event.ISOLATED, f"no answer, but {reason}")
        elif self._is_in_service(remedy):
            remedy.released, remedy.failures = True, remedy.failures + 1
            self._state.is_changed = True
            within = f"{self._params.not_drained_s:g} s after the answer was due"
            self._remedies.move(
                remedy, Event.FAIL, f"not carried out: both ends are up and carried traffic for {within}"
            )

    def _why_out(self, remedy: Remedy) -> str:
        """Return the proof that the link is out of service; empty if there is none."""
        links, accepted_ns = self._fabric.links, remedy.accepted_ns
        block = links.blocked.get(remedy.target_id, Block.NONE)
        if block is Block.ADMIN_DOWN:
            return links.why_not(remedy.target_id)
        runs = self._runs(remedy, accepted_ns)
        has_stopped = all(
            not run.is_busy
            and run.first_end_ns > accepted_ns
            and run.busy_ns >= accepted_ns - _BEFORE_NS
            and run.end_ns - max(run.begin_ns, accepted_ns) >= _IDLE_NS
            for run in runs
        )
        return "both ends are up and their traffic stopped" if runs and has_stopped else ""

    def _is_in_service(self, remedy: Remedy) -> bool:
        due_ns = self._due_ns(remedy)
        runs, needed_ns = self._runs(remedy, due_ns), round(self._params.not_drained_s * 1e9)
        return bool(runs) and all(run.is_busy and run.end_ns - max(run.begin_ns, due_ns) >= needed_ns for run in runs)

    def _runs(self, remedy: Remedy, after_ns: int) -> list[TrafficRun]:
        """Return the traffic of both ends after a time; empty unless both ends are up, fresh, and read for traffic."""
        fabric = self._fabric
        link = fabric.topology.links.get(remedy.target_id)
        if link is None or not fabric.links.carries(link.id):
            return []
        ends = [fabric.traffic.runs(end, fabric.topology, after_ns) for end in (link.lower, link.upper)]
        return [run for runs in ends for run in runs] if all(ends) else []
