"""Reports the records that the brokers deleted before an owner read them: in the log, as a metric, and as InputLoss."""

import logging

from streams.instrument.clock import Clock
from streams.instrument.metrics import Metrics
from streams.runtime.bindings import Binding
from streams.wire import topics
from streams.wire.models import InputLoss
from streams.wire.topics import Record, Topic

log = logging.getLogger(__name__)


class InputLosses:
    """The losses of one owner, until `take` returns them to be sent."""

    def __init__(self, binding: Binding, partition: int, clock: Clock, metrics: Metrics) -> None:
        self._binding = binding
        self._partition = partition
        self._clock = clock
        self._metrics = metrics
        self._records: list[Record] = []
        self.must_reconcile = False
        """The stage has to evaluate the present states, and has not yet."""

    def report(self, topic: Topic, first: int, count: int, *, is_recreated: bool = False) -> None:
        """Report `count` records from offset `first` on, or that a topic was recreated; compaction loses nothing."""
        if (count <= 0 and not is_recreated) or topic.retention_s is None:
            return
        stage = self._binding.stage
        loss = InputLoss(
            stage, topic.name, self._partition, first, max(0, count), self._clock.now_ns(), is_recreated=is_recreated
        )
        self._records.append(topics.encode(topics.INPUT_LOSSES, loss))
        self.must_reconcile = bool(self._binding.present)
        if count > 0:
            log.error(
                "input is lost, records were deleted before they were read: stage=%s topic=%s partition=%d records=%d; "
                "give the topic more retention than the longest outage",
                stage, topic.name, self._partition, count,
            )  # fmt: skip
            self._metrics.count(
                "railsight_input_lost_records_total", stage, self._partition, topic=topic.name, by=count
            )

    def take(self) -> list[Record]:
        """Return the reports that are not sent yet."""
        records, self._records = self._records, []
        return records
