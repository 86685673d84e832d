"""Changes settings one by one, reads each back, and undoes own changes, with a journal entry before each step.

A remediation makes each change at most once. Restoring a link or host is repeated, because it removes only own
changes. A failed action is undone in reverse order.
"""

import asyncio
import logging
from collections.abc import Callable

from railsight_automation.errors import ActionError, DeviceError, Refused
from railsight_automation.journal import Change, Journal
from railsight_automation.messages import Remediation
from railsight_automation.plan import Plan, Planner, Setting

log = logging.getLogger(__name__)


class Changes:
    """Makes and undoes the changes of one automation, one at a time in the whole fabric."""

    def __init__(
        self, journal: Journal, planner: Planner, why_not: Callable[[Remediation], str], retry_s: float
    ) -> None:
        self._journal = journal
        self._planner = planner
        self._why_not = why_not
        """Returns why a remediation may not be carried out now; empty if it may."""
        self._retry_s = retry_s
        self._changing = asyncio.Lock()
        """Serializes changes: a concurrent change rehashes the flows of the first (ECMP)."""

    async def take_out(self, remediation: Remediation, settings: tuple[Setting, ...]) -> None:
        """Take each setting out of use, unless an own change did that already; raise ActionError."""
        async with self._changing:
            for setting in settings:
                if why := self._why_not(remediation):
                    raise Refused(why)
                present = await setting.read()
                if (own := self._journal.find(setting.address)) is not None:
                    if setting.is_own(present, own[1]):
                        continue
                    self._journal.undone(own[0], setting.address)  # another party undid or replaced it
                wanted = setting.out(present, remediation.id)
                if wanted == present:
                    continue  # another party's change, which is never undone here
                self._journal.change(remediation.target_id, Change(setting.address, remediation.id, present, wanted))
                await setting.write(wanted)
                await _read_back(setting, wanted)
                self._journal.confirm(remediation.target_id, setting.address)

    async def bring_back(self, target_id: str, plan: Plan) -> str:
        """Undo every own change of a target; raise DeviceError if another party still keeps it out of use.

        A change under a former name is undone there if it is in effect there, else under the present name where the
        present value is the written one.
        """
        async with self._changing:
            changes, settings = self._journal.changes_of(target_id), (*plan.drain, *plan.hold)
            addresses = {setting.address for setting in settings}
            renamed = [c for c in changes if c.address not in addresses and not await self._is_in_effect(c)]
            await self._put_back(target_id, [change for change in changes if change not in renamed])
            for setting in settings:
                present = await setting.read()
                for change in renamed:
                    if _role(change.address) == _role(setting.address) and present == change.written:
                        await _write(setting, present, setting.back(present, change))
                        present = await setting.read()
                if setting.is_out(present):
                    raise DeviceError(f"{setting.address} remains out of use: not by a change of this automation")
            for change in renamed:
                self._journal.undone(target_id, change.address)
        return listed("restored", [change.address for change in changes])

    async def give_up(self, target_id: str) -> None:
        """Undo the own changes of a target once; what fails is undone at the next call."""
        async with self._changing:
            for change in self._journal.changes_of(target_id):
                try:
                    await self._put_back(target_id, [change])
                except ActionError as error:
                    log.warning("retrying undo target=%s address=%s error=%s", target_id, change.address, error)

    async def _is_in_effect(self, change: Change) -> bool:
        try:
            setting = self._planner.at(change.address)
            return setting.is_own(await setting.read(), change)
        except ActionError:
            return False

    async def release(self, remediation: Remediation, settings: tuple[Setting, ...]) -> None:
        """Undo the own changes of these settings; retry until that succeeds."""
        addresses = {setting.address for setting in settings}
        own = [c for c in self._journal.changes_of(remediation.target_id) if c.address in addresses]
        await self._until_put_back(remediation, own)

    async def undo(self, remediation: Remediation) -> str:
        """Undo the changes of a failed action, retry until that succeeds, and return a text to add to its detail.

        The answer is sent afterwards: without an answer `decide` counts the link as drained, which it may be.
        """
        changes = self._journal.changes_of(remediation.target_id, remediation.id)
        await self._until_put_back(remediation, changes)
        return "; every change was undone" if changes else "; nothing was changed"

    async def _until_put_back(self, remediation: Remediation, changes: list[Change]) -> None:
        while True:
            try:
                async with self._changing:
                    in_effect = self._journal.changes_of(remediation.target_id)
                    await self._put_back(remediation.target_id, [c for c in changes if c in in_effect])
            except ActionError as error:
                log.warning(
                    "retrying undo remediation=%s target=%s error=%s", remediation.id, remediation.target_id, error
                )
                await asyncio.sleep(self._retry_s)
            else:
                return

    async def are_undone(self, changes: list[Change]) -> bool:
        """Return whether another party has undone all of these changes; False without any, or if one is unreadable."""
        try:
            states = [(setting, await setting.read()) for setting in (self._planner.at(c.address) for c in changes)]
        except ActionError as error:
            log.warning("cannot check own changes error=%s", error)
            return False
        return bool(states) and not any(setting.is_out(present) for setting, present in states)

    async def is_complete(self, remediation: Remediation, settings: tuple[Setting, ...]) -> bool:
        """Return whether all settings are out of use, by interrupted own changes or by another party."""
        own = {change.address: change for change in self._journal.changes_of(remediation.target_id)}
        for setting in settings:
            present = await setting.read()
            change = own.get(setting.address)
            if not (setting.is_out(present) if change is None else present == change.written):
                return False
        for change in own.values():
            if not change.is_confirmed:
                self._journal.confirm(remediation.target_id, change.address)
        return True

    async def _put_back(self, target_id: str, changes: list[Change]) -> None:
        for change in changes:
            setting = self._planner.at(change.address)
            present = await setting.read()
            await _write(setting, present, setting.back(present, change))
            self._journal.undone(target_id, change.address)


def listed(what: str, addresses: list[str]) -> str:
    """Return the detail of a result: the verb `what` and the addresses."""
    return f"{what} {', '.join(addresses)}" if addresses else f"nothing {what}"


async def _write(setting: Setting, present: object, wanted: object) -> None:
    if wanted != present:
        await setting.write(wanted)
        await _read_back(setting, wanted)


def _role(address: str) -> str:
    """Return the kind of a setting, and the leaf of a path, which a rename does not change."""
    kind, _, rest = address.partition(":")
    return f"{kind}:{rest.rpartition('/')[2]}" if "/" in rest else kind


async def _read_back(setting: Setting, wanted: object) -> None:
    present = await setting.read()
    if present != wanted:
        raise DeviceError(f"{setting.address}: set to {wanted!r}, but {present!r} was read back")
