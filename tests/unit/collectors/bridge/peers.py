"""Records as the peers write them, and a fold that reads them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import orjson

from collectors.bridge.devices import Devices
from collectors.bridge.fold import Fold, Gathered, Output, Position
from collectors.bridge.params import Format, Params
from collectors.bridge.records import Source
from collectors.core.columns import Reading
from collectors.core.counts import Counts
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER

START_NS = 1_700_000_000 * 10**9
S = 10**9
COUNTERS = "/interfaces/interface/state/counters"
Rows = dict[str, dict[tuple[Metric, int], float]]


def event(at_ns: int, values: dict[str, Any], device: str = "leaf1", port: str = "Ethernet1", **tags: str) -> Any:
    """One of gnmic's events."""
    own = {"interface_name": port, "source": device, "subscription-name": "ports"} | tags
    return {"name": "ports", "timestamp": at_ns, "tags": own, "values": values}


def octets(at_ns: int, value: Any, device: str = "leaf1", port: str = "Ethernet1") -> bytes:
    """A record of gnmic with one counter of a port."""
    return orjson.dumps([event(at_ns, {f"{COUNTERS}/in-octets": value}, device, port)])


def fold_of(
    form: Format = "auto", start: Position | None = None, declared: Iterable[int] = (), **settings: Any
) -> Fold:
    """A fold that begins at the beginning."""
    params = Params.model_validate(settings)
    devices = Devices(
        Counts(), max_ports=params.max_ports, max_devices=params.max_devices, device_tag=params.device_tag,
        names=params.devices, inputs=params.inputs,
    )  # fmt: skip
    return Fold(devices, params, form, start or Position(0, 1), declared)


def take(fold: Fold, values: Iterable[bytes | str], received_ns: int = START_NS * 2) -> list[Output]:
    """Give it these records, one after the other, from where it is."""
    said: list[Output] = []
    for value in values:
        raw = value.encode() if isinstance(value, str) else value
        said += fold.take(Source(fold.next_offset, 0, raw), received_ns)
    return said


def all_of(fold: Fold, values: Iterable[bytes | str], received_ns: int = START_NS * 2) -> list[Gathered]:
    """Every reading that these records are, the last one too."""
    said = take(fold, values, received_ns)
    return [output for output in [*said, *fold.cut()] if isinstance(output, Gathered)]


def rows(reading: Reading) -> Rows:
    """What was read, by port."""
    found: Rows = {row: {} for row in reading.row}
    for table in (reading.counters, reading.gauges):
        for metric, index, values in zip(table.metric, table.index, table.values, strict=True):
            for row, value in zip(reading.row, values, strict=True):
                if not np.isnan(value) and value != ABSENT_COUNTER:
                    found[row][metric, index] = float(value)
    return found


def merged(said: Iterable[Gathered]) -> Rows:
    """The newest of everything, by port."""
    found: Rows = {}
    for one in said:
        for row, values in rows(one.reading).items():
            found.setdefault(row, {}).update(values)
    return found
