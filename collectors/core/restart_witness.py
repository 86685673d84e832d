"""Compares a device's counters before and after a supposed restart. Pure.

A boot time that moves, or an uptime that begins again, is one sign: an agent was restarted, or a clock was stepped. The
counters of a device that restarted begin at 0.
"""

import numpy as np

from collectors.core.columns import Reading
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER

TRAFFIC = frozenset({Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS})
"""The counters that grow at every port in use; others may be cleared, or larger after a restart."""


def counters_continue(before: Reading, after: Reading) -> bool | None:
    """Return True if most traffic counters above 0 continued, False if most went back; None if none is in both."""
    columns = {column: n for n, column in enumerate(zip(after.counters.metric, after.counters.index, strict=True))}
    rows = {row: n for n, row in enumerate(after.row)}
    common = [(n, rows[row]) for n, row in enumerate(before.row) if row in rows]
    old, new = (np.array(numbers, dtype=np.intp) for numbers in (zip(*common, strict=True) if common else ((), ())))
    known = reset = 0
    for n, column in enumerate(zip(before.counters.metric, before.counters.index, strict=True)):
        if column[0] not in TRAFFIC or (place := columns.get(column)) is None:
            continue
        was, now = before.counters.values[n][old], after.counters.values[place][new]
        is_known = (was != ABSENT_COUNTER) & (now != ABSENT_COUNTER) & (was > 0)
        known += int(is_known.sum())
        reset += int((is_known & (now < was)).sum())
    return None if not known else reset * 2 < known
