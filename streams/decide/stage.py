"""The stage `decide`: decides remediations for findings, and moves each through its life cycle (life_cycle.py).

`decisions.py` tracks the findings and decides with the guards, `remedies.py` publishes the transitions, `answers.py`
processes answers, `repairs.py` returns targets to service. All are functions over one working state (core.py).
"""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from streams.decide import answers, decisions, identities, remedies, repairs
from streams.decide.controls import SCOPED, Controls, Identity
from streams.decide.core import Core
from streams.decide.fabric_view import FabricView, ModuleParts
from streams.decide.link_states import LinkStates
from streams.decide.params import DecideParams
from streams.decide.policy import Policy, load_policy
from streams.decide.recovery import recover
from streams.decide.state import DecideState
from streams.fabric.subject_search import find_subject
from streams.fabric.topology import Topology
from streams.wire.models import (
    Control,
    ControlAnswer,
    ControlEffect,
    ControlKind,
    Finding,
    Message,
    PortModules,
    PortQuality,
    PortStates,
    ReadingsHeartbeat,
    Remediation,
    RemediationResult,
    SchedulerAnswer,
)
from streams.wire.stage import Output
from streams.wire.topics import CONTROLS, REMEDIATION_RESULTS, REMEDIATIONS, Headers, Record, Topic

if TYPE_CHECKING:
    from streams.wire.signatures import SignatureVerifier, Signer


_SILENT_NS = 30 * 86_400_000_000_000
"""A scheduler that is removed from the configuration of the jobs collector counts for 30 days (choice)."""


class Decide:
    """The stage `decide`, which has one owner."""

    name = "decide"

    def __init__(
        self, params: DecideParams, policy: Policy | None = None, fabric: str = "local", signer: "Signer | None" = None
    ) -> None:
        """Create the stage; `fabric` is the name in signatures, `signer` signs the remediations."""
        self._params = params
        self._fabric_name, self._signer = fabric, signer
        self._policy = policy or load_policy()
        self._fabric = FabricView(params)
        self._is_restored = False
        self._loaded = False
        self._must_revoke = False
        """True after a control that may deny an approval; evaluated once for a batch, so that the cost is linear."""
        self._set_state(DecideState(), itertools.count(1))

    def _set_state(self, state: DecideState, revisions: "itertools.count[int]") -> None:
        self._state, self._revisions = state, revisions
        self._controls = Controls(strict=bool(self._params.trusted_keys))
        self._controls.load(state.controls, state.control_identities)
        self._controls.loaded, self._controls.topology = self._loaded, self._fabric.topology
        self._core = Core(self._params, self._policy, self._fabric, state, self._controls, revisions)
        for remedy in state.remedies.values():
            remedies.index(self._core, remedy)
        for remedy in state.late.values():
            remedies.index_orders(self._core, remedy)

    @property
    def link_states(self) -> LinkStates:
        """The states of the links as of the last message."""
        return self._fabric.links

    @property
    def watermark_ns(self) -> int:
        return self._state.watermark_ns

    def start_epoch(self, epoch: int) -> None:
        self._set_state(self._state, itertools.count((epoch << 32) + 1))

    def set_topology(self, topology: Topology) -> list[Output]:
        is_same = topology.links is self._fabric.topology.links
        if not is_same:
            identities.record(self._core)
        self._fabric.set_topology(topology)
        self._controls.topology = topology
        self._core.expire()
        self._state.is_changed = True
        if not is_same:
            identities.follow(self._core)
        return self._core.drain()

    def recover(self, batch: Sequence[Message], content: Collection[Message] | None = None) -> list[Output]:
        """Apply the unread controls up to their end, and without a snapshot the published remediations.

        Without a snapshot the answers have the controls in effect and their subjects' identities. Until this call an
        unread kill switch may exist, so nothing is approved. A control that the topic does not have any more, because
        it was recreated, is lifted; not if controls are signed, as a deletion has no signature. Each control in effect
        without an answer is answered again: the topic of answers is what a status shows.
        """
        history = [message for message in batch if isinstance(message, Remediation)]
        answered = [one for one in batch if isinstance(one, ControlAnswer) and one.effect is ControlEffect.TAKEN]
        taken = {one.control.id: one.control for one in answered if one.control and one.control.kind in SCOPED}
        others = [message for message in batch if not isinstance(message, Remediation | ControlAnswer)]
        if not self._is_restored:
            self._controls.load(taken.values(), {one.control.id: one.identity for one in answered if one.control})
            recover(self._core, history)
            identities.follow(self._core)
            others = [one for one in others if not (isinstance(one, Control) and answers.has_passed(self._core, one))]
        if content is not None:
            if not self._params.trusted_keys:
                present = {one.id for one in content if isinstance(one, Control) and one.kind}
                lifted = [one for one in self._controls.in_effect() if one.id not in present]
                others[:0] = [Control(one.id, ControlKind.KIND_UNSPECIFIED) for one in lifted]
            for control in self._controls.in_effect():
                if control.id not in taken:
                    self._core.answer(control, ControlEffect.TAKEN)
        self._loaded = self._controls.loaded = True
        return self.process(others)

    def process(self, batch: Sequence[Message]) -> list[Output]:
        core = self._core
        for message in batch:
            core.expire()
            if isinstance(message, Finding):
                decisions.process_finding(core, message)
            elif isinstance(message, RemediationResult):
                answers.process_result(core, message)
            elif isinstance(message, Control):
                self._on_control(message)
            elif isinstance(message, PortStates | ReadingsHeartbeat | PortQuality | PortModules):
                self._fabric.update(message)
            elif isinstance(message, SchedulerAnswer):
                self._state.schedulers[message.name] = message
            core.settle()
        if self._must_revoke:
            self._must_revoke = False
            core.expire()
            decisions.revoke_denied(core)
            repairs.check_orders(core)
        return core.drain()

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        state, core = self._state, self._core
        if watermark_ns <= state.watermark_ns:
            return []
        now = state.watermark_ns = watermark_ns
        core.expire()
        self._fabric.advance(now)
        for identity in self._controls.prune(now):
            core.end_control(identity)
        remedies.apply_timeouts(core)
        repairs.conclude_unanswered(core)
        repairs.advance(core)
        is_again = state.is_changed or now - state.evaluated_ns >= round(self._params.evaluate_s * 1e9)
        if is_again:
            state.is_changed, state.evaluated_ns = False, now
            state.isolations.prune(now)
            for name in [one.name for one in state.schedulers.values() if now - one.arrived_at_ns > _SILENT_NS]:
                del state.schedulers[name]
            decisions.prune(core)
            decisions.revoke_denied(core)
        self._process_deferred()
        decisions.decide_due(core)
        if is_again:
            decisions.decide_denied(core)
        return core.drain()

    def _on_control(self, control: Control) -> None:
        """Apply a control, and answer it; a record that is read again changes nothing."""
        controls, core = self._controls, self._core
        is_over = control.kind is ControlKind.KIND_UNSPECIFIED and controls.get(control.id) is None
        if control.kind is ControlKind.ACKNOWLEDGE or is_over:
            return
        if controls.is_known(control):
            return
        control, identity, nearest = self._with_subject(control)
        if nearest is not None:
            reason = f"the inventory has no {control.subject_id}"
            core.answer(control, ControlEffect.UNKNOWN_SUBJECT, reason, nearest)
        elif reason := controls.update(control, identity):
            if control.kind is not ControlKind.KIND_UNSPECIFIED:
                core.answer(control, ControlEffect.REFUSED, reason)
        elif control.kind is ControlKind.APPROVE and answers.lacks_finding(core, control):
            self._state.deferred.append(control.id)
        elif control.kind in answers.ANSWERS:
            answers.process_answer(core, control)
        else:
            self._state.is_changed = self._must_revoke = True
            if control.kind is ControlKind.KIND_UNSPECIFIED:
                core.remove_answer(control.id)
            else:
                core.answer(control, ControlEffect.TAKEN)

    def _process_deferred(self) -> None:
        """Process the approvals whose remediation has its finding again, which is read after a loss of state."""
        state, core = self._state, self._core
        for identity in list(state.deferred):
            control = self._controls.get(identity)
            if control is None or not answers.lacks_finding(core, control):
                state.deferred.remove(identity)
            if control is not None and identity not in state.deferred:
                answers.process_answer(core, control)

    def _with_subject(self, control: Control) -> tuple[Control, Identity, Sequence[str] | None]:
        """Return a control with its subject's id and identity, or the nearest ids if the inventory has none.

        An end of a control, and every control while there is no inventory, retains its subject.
        """
        topology = self._fabric.topology
        is_end = control.until_ns is not None and control.until_ns <= control.effective_ns
        is_scoped = control.kind in (ControlKind.MAINTENANCE, ControlKind.EXCLUDE) and control.subject_id
        if not is_scoped or is_end or not topology.devices:
            return control, (), None
        found = find_subject(topology, control.subject_id)
        if not found.subject_id:
            return control, (), found.nearest
        return replace(control, subject_id=found.subject_id), self._fabric.identity(found.subject_id), None

    def limit_time(self, limit_ns: int) -> None:
        """Return to an earlier watermark; earlier decisions stay."""
        state = self._state
        state.evaluated_ns = min(state.evaluated_ns, limit_ns)
        state.watermark_ns = min(state.watermark_ns, limit_ns)
        self._fabric.links.limit_time(limit_ns)

    def snapshot(self) -> bytes:
        identities.record(self._core)
        self._state.links, self._state.controls = self._fabric.links.dump(), self._controls.dump()
        self._state.control_identities = self._controls.identities
        self._state.modules, self._state.traffic = self._fabric.modules.dump(), self._fabric.traffic.dump()
        return self._state.to_bytes()

    def restore(self, data: bytes) -> None:
        fabric, state = self._fabric, DecideState.from_bytes(data)
        links, modules, traffic = fabric.no_links(), ModuleParts(), fabric.no_traffic()
        links.load(state.links)
        modules.load(state.modules)
        traffic.load(state.traffic)
        fabric.links, fabric.modules, fabric.traffic, self._is_restored = links, modules, traffic, True
        self._set_state(state, self._revisions)
        identities.follow(self._core)

    def verify(self, topic: Topic, key: bytes | None, value: bytes | None, headers: Headers, arrived_ns: int) -> None:
        """Raise Reject on a control or result without a required signature."""
        if self._params.trusted_keys and topic in (CONTROLS, REMEDIATION_RESULTS):
            self._verifier.verify(topic, key, value, headers, arrived_ns)

    def sign(self, record: Record, now_ns: int) -> Record:
        """Return a remediation with the signature of this fabric; other records, and all without a key, unchanged."""
        if self._signer is None or record.topic is not REMEDIATIONS:
            return record
        return self._signer.sign(record, now_ns)

    @cached_property
    def _verifier(self) -> "SignatureVerifier":
        from streams.wire.signatures import SignatureVerifier

        return SignatureVerifier(self._params.trusted_keys, self._fabric_name)
