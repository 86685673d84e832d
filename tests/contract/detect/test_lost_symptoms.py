"""Every detector whose end is among symptoms and summaries that were deleted unread concludes by the present states."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from streams.detect.attribute.stage import Attribute
from streams.detect.correlate.stage import Correlate
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.topology import Topology
from streams.replay.driver import event_time
from streams.wire.models import Finding, Message, Status
from streams.wire.stage import Output
from streams.wire.topics import EPISODES, FINDINGS, PORT_STATES, SUMMARIES, SYMPTOMS, decode, encode
from tests.contract.detect.cases import LABELLED, case_messages

BEFORE_NS, AFTER_NS = 5 * 10**9, 200 * 10**9
"""Lost are the messages between `measure` and `correlate` from so long before the end of the fault until after it."""


@dataclass
class Pipeline:
    """Three stages with a loss between the first two; PORT_STATES as a compacted topic has it."""

    topology: Topology
    measure: Measure = field(default_factory=lambda: Measure(DetectParams()))
    correlate: Correlate = field(default_factory=lambda: Correlate(DetectParams()))
    attribute: Attribute = field(default_factory=lambda: Attribute(DetectParams()))
    present: dict[bytes, Message] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)

    def play(self, messages: Iterable[Message], lost_ns: tuple[int, int]) -> None:
        """Play all messages; after the lost ones compare with the present states."""
        for stage in (self.measure, self.correlate, self.attribute):
            stage.start_epoch(1)
            stage.set_topology(self.topology)
        was_lost = False
        for message in messages:
            is_lost = lost_ns[0] <= event_time(message)[0] < lost_ns[1]
            if was_lost and not is_lost:
                self.reconcile()
            was_lost = is_lost
            self._on_measured(self.measure.process([message]), is_lost=is_lost)
            if not is_lost:
                self._advance(self.measure.watermark_ns)
        for hours in (1, 48):
            self._advance(self.measure.watermark_ns + hours * 3600 * 10**9)
            before = dict(self.findings)
            self.reconcile()
            assert self.findings == before, "a later comparison, when all is final and dropped, changes nothing"

    def reconcile(self) -> None:
        """Compare `correlate` with the present states; to do it twice changes no finding."""
        present = list(self.present.values())
        self._on_episodes(self.correlate.reconcile(present, lambda _: True))
        before = dict(self.findings)
        self._on_episodes(self.correlate.reconcile(present, lambda _: True))
        assert self.findings == before

    def _advance(self, watermark_ns: int) -> None:
        self._on_episodes(self.correlate.advance_watermark(watermark_ns))
        self._on_findings(self.attribute.advance_watermark(watermark_ns))

    def _on_measured(self, outputs: Iterable[Output], *, is_lost: bool) -> None:
        for output in outputs:
            assert output.message is not None
            if output.topic is PORT_STATES:
                record = encode(PORT_STATES, output.message, key=output.key)
                self.present[record.key] = decode(PORT_STATES, record.value, record.headers)
            elif output.topic in (SYMPTOMS, SUMMARIES) and not is_lost:
                self._on_episodes(self.correlate.process([output.message]))

    def _on_episodes(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            assert output.message is not None
            if output.topic is EPISODES:
                self._on_findings(self.attribute.process([output.message]))

    def _on_findings(self, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if output.topic is FINDINGS and isinstance(output.message, Finding):
                self.findings[output.message.id] = output.message


@pytest.mark.parametrize("slug", LABELLED)
def test_a_finding_resolves_though_the_end_of_its_state_was_lost(slug: str) -> None:
    """The messages by which it began are read; those around its end are not."""
    world, truth = LABELLED[slug]
    pipeline = Pipeline(world.topology)
    pipeline.play(case_messages(slug), (truth.end_ns - BEFORE_NS, truth.end_ns + AFTER_NS))
    own = [one for one in pipeline.findings.values() if one.condition is truth.condition]
    assert own
    assert {one.status for one in own} == {Status.RESOLVED}, [(one.subject.id, one.status) for one in own]
