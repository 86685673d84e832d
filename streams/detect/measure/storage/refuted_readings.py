"""Finds readings of ports that other readings of the same port refute. Pure.

A BER of 0 beside no light or no SNR is no perfect link: nothing was received.

A standby member of a LAG is DORMANT, and some collectors report it as down. A port without a carrier receives nothing,
except that counters which are refreshed late grow once after it went down.
"""

import numpy as np

from streams.detect.measure.storage.column_store import Cells, ColumnMapping, TableDelta, is_absent
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX

_OPER = Metric.OPER_UP, NO_INDEX
_RECEIVED = (Metric.RX_BYTES, NO_INDEX), (Metric.RX_PACKETS, NO_INDEX)
_DOWN, _PROVEN, _MOST = 1, 3, 6
"""A port that is down counts 1, and 1 more for each reading in which it received frames, down to 1 for those without.
Two such readings are a carrier. A silent port keeps it for up to three readings: LACP sends each second or 30 s."""


_DARK = ((Metric.RX_POWER_DBM, -29.5), (Metric.MEDIA_SNR_DB, 0.0), (Metric.HOST_SNR_DB, 0.0))
"""No signal at or below these levels."""


def without_dark_ber(gauges: TableDelta) -> Cells:
    """Return the gauges of messages, in which the BER of ports without a signal is absent."""
    columns = gauges.mapping.position_of
    ber = columns.get((Metric.PRE_FEC_BER, NO_INDEX))
    if ber is None:
        return gauges.values
    dark = gauges.values[:, ber] <= 0
    if not np.logical_or.reduce(dark, axis=None):
        return gauges.values
    limits = dict(_DARK)
    no_signal = np.zeros_like(dark)
    for (metric, _), position in columns.items():
        if metric in limits:
            no_signal |= gauges.values[:, position] <= limits[metric]
        elif metric is Metric.RX_LOS:
            no_signal |= gauges.values[:, position] > 0
    if not np.count_nonzero(dark & no_signal):
        return gauges.values
    values = gauges.values.copy()
    values[:, ber][dark & no_signal] = np.nan
    return values


def with_carriers(counters: TableDelta, gauges: TableDelta) -> Cells:
    """Return the gauges of messages, in which the ports that are down and have a carrier are up."""
    position = gauges.mapping.position_of.get(_OPER)
    if position is None:
        return gauges.values
    is_down = gauges.values[:, position] <= 0
    store, devices = gauges.store, gauges.devices
    if not np.logical_or.reduce(is_down, axis=None):
        if store.has_carriers:
            store.carrier[devices] = 0
        return gauges.values
    store.has_carriers = True
    count = store.carrier[devices]
    received, known = _received(counters, counters.mapping, is_down)
    grown = np.where(received, np.minimum(count + 1, _MOST), np.maximum(count - known, _DOWN))
    count = np.where(
        is_down, np.where(count < _DOWN, _DOWN, grown), np.where(is_absent(gauges.values[:, position]), count, 0)
    )
    store.carrier[devices] = count
    has_carrier = is_down & (count >= _PROVEN)
    if not np.count_nonzero(has_carrier):
        return gauges.values
    values = gauges.values.copy()
    values[:, position][has_carrier] = 1.0
    return values


def _received(counters: TableDelta, mapping: ColumnMapping, is_down: Cells) -> tuple[Cells, Cells]:
    """Return the ports that received frames since the last reading, and those of which it is known if they did."""
    received, known = np.zeros_like(is_down), np.zeros_like(is_down)
    for column in _RECEIVED:
        if (position := mapping.position_of.get(column)) is not None:
            now, before = counters.values[:, position], counters.previous(position)
            is_read = ~is_absent(now) & ~is_absent(before)
            known |= is_read
            received |= is_read & (now > before)
    return received, known
