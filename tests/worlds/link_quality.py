"""Adds what a port measures of its link to the readings of a world: errors after FEC, pre-FEC BER, light and speed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, Samples, Table
from tests.worlds.observations import T0

SPEED_BPS = 4e11
LANES = 4
Value = Callable[[str, float], float]
"""(`device/port`, seconds) -> the reading of a port."""


def always(value: float) -> Value:
    """Return the same reading for every port and time."""
    return lambda _port, _t: value


NO_ERRORS, LOW_BER, BRIGHT = always(0), always(1e-8), always(-1.0)


def with_quality(
    rounds: Iterable[Samples], *, errors: Value = NO_ERRORS, ber: Value = LOW_BER, light: Value = BRIGHT
) -> Iterator[Samples]:
    """Yield the readings with the counter of uncorrected codewords, the BER, the receive power and the speed."""
    for samples in rounds:
        t = samples.sampled_at_ns / 1e9 - T0
        names = [f"{samples.device}/{row}" for row in samples.row]

        def read(value: Value, names: list[str] = names, t: float = t) -> list[float]:
            return [value(name, t) for name in names]

        counters = _extended(samples.counters, "<u8", {(Metric.FEC_UNCORRECTED_CODEWORDS, NO_INDEX): read(errors)})
        gauges = {(Metric.PRE_FEC_BER, NO_INDEX): read(ber), (Metric.SPEED_BPS, NO_INDEX): read(always(SPEED_BPS))}
        gauges |= {(Metric.RX_POWER_DBM, lane): read(light) for lane in range(LANES)}
        yield replace(samples, counters=counters, gauges=_extended(samples.gauges, "<f8", gauges))


def _extended(table: Table, kind: str, columns: dict[tuple[Metric, int], list[float]]) -> Table:
    rows = len(next(iter(columns.values())))
    values = np.concatenate([table.values.reshape(len(table.metric), rows), np.array(list(columns.values()))])
    return Table(
        (*table.metric, *(metric for metric, _ in columns)), (*table.index, *(index for _, index in columns)),
        values.astype(kind),
    )  # fmt: skip
