"""Writes the state of a remediation into its published records, and reads it after a loss of the snapshot.

A remediation's record has only what its readers need. The memory has the other fields of the state, such as relapses,
rejections and orders, and those of the cases of its findings. recovery.py reads the memories of all records.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.decide.controls import Identity
from streams.decide.state import CaseMemory, DecideState, Order, Remedy
from streams.wire.models import Remediation, RepairStep

_RECORDED = ("record", "finding", "order")
"""The fields of a Remedy that are read elsewhere: in the record, in the topic of findings, in the order's record."""


@dataclass(slots=True)
class _Step:
    """The repair step of a record, which may change after its last revision."""

    repair_step: RepairStep
    repair_hint: str
    step_helped: int
    step_tried: int


@dataclass(slots=True)
class _OrderMemory:
    """The open order of a remediation, whose record is published under its own id."""

    id: str
    issued_ns: int
    accepted_by: str


@dataclass(slots=True)
class Memory:
    """The memory of one record; an order's record has that of its remediation."""

    id: str = ""
    """The remediation; empty if it is closed and no answer is expected."""
    remedy: dict[str, Any] = field(default_factory=dict)
    """The fields of the Remedy that differ from their default."""
    target: Identity = ()
    """The identity of the target, which may have another name when the record is read."""
    step: _Step | None = None
    order: _OrderMemory | None = None
    cases: dict[str, CaseMemory] = field(default_factory=dict)

    def restore(self, records: Mapping[str, Remediation]) -> Remedy | None:
        """Return the remediation, with the last records by id; None if this version cannot read it."""
        record, order = records.get(self.id), None
        if record is None or not self.remedy.keys() <= _NAMES:
            return None
        if self.step is not None:
            record = replace(record, **{one.name: getattr(self.step, one.name) for one in fields(_Step)})
        if self.order is not None and self.order.id in records:
            order = Order(records[self.order.id], self.order.issued_ns, self.order.accepted_by)
        try:
            remedy: Remedy = _REMEDY.validate_python({**self.remedy, "record": record, "finding": None, "order": order})
        except ValidationError:
            return None
        return remedy


_NAMES = frozenset(one.name for one in fields(Remedy) if one.name not in _RECORDED)
_MEMORY, _REMEDY = TypeAdapter(Memory), TypeAdapter(Remedy)


def with_memory(record: Remediation, remedy: Remedy | None, state: DecideState, target: Identity) -> Remediation:
    """Return a revision with the memory of its remediation, or of the one that an order belongs to."""
    own = Memory() if remedy is None else _memory(remedy)
    own.target = state.identities.get(record.target.id) or target
    for identity in record.finding_ids:
        if (case := state.cases.get(identity)) is not None:
            holder = state.remedies.get(case.remedy)
            leads = holder is not None and holder.finding is not None and holder.finding.id == identity
            own.cases[identity] = CaseMemory(case.finding.revision, case.remedy, leads, case.decided, case.rejected)
    return replace(record, memory=orjson.dumps(own).decode())


def _memory(remedy: Remedy) -> Memory:
    record, order, changed = remedy.record, remedy.order, {}
    for one in fields(Remedy):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if one.name not in _RECORDED and (value := getattr(remedy, one.name)) != default:
            changed[one.name] = value
    own = None if order is None else _OrderMemory(order.record.id, order.issued_ns, order.accepted_by)
    step = _Step(record.repair_step, record.repair_hint, record.step_helped, record.step_tried)
    return Memory(remedy.id, changed, step=step, order=own)


def gather(history: Sequence[Remediation], state: DecideState) -> dict[str, Memory]:
    """Return the last memory of each remediation from all records, oldest first; fill the cases and the identities."""
    memories: dict[str, Memory] = {}
    for record in history:
        memories.pop(record.id, None)  # a closed one is not continued, nor one without a readable memory
        try:
            own: Memory = _MEMORY.validate_json(record.memory)
        except ValidationError:
            continue
        state.remembered |= own.cases
        state.identities[record.target.id] = own.target
        if own.id:
            memories[own.id] = own
    state.identities = {name: one for name, one in state.identities.items() if one}
    return memories
