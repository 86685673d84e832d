"""Carries out remediations: accepts, changes settings one by one, reads each back, answers.

An id is accepted once. A change is made at most once for an id: after a crash nothing is taken out of use again, but
is read, and is either complete or undone; what brings a link or host back is repeated, because it removes only own
changes. A failed action is undone in reverse order.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from railsight_automation.errors import ActionError, DeviceError, Refused
from railsight_automation.journal import Change, Intent, Journal
from railsight_automation.messages import APPROVED, Remediation
from railsight_automation.settings import Setting

log = logging.getLogger(__name__)

OUT = ("DRAIN_LINK", "REPAIR_LINK", "CORDON_HOST")
_DAY_NS = 86_400 * 10**9
_PRUNE_FROM = 10_000
_APPROVED_STATE, _ACCEPTED_STATE = "APPROVED", "ACCEPTED"
BACK = ("RESTORE_LINK", "UNCORDON_HOST")


@dataclass(frozen=True)
class Plan:
    """The settings of an action, in order; for a repair those of the repair itself and the work between."""

    drain: tuple[Setting, ...]
    repair: tuple[Setting, ...] = ()
    before_repair: Callable[[], Awaitable[None]] | None = None
    work: Callable[[], Awaitable[str]] | None = None


class Planner(Protocol):
    """Finds the settings of a remediation."""

    def plan(self, remediation: Remediation) -> Plan | None:
        """Return the plan of a remediation, None if its action is not supported; raise Refused."""

    def at(self, address: str) -> Setting:
        """Return the setting of a journaled change; raise Refused if it is no longer configured."""


class Answers(Protocol):
    """Publishes results."""

    async def send(self, remediation_id: str, outcome: str, detail: str, prior_values: Mapping[str, str]) -> None:
        """Return when Kafka has the result; `prior_values` are JSON by address."""


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
        self._retry_s = retry_s
        self._latest: dict[str, Remediation] = {}
        self._acceptors: dict[str, str] = {}
        """Remediation id -> the actor whose acceptance `decide` confirmed."""
        self._pruned_to = 0
        self._observed = asyncio.Condition()
        self._changing = asyncio.Lock()
        """One change at a time in the whole fabric: a second one rehashes the flows of the first (ECMP)."""
        self._targets: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def observe(self, remediation: Remediation) -> None:
        """Remember the highest revision of a remediation."""
        known = self._latest.get(remediation.id)
        if known is None or remediation.revision > known.revision:
            self._latest[remediation.id] = remediation
            if remediation.state == _ACCEPTED_STATE:
                # Later revisions of an accepted one may have another actor: a second finding joins it, for example.
                self._acceptors.setdefault(remediation.id, remediation.actor)
            if len(self._latest) > 2 * self._pruned_to + _PRUNE_FROM:
                self._prune()
            async with self._observed:
                self._observed.notify_all()

    def _prune(self) -> None:
        """Forget revisions that expired a day ago: an id is not approved again, and the expired are refused."""
        since_ns = self._now_ns() - _DAY_NS
        self._latest = {key: known for key, known in self._latest.items() if known.expires_at_ns > since_ns}
        self._acceptors = {key: actor for key, actor in self._acceptors.items() if key in self._latest}
        self._pruned_to = len(self._latest)

    def is_due(self, remediation_id: str) -> bool:
        """Return whether a remediation is approved, unexpired, supported and not yet accepted."""
        remediation = self._latest.get(remediation_id)
        if remediation is None or remediation_id in self._journal.intents:
            return False
        if remediation.state not in ("", _APPROVED_STATE):
            return False  # another automation accepted it, or it is done
        return remediation.action in (*OUT, *BACK) and not self._why_not(remediation)

    async def carry_out(self, remediation_id: str) -> None:
        """Accept a remediation that is due, act, and answer."""
        if not self.is_due(remediation_id):
            return
        remediation = self._latest[remediation_id]
        try:
            if self._planner.plan(remediation) is None:
                return
        except Refused as error:
            # It is not accepted, because another automation may have this target.
            log.warning("not accepted remediation=%s error=%s", remediation_id, error)
            return
        self._journal.accept(remediation, self._now_ns())
        await self._act(self._journal.intents[remediation_id])

    def interrupted(self) -> list[str]:
        """Return the ids of what a crash interrupted, in the order in which they were accepted."""
        return [key for key, intent in self._journal.intents.items() if not intent.is_answered]

    async def resume(self, remediation_id: str) -> None:
        """Complete or undo what a crash interrupted; call it once, after the topic was read to its end."""
        intent = self._journal.intents[remediation_id]
        if intent.outcome:
            await self._answer(intent)
        elif not intent.is_begun:
            await self._act(intent)
        else:
            async with self._targets[intent.remediation.target_id]:
                await self._settle(intent)

    async def _act(self, intent: Intent) -> None:
        remediation = intent.remediation
        await self._answers.send(remediation.id, "ACCEPTED", "", {})
        async with self._targets[remediation.target_id]:
            if why := await self._not_confirmed(remediation) or self._why_not(self._newest(remediation)):
                await self._finish(remediation.id, "FAILED", f"{why}; nothing was changed")
                return
            self._journal.begin(remediation.id)
            try:
                detail = await self._run(remediation)
            except ActionError as error:
                log.warning("failed remediation=%s target=%s error=%s", remediation.id, remediation.target_id, error)
                detail = await self._undo(remediation) if remediation.action in OUT else ""
                await self._finish(remediation.id, "FAILED", f"{error}{detail}")
            else:
                await self._finish(remediation.id, "DONE", detail)

    async def _not_confirmed(self, remediation: Remediation) -> str:
        """Wait until `decide` confirms the acceptance, after its guards; return why not, empty if it did.

        A remediation without a state is of a `decide` that confirms none.
        """
        if not remediation.state:
            return ""
        try:
            async with asyncio.timeout(self._confirm_s), self._observed:
                await self._observed.wait_for(lambda: self._newest(remediation).state != _APPROVED_STATE)
        except TimeoutError:
            return "the acceptance was not confirmed"
        newest = self._newest(remediation)
        if newest.state != _ACCEPTED_STATE:
            return f"revision {newest.revision} is {newest.state}"
        acceptor = self._acceptors[remediation.id]
        return "" if acceptor == self._actor else f"accepted by {acceptor}"

    def _newest(self, remediation: Remediation) -> Remediation:
        return self._latest.get(remediation.id, remediation)

    async def _run(self, remediation: Remediation) -> str:
        plan = self._planner.plan(remediation)
        if plan is None:
            raise Refused(f"{remediation.action} is not supported any more")
        target_id = remediation.target_id
        if remediation.action in BACK:
            async with self._changing:
                return await self._bring_back(target_id, plan)
        async with self._changing:
            await self._take_out(remediation, plan.drain)
        if plan.work is None:
            return _list("changed", [c.address for c in self._journal.changes_of(target_id, remediation.id)])
        if plan.before_repair is not None:
            await plan.before_repair()
        async with self._changing:
            await self._take_out(remediation, plan.repair)
        detail = await plan.work()
        async with self._changing:
            await self._put_back(target_id, [c for c in self._journal.changes_of(target_id) if _is_in(c, plan.repair)])
        return detail

    async def _take_out(self, remediation: Remediation, settings: tuple[Setting, ...]) -> None:
        own = {change.address for change in self._journal.changes_of(remediation.target_id)}
        for setting in settings:
            if why := self._why_not(self._newest(remediation)):
                raise Refused(why)
            present = await setting.read()
            if setting.address in own:
                if setting.is_out(present):
                    continue
                self._journal.undone(remediation.target_id, setting.address)  # by another party
            wanted = setting.out(present, remediation.id)
            if wanted == present:
                continue  # another party's: it is not undone by us
            self._journal.change(remediation.target_id, Change(setting.address, remediation.id, present, wanted))
            await setting.write(wanted)
            await _read_back(setting, wanted)
            self._journal.confirm(remediation.target_id, setting.address)

    async def _bring_back(self, target_id: str, plan: Plan) -> str:
        changes = self._journal.changes_of(target_id)
        await self._put_back(target_id, changes)
        for setting in (*plan.drain, *plan.repair):
            if setting.is_out(await setting.read()):
                raise DeviceError(f"{setting.address} remains out of use: not by a change of this automation")
        return _list("restored", [change.address for change in changes])

    async def _put_back(self, target_id: str, changes: list[Change]) -> None:
        for change in changes:
            setting = self._planner.at(change.address)
            present = await setting.read()
            wanted = setting.back(present, change)
            if wanted != present:
                await setting.write(wanted)
                await _read_back(setting, wanted)
            self._journal.undone(target_id, change.address)

    async def _undo(self, remediation: Remediation) -> str:
        """Undo the changes of a failed action, until it succeeds; return what to add to its detail.

        No answer is sent before: without one `decide` counts the link as drained, which it may be.
        """
        target_id = remediation.target_id
        changes = self._journal.changes_of(target_id, remediation.id)
        while True:
            try:
                async with self._changing:
                    await self._put_back(target_id, self._journal.changes_of(target_id, remediation.id))
            except ActionError as error:
                log.warning("retrying undo remediation=%s target=%s error=%s", remediation.id, target_id, error)
                await asyncio.sleep(self._retry_s)
            else:
                return "; every change was undone" if changes else "; nothing was changed"

    async def _settle(self, intent: Intent) -> None:
        """Complete or undo an action that a crash interrupted."""
        remediation = intent.remediation
        try:
            plan = self._planner.plan(remediation)
            if remediation.action in BACK and plan is not None:
                async with self._changing:
                    detail = await self._bring_back(remediation.target_id, plan)
                await self._finish(remediation.id, "DONE", detail)
                return
            if plan is not None and plan.work is None and await self._is_complete(remediation, plan):
                await self._finish(remediation.id, "DONE", "completed before a restart")
                return
            why = "interrupted by a restart"
        except ActionError as error:
            why = str(error)
        undone = await self._undo(remediation) if remediation.action in OUT else ""
        await self._finish(remediation.id, "FAILED", f"{why}{undone}")

    async def _is_complete(self, remediation: Remediation, plan: Plan) -> bool:
        own = {change.address: change for change in self._journal.changes_of(remediation.target_id)}
        for setting in plan.drain:
            present = await setting.read()
            change = own.get(setting.address)
            if not (setting.is_out(present) if change is None else present == change.written):
                return False
        for change in own.values():
            if not change.is_confirmed:
                self._journal.confirm(remediation.target_id, change.address)
        return True

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
        await self._answers.send(remediation.id, intent.outcome, intent.detail, intent.prior_values)
        self._journal.answered(remediation.id)

    def _why_not(self, remediation: Remediation) -> str:
        """Return why a remediation may not be carried out now; empty if it may."""
        if remediation.verdict != APPROVED:
            return f"revision {remediation.revision} is {remediation.verdict}"
        if remediation.expires_at_ns <= self._now_ns():
            return "expired"
        return ""


async def _read_back(setting: Setting, wanted: object) -> None:
    present = await setting.read()
    if present != wanted:
        raise DeviceError(f"{setting.address}: set to {wanted!r}, but {present!r} was read back")


def _is_in(change: Change, settings: tuple[Setting, ...]) -> bool:
    return change.address in {setting.address for setting in settings}


def _list(what: str, addresses: list[str]) -> str:
    return f"{what} {', '.join(addresses)}" if addresses else f"nothing {what}"
