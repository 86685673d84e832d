"""Carries out remediations: accepts one, changes settings (changes.py), carries out the operation, and answers.

An id is accepted once, and its changes and operation are made at most once: after a crash the engine reads the state of
an interrupted action, and the action is either complete or undone. An action or target without a configuration is
rejected once per process; another automation may still accept it.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Protocol

from railsight_automation.changes import Changes, listed
from railsight_automation.errors import ActionError, Refused
from railsight_automation.journal import Intent, Journal
from railsight_automation.messages import APPROVED, Remediation
from railsight_automation.plan import Plan, Planner

log = logging.getLogger(__name__)

BACK = ("RESTORE_LINK", "UNCORDON_HOST")
"""Actions that undo own changes, and that are repeated after a crash."""
_FOR_PEOPLE, _EXTERNAL = "OBSERVE", "EXTERNAL"
_DAY_NS = 86_400 * 10**9
_PRUNE_FROM = 10_000
_APPROVED_STATE, _ACCEPTED_STATE = "APPROVED", "ACCEPTED"


class Answers(Protocol):
    """Publishes results."""

    async def send(
        self, remediation_id: str, outcome: str, detail: str, prior_values: Mapping[str, str], instance: str
    ) -> None:
        """Publish a result and return when Kafka has it; `prior_values` maps addresses to JSON."""


class Engine:
    """Carries out remediations, one change at a time."""

    def __init__(
        self,
        journal: Journal,
        planner: Planner,
        answers: Answers,
        actor: str,
        now_ns: Callable[[], int],
        confirm_s: float = 30.0,
        retry_s: float = 5.0,
    ) -> None:
        self._journal = journal
        self._planner = planner
        self._answers = answers
        self._actor = actor
        self._now_ns = now_ns
        self._confirm_s = confirm_s
        self._latest: dict[str, Remediation] = {}
        self._acceptors: dict[str, tuple[str, str]] = {}
        """Remediation id -> actor and instance of the acceptance that `decide` confirmed."""
        self._pruned_to = 0
        self._observed = asyncio.Condition()
        self._rejected: dict[str, None] = {}
        self._changes = Changes(journal, planner, lambda remediation: self._why_not(self._newest(remediation)), retry_s)
        self._targets: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._undone: set[str] = set()
        """Remediations whose changes were all undone by another party at the last check."""

    async def observe(self, remediation: Remediation) -> None:
        """Retain the highest revision of a remediation."""
        known = self._latest.get(remediation.id)
        if known is None or remediation.revision > known.revision:
            self._latest[remediation.id] = remediation
            if remediation.state == _ACCEPTED_STATE:
                # Later revisions may have another actor, for example when a second finding joins the remediation.
                self._acceptors.setdefault(remediation.id, (remediation.actor, remediation.instance))
            if len(self._latest) > 2 * self._pruned_to + _PRUNE_FROM:
                self._prune()
            async with self._observed:
                self._observed.notify_all()

    def _prune(self) -> None:
        """Prune revisions that expired a day ago: an id is not approved again, and an expired one is refused."""
        since_ns = self._now_ns() - _DAY_NS
        self._latest = {key: known for key, known in self._latest.items() if known.expires_at_ns > since_ns}
        self._acceptors = {key: actor for key, actor in self._acceptors.items() if key in self._latest}
        self._rejected = {key: None for key in self._rejected if key in self._latest}
        self._pruned_to = len(self._latest)

    def is_due(self, remediation_id: str) -> bool:
        """Return whether a remediation is approved, unexpired, and neither accepted nor rejected yet."""
        remediation = self._latest.get(remediation_id)
        if remediation is None or remediation_id in self._journal.intents or remediation_id in self._rejected:
            return False
        if remediation.state != _APPROVED_STATE:
            return False  # another automation accepted it, or it has ended
        return remediation.action != _FOR_PEOPLE and not self._why_not(remediation)

    async def carry_out(self, remediation_id: str) -> None:
        """Accept a due remediation, act, and answer; reject it if its action or target is not configured."""
        if not self.is_due(remediation_id):
            return
        remediation = self._latest[remediation_id]
        try:
            self._planner.plan(remediation)
        except Refused as error:
            # The rejection is not in the journal: after a restart another configuration may accept the remediation.
            self._rejected[remediation_id] = None
            log.warning("rejected remediation=%s error=%s", remediation_id, error)
            await self._answers.send(remediation_id, "REJECTED", str(error), {}, self._journal.instance)
            return
        self._journal.accept(remediation, self._now_ns())
        await self._act(self._journal.intents[remediation_id])

    def interrupted(self) -> list[str]:
        """Return the ids of the interrupted actions, in the order of their acceptance."""
        return [key for key, intent in self._journal.intents.items() if not intent.is_answered]

    async def resume(self, remediation_id: str) -> None:
        """Complete or undo an interrupted action; call this once, after the topic was read to its end."""
        intent = self._journal.intents[remediation_id]
        if intent.outcome:
            await self._answer(intent)
        elif not intent.is_begun:
            await self._act(intent)
        else:
            async with self._targets[intent.remediation.target_id]:
                await self._settle(intent)

    async def check_changes(self) -> None:
        """Answer EXTERNAL for each target that others returned to use, after two checks that show it.

        The rest of its changes, such as the taint that `kubectl uncordon` leaves, is undone.
        """
        for target_id in list(self._journal.changes):
            target = self._targets[target_id]
            if target.locked():
                continue
            async with target:
                if (intent := self._drain_of(target_id)) is None:
                    continue
                if intent.outcome != _EXTERNAL:
                    changes = self._journal.changes_of(target_id)
                    is_undone, was_undone = await self._changes.are_undone(changes), target_id in self._undone
                    (self._undone.add if is_undone else self._undone.discard)(target_id)
                    if not (is_undone and was_undone):
                        continue
                    detail = listed("back in service by another party:", [change.address for change in changes])
                    await self._finish(intent.remediation.id, _EXTERNAL, detail)
                self._undone.discard(target_id)
                await self._changes.give_up(target_id)

    def _drain_of(self, target_id: str) -> Intent | None:
        """Return the answered intent that took a target out of use; None while an action on the target is open."""
        own = [one for one in self._journal.intents.values() if one.remediation.target_id == target_id]
        if not all(intent.is_answered for intent in own):
            return None
        found = (self._journal.intents.get(c.remediation_id) for c in self._journal.changes_of(target_id))
        return next((intent for intent in found if intent is not None), None)

    async def _act(self, intent: Intent) -> None:
        remediation = intent.remediation
        await self._answers.send(remediation.id, "ACCEPTED", "", {}, intent.instance)
        async with self._targets[remediation.target_id]:
            if why := await self._not_confirmed(intent) or self._why_not(self._newest(remediation)):
                await self._finish(remediation.id, "FAILED", f"{why}; nothing was changed")
                return
            self._journal.begin(remediation.id)
            try:
                detail = await self._run(remediation)
            except ActionError as error:
                log.warning("failed remediation=%s target=%s error=%s", remediation.id, remediation.target_id, error)
                detail = "" if remediation.action in BACK else await self._changes.undo(remediation)
                await self._finish(remediation.id, "FAILED", f"{error}{detail}")
            else:
                await self._finish(remediation.id, "DONE", detail)

    async def _not_confirmed(self, intent: Intent) -> str:
        """Wait until `decide` confirms the acceptance; return the reason if it does not, else an empty text."""
        remediation = intent.remediation
        try:
            async with asyncio.timeout(self._confirm_s), self._observed:
                await self._observed.wait_for(lambda: self._newest(remediation).state != _APPROVED_STATE)
        except TimeoutError:
            return "the acceptance was not confirmed"
        newest = self._newest(remediation)
        if newest.state != _ACCEPTED_STATE:
            return f"revision {newest.revision} is {newest.state}"
        acceptor = self._acceptors[remediation.id]
        return "" if acceptor == (self._actor, intent.instance) else f"accepted by {' '.join(acceptor).strip()}"

    def _newest(self, remediation: Remediation) -> Remediation:
        return self._latest.get(remediation.id, remediation)

    async def _run(self, remediation: Remediation) -> str:
        plan, target_id = self._planner.plan(remediation), remediation.target_id
        if remediation.action in BACK:
            return await self._changes.bring_back(target_id, plan)
        await self._changes.take_out(remediation, plan.drain)
        if plan.operation is None:
            return listed("changed", [c.address for c in self._journal.changes_of(target_id, remediation.id)])
        if plan.before_hold is not None:
            await plan.before_hold()
        await self._changes.take_out(remediation, plan.hold)
        before = await plan.operation.prepare()
        if why := self._why_not(self._newest(remediation)):
            raise Refused(why)
        self._journal.operate(remediation.id, before)
        detail = await plan.operation.run(before)
        await self._changes.release(remediation, plan.hold)
        return detail

    async def _settle(self, intent: Intent) -> None:
        """Complete or undo an action that a crash interrupted."""
        remediation = intent.remediation
        try:
            if (detail := await self._completed(intent, self._planner.plan(remediation))) is not None:
                await self._finish(remediation.id, "DONE", detail)
                return
            why = "interrupted by a restart"
        except ActionError as error:
            why = str(error)
        undone = "" if remediation.action in BACK else await self._changes.undo(remediation)
        await self._finish(remediation.id, "FAILED", f"{why}{undone}")

    async def _completed(self, intent: Intent, plan: Plan) -> str | None:
        """Return the detail if the interrupted action is complete, else None; raise ActionError if that is unclear."""
        remediation = intent.remediation
        if remediation.action in BACK:
            return await self._changes.bring_back(remediation.target_id, plan)
        if plan.operation is not None:
            if not intent.is_operated:
                return None
            detail = await plan.operation.settle(intent.before)
            await self._changes.release(remediation, plan.hold)
            return detail
        return "completed before a restart" if await self._changes.is_complete(remediation, plan.drain) else None

    async def _finish(self, remediation_id: str, outcome: str, detail: str) -> None:
        changes = self._journal.changes_of(self._journal.intents[remediation_id].remediation.target_id, remediation_id)
        prior = {change.address: json.dumps(change.prior) for change in changes}
        self._journal.finish(remediation_id, outcome, detail, prior)
        await self._answer(self._journal.intents[remediation_id])

    async def _answer(self, intent: Intent) -> None:
        remediation = intent.remediation
        log.info(
            "answered remediation=%s action=%s target=%s outcome=%s detail=%s",
            remediation.id, remediation.action, remediation.target_id, intent.outcome, intent.detail,
        )  # fmt: skip
        await self._answers.send(remediation.id, intent.outcome, intent.detail, intent.prior_values, intent.instance)
        self._journal.answered(remediation.id)

    def _why_not(self, remediation: Remediation) -> str:
        """Return the reason why a remediation may not be carried out now, or an empty text."""
        if remediation.verdict != APPROVED:
            return f"revision {remediation.revision} is {remediation.verdict}"
        if remediation.expires_at_ns <= self._now_ns():
            return "expired"
        return ""
