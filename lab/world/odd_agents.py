"""Simulates agents of healthy switches whose readings have odd times, old counters, another boot id, or missing cells.

All of them were seen in the field (docs/field-reports.md, A to C). They change readings only: the fabric is the
same.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from collectors.gnmi.sample_time import SampleTime
from lab.world.effects import AgentRestart, CachedCounters, Effect, LastChangeTimes, TruncatedWalk
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, Samples

_Oddity = AgentRestart | CachedCounters | LastChangeTimes | TruncatedWalk
Counts = npt.NDArray[np.uint64]
_DAY_NS = 86_400 * 10**9
_TRAFFIC = (Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS)


class OddAgents:
    """The agents of all devices; most of them are not odd."""

    def __init__(self, effects: Sequence[Effect], cadence_ns: int) -> None:
        self._effects: dict[int, list[_Oddity]] = defaultdict(list)
        self._agents: dict[_Oddity, _Cache | _LastChanges] = {}
        for effect in effects:
            if isinstance(effect, _Oddity):
                self._effects[effect.device].append(effect)
            if isinstance(effect, CachedCounters):
                self._agents[effect] = _Cache(round(effect.period_s * 1e9), effect.cards)
            elif isinstance(effect, LastChangeTimes):
                self._agents[effect] = _LastChanges(SampleTime(cadence_ns))

    def is_restarting(self, device: int, at_ns: int) -> bool:
        """Return True if the agent of a device does not answer because it restarts."""
        return any(
            isinstance(effect, AgentRestart) and effect.interval.contains(at_ns)
            for effect in self._effects.get(device, ())
        )

    def read(self, device: int, samples: Samples) -> Samples:
        """Return a reading as the agent of its device sends it."""
        at_ns = samples.received_at_ns
        for effect in self._effects.get(device, ()):
            if isinstance(effect, AgentRestart):
                samples = replace(samples, boot_id=samples.boot_id + (effect.interval.start_ns <= at_ns))
            elif effect.interval.contains(at_ns):
                if isinstance(effect, TruncatedWalk):
                    counts = _counts(samples).copy()
                    counts[:, effect.first_row :] = ABSENT_COUNTER
                    samples = _with_counts(samples, counts)
                else:
                    samples = self._agents[effect].read(samples)
        return samples


@dataclass(slots=True)
class _Cache:
    """Traffic counters that the line cards of a device refresh once in a period, one card after the other."""

    period_ns: int
    cards: int
    before: tuple[int, Counts] | None = None
    """The last reading: its time and its true counts."""
    shown: Counts | None = None

    def read(self, samples: Samples) -> Samples:
        """Return a reading whose traffic counters are those of the last refresh."""
        at_ns, counts = samples.received_at_ns, _counts(samples)
        card = np.arange(counts.shape[1]) * self.cards // counts.shape[1]
        refreshed_ns = at_ns - (at_ns - card * self.period_ns // self.cards) % self.period_ns
        before_ns, before = self.before or (at_ns, counts)
        share = (refreshed_ns - before_ns) / max(at_ns - before_ns, 1)
        grown = np.where(counts >= before, counts - before, np.uint64(0))
        fresh = np.where(counts >= before, before + (grown * np.maximum(share, 0)).astype(np.uint64), counts)
        shown = counts if self.shown is None else np.where(share > 0, fresh, self.shown)
        self.before, self.shown = (at_ns, counts), shown
        values = counts.copy()
        cached = [place for place, metric in enumerate(samples.counters.metric) if metric in _TRAFFIC]
        values[cached] = shown[cached]
        return _with_counts(samples, values)


@dataclass(slots=True)
class _LastChanges:
    """Leaves with the time of their last change; an error counter has not changed for three days at first."""

    times: SampleTime
    counts: Counts | None = None
    changed_ns: npt.NDArray[np.int64] | None = None

    def read(self, samples: Samples) -> Samples:
        """Return a reading at the time that the gNMI collector gives it."""
        counts, at_ns = _counts(samples), samples.received_at_ns
        if self.counts is None or self.changed_ns is None:
            self.changed_ns = np.full(counts.shape, at_ns - 3 * _DAY_NS, np.int64)
            self.changed_ns[[metric in _TRAFFIC for metric in samples.counters.metric]] = samples.sampled_at_ns
        else:
            self.changed_ns = np.where(counts != self.counts, samples.sampled_at_ns, self.changed_ns)
        self.counts = counts
        leaves_ns = np.unique(self.changed_ns).tolist()
        for leaf_ns in leaves_ns:
            self.times.add(leaf_ns, at_ns, lambda: True)
        is_of_change = self.times.is_of_change
        self.times.end_reading()
        return replace(samples, sampled_at_ns=at_ns if is_of_change else leaves_ns[0])


def _counts(samples: Samples) -> Counts:
    return np.asarray(samples.counters.values, np.uint64)


def _with_counts(samples: Samples, counts: Counts) -> Samples:
    return replace(samples, counters=replace(samples.counters, values=counts))
