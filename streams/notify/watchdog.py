"""Monitors the pipeline: the watchdog alert is active while the watermark of findings advances.

The watermark of `attribute` advances only if collectors send, Kafka accepts, and `measure`, `correlate` and `attribute`
process. An external receiver reports a missing repetition of the alert, which also covers the notifier, Alertmanager
and the network between them.
"""

from dataclasses import dataclass

from streams.notify.alert import SOURCE, Alert
from streams.notify.params import NotifyParams
from streams.wire.models import IDLE_NS, Progress

WATCHDOG = "RailsightWatchdog"
STAGE = "attribute"
"""The stage that publishes findings."""

_NS = 1_000_000_000


@dataclass(slots=True)
class Watchdog:
    """The last advance of the watermark, by the arrival of its Progress."""

    params: NotifyParams
    _watermark_ns: int | None = None
    _advanced_ns: int | None = None

    def process(self, progress: Progress, arrived_ns: int) -> bool:
        """Process one Progress and return whether the watermark advanced; the first one is only a reference."""
        if progress.stage != STAGE or progress.watermark_ns == IDLE_NS:
            return False
        known, self._watermark_ns = self._watermark_ns, progress.watermark_ns
        if known is None or known == progress.watermark_ns:
            return False  # any other value, even a lower one after a replay, is an advance
        self._advanced_ns = arrived_ns
        return True

    def alert(self, now_ns: int) -> Alert | None:
        """Return the watchdog alert, or None if the watermark has not advanced for `watchdog_s`."""
        stops_ns = self.stops_ns
        if stops_ns is None or now_ns >= stops_ns:
            return None
        labels = {"alertname": WATCHDOG, "kind": "watchdog", "source": SOURCE, "cluster": self.params.cluster}
        return Alert(
            {label: value for label, value in labels.items() if value},
            {"summary": "The pipeline works: this alert is always active; act when it is not"},
            starts_at_ns=now_ns,
            ends_at_ns=now_ns + round(self.params.watchdog_s * _NS),
        )

    @property
    def stops_ns(self) -> int | None:
        """The time at which the alert ends without an advance of the watermark."""
        return None if self._advanced_ns is None else self._advanced_ns + round(self.params.watchdog_s * _NS)
