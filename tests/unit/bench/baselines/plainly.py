"""The step of the comparison, as plainly as it can be said: no numpy, one port after the other."""

from collections.abc import Iterable

from streams.bench.baselines.load import Crossing
from streams.fabric.catalogue import Metric
from streams.wire.models import Samples


def downs(readings: Iterable[Samples]) -> set[Crossing]:
    """Every (device, port, time) whose count of link-downs is above that of the reading before."""
    last: dict[tuple[str, str], int] = {}
    found = set()
    for samples in readings:
        counts = samples.counters.values[samples.counters.metric.index(Metric.LINK_DOWN_EVENTS)].tolist()
        for port, count in zip(samples.row, counts, strict=True):
            if count > last.get((samples.device, port), count):
                found.add((samples.device, port, samples.sampled_at_ns))
            last[samples.device, port] = count
    return found
