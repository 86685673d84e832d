"""Hypothesis strategies for readings of two ports over some minutes."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Message, RowKind, Samples, Source, Table
from tests.worlds.observations import at

FCS, BITS, CORRECTED, POWER = Metric.RX_FCS_ERRORS, Metric.RX_BITS, Metric.FEC_CORRECTED_BITS, Metric.RX_POWER_DBM
A_MINUTE = 24_000_000_000_000
"""Bits of a minute at 400 Gb/s."""
T0_IN_WINDOW = 40
"""`at(0)` is so many seconds into a window: 1,000,000 s are 16,666 minutes and 40 s."""
COUNTS = (FCS, BITS, CORRECTED)
GAUGES = (POWER,)
PORTS = ("d1", "d2")


@st.composite
def minutes(draw: st.DrawFn, errors: Sequence[int] = (0, 0, 0, 0, 1, 7), wander: int = 1) -> list[Samples]:
    """Readings of two ports, every 20 s with holes: errors now and then, a reset, levels that wander or not."""
    counts = np.zeros((3, 2), np.uint64)
    power = np.full((1, 2), -3.0)
    messages = []
    for n in range(draw(st.integers(4, 16))):
        counts[0, draw(st.integers(0, 1))] += draw(st.sampled_from(errors))
        counts[1] += np.uint64(A_MINUTE // 3)
        counts[2] += np.uint64(draw(st.sampled_from([0, 10**4, 10**8])) * wander)
        if draw(st.integers(0, 40)) == 0:
            counts[:] = 0
        power[0, 0] += draw(st.sampled_from([0, 0, 0.1, -0.4])) * wander
        if draw(st.integers(0, 6)) == 0:
            continue
        counters, gauges = (Table(metrics, (NO_INDEX,) * len(metrics), values.copy())
                  for metrics, values in ((COUNTS, counts), (GAUGES, power)))  # fmt: skip
        moment = at(20 * n + draw(st.integers(0, 19)))
        messages.append(Samples("p1-l0", Source.SOURCE_GNMI, "c", 1, n, moment, moment, 1, RowKind.ROW_KIND_PORT,
                                PORTS, 0, counters, gauges))  # fmt: skip
    return messages


def ended(messages: Sequence[Samples]) -> list[Message]:
    """With a reading long after, so that all windows become final."""
    last = max(messages, key=lambda m: m.sampled_at_ns) if messages else None
    if last is None:
        return []
    end = last.sampled_at_ns + 10**12
    return [*messages, Samples(last.device, last.source, "c", 1, 10**6, end, end, 1, last.row_kind, last.row, 0,
                               last.counters, last.gauges)]  # fmt: skip
