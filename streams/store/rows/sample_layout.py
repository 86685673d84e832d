"""Maps the columns of a samples message to columns of the tables, once for all messages with the same columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from streams.fabric.catalogue import Metric
from streams.store.enum_labels import row_kind_name, source_name
from streams.store.rows.native_format import LowCardinalityColumn
from streams.store.rows.row_builder import SourcedMessage, StringDictionary
from streams.wire.models import Samples, Table

LayoutKey = tuple[tuple[Metric, ...], tuple[Metric, ...], tuple[int, ...], tuple[int, ...]]


def column_name(metric: Metric) -> str:
    """Return the name of a metric in tables, which is a column of `samples` or a value of `sample_lanes.metric`."""
    return metric.name.lower()


def is_scalar(metric: Metric) -> bool:
    """Return whether a metric has one value per port, and therefore its own column."""
    return metric.index is None


def has_extremes(metric: Metric) -> bool:
    """Return whether rollups store the extremes of a gauge; the extremes of a bool follow from its average."""
    return metric.unit != "bool"


@dataclass(frozen=True, slots=True)
class LaneColumn:
    """One column of a message for a lane, queue, priority or bin; its name is the metric's."""

    counter: bool
    position: int
    name: str
    index: int


@dataclass(frozen=True, slots=True)
class SampleLayout:
    """The columns of a message: the positions of the scalars of each table, and all lanes."""

    counters: tuple[Metric, ...]
    gauges: tuple[Metric, ...]
    counters_index: tuple[int, ...]
    gauges_index: tuple[int, ...]
    scalar_counters: tuple[tuple[int, Metric], ...]
    scalar_gauges: tuple[tuple[int, Metric], ...]
    lanes: tuple[LaneColumn, ...]

    def matches(self, message: Samples) -> bool:
        """Return whether a message has these columns; compares by identity first, which is fast."""
        counters, gauges = message.counters, message.gauges
        return (
            self.counters == counters.metric
            and self.gauges == gauges.metric
            and self.counters_index == counters.index
            and self.gauges_index == gauges.index
        )

    @property
    def key(self) -> LayoutKey:
        """The columns, which identify a layout."""
        return self.counters, self.gauges, self.counters_index, self.gauges_index

    @property
    def has_scalars(self) -> bool:
        """True if a message has rows in `samples`."""
        return bool(self.scalar_counters or self.scalar_gauges)


def layout_of(message: Samples) -> SampleLayout:
    """Return the layout of a message."""
    return SampleLayout(
        message.counters.metric,
        message.gauges.metric,
        message.counters.index,
        message.gauges.index,
        _scalars(message.counters),
        _scalars(message.gauges),
        _lanes(message.counters, counter=True) + _lanes(message.gauges, counter=False),
    )


def _scalars(table: Table) -> tuple[tuple[int, Metric], ...]:
    return tuple((i, metric) for i, metric in enumerate(table.metric) if is_scalar(metric))


def _lanes(table: Table, *, counter: bool) -> tuple[LaneColumn, ...]:
    return tuple(
        LaneColumn(counter, i, column_name(metric), table.index[i])
        for i, metric in enumerate(table.metric)
        if not is_scalar(metric)
    )


class SampleLayoutCache:
    """Caches the layouts of a block; there are few, so it tries them one by one, the newest first."""

    def __init__(self) -> None:
        self._layouts: list[SampleLayout] = []

    def layout_of(self, message: Samples) -> SampleLayout:
        """Return the layout of a message, the same object for equal columns."""
        for layout in reversed(self._layouts):
            if layout.matches(message):
                return layout
        layout = layout_of(message)
        self._layouts.append(layout)
        return layout


class PendingSamples(NamedTuple):
    """A message, its origin in Kafka, and the layout of its columns."""

    origin: SourcedMessage
    message: Samples
    layout: SampleLayout


def sender_columns(
    messages: Sequence[Samples], repeats: Any = 1, *, collector: bool = False
) -> list[LowCardinalityColumn]:
    """Return the columns of the messages' senders; `repeats` has the number of rows of each message."""
    strings = {
        "device": [message.device for message in messages],
        "source": [source_name(message.source) for message in messages],
        "row_kind": [row_kind_name(message.row_kind) for message in messages],
    }
    if collector:
        strings["collector"] = [message.collector for message in messages]
    return [StringDictionary().repeated_column(name, values, repeats) for name, values in strings.items()]
