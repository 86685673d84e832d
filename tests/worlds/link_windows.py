"""Windows of one minute of a link, readings of its quality, and the link/degrading findings that they lead to."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from streams.detect.correlate.stage import Correlate
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import NO_INDEX, Condition, Finding, Message, Samples, Source, Table, Window
from tests.worlds.observations import T0, at, episodes
from tests.worlds.small_fabric import topology

GNMI, SNMP = Source.SOURCE_GNMI, Source.SOURCE_SNMP
FCS, BER, POWER, PACKETS = Metric.RX_FCS_ERRORS, Metric.PRE_FEC_BER, Metric.RX_POWER_DBM, Metric.RX_PACKETS
Values = dict[Metric, float | tuple[float, ...]]
MINUTE = 60
OLD: dict[Metric, float] = {BER: 1e-8, POWER: -3.0}


def minute(port: str, n: float, values: Values, source: Source = GNMI, before: Values | None = None) -> Window:
    """Return the window of a port in the n-th minute; a tuple is by lane or bin."""
    device, _, name = port.partition("/")
    columns = [
        (metric, index if isinstance(value, tuple) else -1, float(one))
        for metric, value in values.items()
        for index, one in enumerate(value if isinstance(value, tuple) else (value,))
    ]
    was = [(before or {}).get(metric, one if metric in OLD else 0.0) for metric, _, one in columns]
    begin = at(20 + MINUTE * n)
    return Window(
        device, name, source, begin, begin + ns(MINUTE), begin - ns(10), begin + ns(50),
        tuple(m for m, _, _ in columns), tuple(i for _, i, _ in columns), tuple(v for _, _, v in columns),
        tuple(float(one) for one in was if not isinstance(one, tuple)),
    )  # fmt: skip


def powers(port: str, *values: float, best: float = -3.0) -> list[Message]:
    """Minutes with this receive power on one lane."""
    return [minute(port, n, {POWER: (value,)}, before={POWER: best}) for n, value in enumerate(values)]


def degrading_findings(
    messages: Sequence[Message], until_min: float = 600, top: Topology | None = None
) -> list[Finding]:
    """All revisions, when each window comes once it is final, and time goes on."""
    stage = Correlate(DetectParams())
    stage.start_epoch(1)
    outputs = stage.set_topology(top or topology())
    for message in sorted((m for m in messages if _arrives(m) <= at(MINUTE * until_min)), key=_arrives):
        outputs += stage.advance_watermark(_arrives(message) - 1)
        outputs += stage.process([message])
    outputs += stage.advance_watermark(at(MINUTE * until_min))
    return [f for f in episodes(outputs) if f.condition is Condition.LINK_DEGRADING]


def _arrives(message: Message) -> int:
    if isinstance(message, Window):
        return message.end_ns + ns(30)
    at_ns = getattr(message, "at_ns", 0)
    assert isinstance(at_ns, int)
    return at_ns


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
