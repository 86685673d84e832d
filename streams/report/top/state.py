"""Computes the terminal's state from findings, remediations, controls, progress, statuses and the inventory.

`follow_state` updates it from the topics of a running pipeline, and retries while the brokers do not answer.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from streams.config.kafka import KafkaSettings
from streams.detect.fabric_side import devices_of
from streams.fabric.topology import Topology
from streams.report.open_findings import acknowledgements
from streams.runtime.stage_progress import StageProgress
from streams.runtime.topic_io import follow
from streams.wire.errors import Reject, Retry
from streams.wire.inventory_topic import Assembler
from streams.wire.models import (
    CollectorStatus,
    Condition,
    Control,
    Finding,
    InventoryChunk,
    Message,
    Progress,
    Remediation,
    Severity,
)
from streams.wire.topics import (
    BY_NAME,
    COLLECTOR_STATUS,
    CONTROLS,
    FINDINGS,
    FINDINGS_OPEN,
    INVENTORY,
    PROGRESS,
    REMEDIATIONS_OPEN,
    STAGES,
    Topic,
    decode,
)

MAX_CHANGES = 200
SEVERITY_COLORS = {Severity.INFO: "cyan", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red"}


@dataclass(slots=True)
class TopState:
    """The state of the terminal from all received messages."""

    topology: Topology | None = None
    findings: dict[str, Finding] = field(default_factory=dict)
    changes: deque[Finding] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))
    remediations: dict[str, Remediation] = field(default_factory=dict)
    controls: dict[str, Control] = field(default_factory=dict)
    statuses: dict[tuple[str, int, str], CollectorStatus] = field(default_factory=dict)
    stages: dict[str, StageProgress] = field(default_factory=lambda: {stage: StageProgress() for stage in STAGES})
    rows: dict[str, int] = field(default_factory=dict)
    """Table -> its rows in ClickHouse, if they are counted."""

    def update(self, message: Message | Topology, now_s: float) -> None:
        """Apply one message that arrived at `now_s`."""
        match message:
            case Topology():
                self.topology = message
            case Progress(stage=stage) if stage in self.stages:
                self.stages[stage].update(message, now_s)
            case Finding():
                self.update_finding(message)
            case Remediation(id=identity, revision=revision):
                known = self.remediations.get(identity)
                if known is None or revision >= known.revision:
                    self.remediations[identity] = message
            case Control(id=identity):
                self.controls[identity] = message
            case CollectorStatus(device=device, source=source, collector=collector):
                self.statuses[device, source, collector] = message

    def remove(self, topic: str, key: str) -> None:
        """Apply a tombstone, which ends the finding, remediation or control with this key."""
        of_topic: dict[str, dict[str, Any]] = {
            FINDINGS_OPEN.name: self.findings, REMEDIATIONS_OPEN.name: self.remediations, CONTROLS.name: self.controls,
        }  # fmt: skip
        if topic in of_topic:
            of_topic[topic].pop(key, None)

    def update_finding(self, finding: Finding) -> None:
        """Apply one revision of a finding; ignore it if a higher one is known."""
        known = self.findings.get(finding.id)
        if known is not None and finding.revision < known.revision:
            return
        if known is None or (known.status, known.severity) != (finding.status, finding.severity):
            self.changes.append(finding)
        self.findings[finding.id] = finding

    @property
    def open_findings(self) -> list[Finding]:
        """The open findings: root findings first, then by severity."""
        unresolved = [finding for finding in self.findings.values() if not finding.is_closed]
        return sorted(unresolved, key=lambda f: (bool(f.parent_id), -f.severity, f.started_at_ns))

    def acknowledged(self, now_ns: int) -> dict[str, Control]:
        """Return the acknowledgements in force, by the id of their finding."""
        return acknowledgements(self.controls.values(), now_ns)

    def read_devices(self) -> frozenset[str]:
        """Return the devices that a collector reaches; without a reading, no finding does not mean health."""
        return frozenset(one.device for one in self.statuses.values() if one.reachable and not one.ended)

    def worst_by_device(self) -> dict[str, Finding]:
        """Return, for each device, the worst open finding at it or at one of its links."""
        worst: dict[str, Finding] = {}
        for finding in self.open_findings:
            for device in devices_of(finding):
                known = worst.get(device)
                if known is None or _rank(finding) > _rank(known):
                    worst[device] = finding
        return worst


def _rank(finding: Finding) -> tuple[int, bool]:
    """Return the sort key of severity; device/down ranks first because it explains findings of the device's links."""
    return (finding.severity, finding.condition is Condition.DEVICE_DOWN)


COMPACTED = (INVENTORY, FINDINGS_OPEN, REMEDIATIONS_OPEN, CONTROLS, COLLECTOR_STATUS)
"""Topics with the present state, which are read from their beginning."""
STREAMS = (PROGRESS, FINDINGS)
"""Topics with changes, which are read from their end."""
RETRY_S = 0.5


async def follow_state(kafka: KafkaSettings, state: TopState, *, with_inventory: bool = True) -> None:
    """Update the state from the topics until cancelled, without the inventory for a caller that has its own."""
    compacted = [topic for topic in COMPACTED if with_inventory or topic is not INVENTORY]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_follow(kafka, state, compacted, from_end=False))
        tasks.create_task(_follow(kafka, state, STREAMS, from_end=True))


async def _follow(kafka: KafkaSettings, state: TopState, topics: Sequence[Topic], *, from_end: bool) -> None:
    assembler = Assembler()
    positions: dict[tuple[str, int], int] = {}
    while True:
        with suppress(Retry):
            async for record in follow(kafka, *topics, from_end=from_end, positions=positions):
                fold(state, record, assembler, time.monotonic())
        await asyncio.sleep(RETRY_S)


def fold(state: TopState, record: Any, assembler: Assembler, now_s: float) -> None:
    """Apply one record to the state; ignore an unreadable one."""
    if record.value is None:
        state.remove(record.topic, record.key.decode(errors="replace"))
        return
    try:
        message = decode(BY_NAME[record.topic], record.value, record.headers)
        if not isinstance(message, InventoryChunk):
            state.update(message, now_s)
        elif (version := assembler.add(message)) is not None:
            state.update(version[1], now_s)
    except Reject:
        return
