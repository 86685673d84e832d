"""The stage `decide`: decides remediations for findings, and moves each through its life cycle (life_cycle.py).

`decisions.py` tracks the findings and decides with the guards, `remedies.py` publishes the transitions, `answers.py`
processes answers, `repairs.py` returns targets to service.
"""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from streams.decide.answers import ANSWERS, AutomationAnswers, PersonAnswers
from streams.decide.controls import Controls
from streams.decide.decisions import Cases, Decisions
from streams.decide.evaluation import Evaluation
from streams.decide.fabric_view import FabricView, ModuleParts
from streams.decide.link_states import LinkStates
from streams.decide.params import DecideParams
from streams.decide.policy import Policy, load_policy
from streams.decide.publisher import Publisher
from streams.decide.recovery import recover
from streams.decide.remedies import Orders, Remedies
from streams.decide.repair_hints import RepairHints
from streams.decide.repairs import HostRestarts, Repairs, Unanswered
from streams.decide.state import DecideState
from streams.fabric.subject_search import find_subject
from streams.fabric.topology import Topology
from streams.wire.models import (
    Control,
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
)
from streams.wire.stage import Output
from streams.wire.topics import CONTROLS, REMEDIATION_RESULTS, REMEDIATIONS, Headers, Record, Topic

if TYPE_CHECKING:
    from streams.wire.signatures import SignatureVerifier, Signer


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
        params, fabric = self._params, self._fabric
        self._state, self._revisions = state, revisions
        self._controls = Controls(strict=bool(params.trusted_keys))
        self._controls.load(state.controls)
        self._controls.loaded, self._controls.topology = self._loaded, fabric.topology
        self._publisher = Publisher(state, revisions)
        orders = Orders(params, state, self._publisher, self._policy.reversal_of)
        hints = RepairHints(state.repairs, fabric.part_number)
        self._remedies = Remedies(params, state, self._publisher, orders, hints)
        self._evaluation = Evaluation(params, fabric, state, self._controls)
        self._cases = Cases(params, state, self._remedies, self._evaluation)
        self._decisions = Decisions(params, self._policy, fabric, state, self._evaluation, self._remedies, self._cases)
        self._repairs = Repairs(params, fabric, self._controls, self._remedies, self._cases)
        self._unanswered = Unanswered(params, fabric, state, self._remedies)
        self._restarts = HostRestarts(self._policy, self._evaluation, state, self._remedies)
        self._persons = PersonAnswers(
            state, self._remedies, self._decisions, self._restarts, fabric.has
        )  # fmt: skip
        self._automation = AutomationAnswers(
            params, state, self._remedies, self._evaluation.is_allowed,
            lambda remedy: (
                self._restarts.is_allowed(remedy) and self._repairs.is_allowed(remedy, self._state.watermark_ns)
            ),
        )  # fmt: skip

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
        self._fabric.set_topology(topology)
        self._controls.topology = topology
        self._evaluation.expire()
        self._state.is_changed = True
        return []

    def recover(self, batch: Sequence[Message]) -> list[Output]:
        """Apply the controls up to their end, and without a snapshot the published remediations.

        Until this call an unread kill switch may exist, so nothing is approved.
        """
        history = [message for message in batch if isinstance(message, Remediation)]
        others = [message for message in batch if not isinstance(message, Remediation)]
        if not self._is_restored:
            recover(history, self._state, self._remedies)
            others = [one for one in others if not (isinstance(one, Control) and self._persons.has_passed(one))]
        self._loaded = self._controls.loaded = True
        return self.process(others)

    def process(self, batch: Sequence[Message]) -> list[Output]:
        for message in batch:
            self._evaluation.expire()
            if isinstance(message, Finding):
                self._cases.process(message)
            elif isinstance(message, RemediationResult):
                self._automation.process(message)
            elif isinstance(message, Control):
                self._on_control(message)
            elif isinstance(message, PortStates | ReadingsHeartbeat | PortQuality | PortModules):
                self._fabric.update(message)
        if self._must_revoke:
            self._must_revoke = False
            self._evaluation.expire()
            self._decisions.revoke_denied()
        return self._publisher.drain()

    def advance_watermark(self, watermark_ns: int) -> list[Output]:
        state = self._state
        if watermark_ns <= state.watermark_ns:
            return []
        now = state.watermark_ns = watermark_ns
        self._evaluation.expire()
        self._fabric.advance(now)
        for identity in self._controls.prune(now):
            self._publisher.remove(identity)
        self._remedies.apply_timeouts(now)
        self._unanswered.advance(now)
        self._repairs.advance(now)
        self._restarts.advance(now)
        is_again = state.is_changed or now - state.evaluated_ns >= round(self._params.evaluate_s * 1e9)
        if is_again:
            state.is_changed, state.evaluated_ns = False, now
            state.isolations.prune(now)
            self._cases.prune(now)
            self._decisions.revoke_denied()
        self._decisions.decide_due(now)
        if is_again:
            self._decisions.decide_denied()
        return self._publisher.drain()

    def _on_control(self, control: Control) -> None:
        """Apply a control, and answer it; a record that is read again changes nothing."""
        controls, publisher = self._controls, self._publisher
        if control.kind is ControlKind.ACKNOWLEDGE:
            return
        control, nearest = self._with_subject(control)
        if controls.is_known(control):
            return
        if nearest is not None:
            reason = f"the inventory has no {control.subject_id}"
            publisher.answer(control, ControlEffect.UNKNOWN_SUBJECT, reason, nearest)
        elif reason := controls.update(control):
            publisher.answer(control, ControlEffect.REFUSED, reason)
        elif control.kind in ANSWERS:
            before = publisher.count
            self._persons.process(control)
            self._answer_person(control, publisher.revisions_after(before))
        else:
            self._state.is_changed = self._must_revoke = True
            if control.kind is ControlKind.KIND_UNSPECIFIED:
                publisher.remove(control.id)
            else:
                publisher.answer(control, ControlEffect.TAKEN)

    def _with_subject(self, control: Control) -> tuple[Control, Sequence[str] | None]:
        """Return a control with its subject's id in the inventory, or the nearest ids if the inventory has none.

        An end of a control, and every control while there is no inventory, retains its subject.
        """
        topology = self._fabric.topology
        is_end = control.until_ns is not None and control.until_ns <= control.effective_ns
        is_scoped = control.kind in (ControlKind.MAINTENANCE, ControlKind.EXCLUDE) and control.subject_id
        if not is_scoped or is_end or not topology.devices:
            return control, None
        found = find_subject(topology, control.subject_id)
        if not found.subject_id:
            return control, found.nearest
        return replace(control, subject_id=found.subject_id), None

    def _answer_person(self, control: Control, revisions: Sequence[Remediation]) -> None:
        """Answer a control that names a remediation, by the revisions that it caused."""
        if revisions:
            effects = (f"{one.action.name} {one.target.id} is {one.state.name}: {one.reason}" for one in revisions)
            self._publisher.answer(control, ControlEffect.TAKEN, "; ".join(effects))
        elif (remedy := self._state.remedies.get(control.subject_id)) is not None:
            reason = f"{remedy.record.action.name} {remedy.target_id} is {remedy.state.name}"
            self._publisher.answer(
                control, ControlEffect.REFUSED, f"{reason}, in which {control.kind.name} has no effect"
            )
        else:
            reason = (
                f"no remediation {control.subject_id} is open, or its order accepts no {control.kind.name} any more"
            )
            self._publisher.answer(control, ControlEffect.REFUSED, reason)

    def limit_time(self, limit_ns: int) -> None:
        """Return to an earlier watermark; earlier decisions stay."""
        state = self._state
        state.evaluated_ns = min(state.evaluated_ns, limit_ns)
        state.watermark_ns = min(state.watermark_ns, limit_ns)
        self._fabric.links.limit_time(limit_ns)

    def snapshot(self) -> bytes:
        self._state.links, self._state.controls = self._fabric.links.dump(), self._controls.dump()
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
