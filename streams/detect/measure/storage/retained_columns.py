"""The metrics of which the ends of windows are stored, and what each is for."""

from streams.detect.measure.storage.column_store import Column, ColumnStore
from streams.detect.measure.storage.excursions import BER, Excursions
from streams.detect.measure.storage.selection_state import SelectedWindows, SelectionState
from streams.detect.measure.storage.window_store import WindowColumns, WindowSpec, WindowStore
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, RowKind

ERRORS = frozenset(
    {
        Metric.RX_ERRORS, Metric.RX_FCS_ERRORS, Metric.RX_SYMBOL_ERRORS, Metric.PCS_SYMBOL_ERRORS,
        Metric.FEC_UNCORRECTED_CODEWORDS, Metric.LINK_ERROR_RECOVERIES, Metric.LOCAL_LINK_INTEGRITY_ERRORS,
    }
)  # fmt: skip
"""Counters that stand still on a healthy port: any growth is notable."""

CONTEXT = frozenset(
    {
        Metric.RX_PACKETS, Metric.RX_DISCARDS, Metric.LANE_RAW_ERRORS, Metric.FEC_CODEWORDS_BY_ERRORS,
    }
)  # fmt: skip
"""Counters that grow on a healthy port, sent together with errors."""

RAILS = (
    Metric.RX_BYTES, Metric.TX_BYTES, Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS,
    Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS,
)  # fmt: skip
"""Counters by which rails are compared, sent of all ports of a host."""

_HOST_PORTS = 32
"""No host has more. Of a device with more, a switch, RAILS are not stored: they are a third of the cost of windows."""

OPTICS = (Metric.RX_POWER_DBM, Metric.TX_POWER_DBM, Metric.MEDIA_SNR_DB, Metric.HOST_SNR_DB)
LEVELS = frozenset({Metric.PRE_FEC_BER, Metric.MODULE_TEMPERATURE_C, *OPTICS})
FEC: tuple[Column, Column] = ((Metric.FEC_CORRECTED_BITS, NO_INDEX), (Metric.RX_BITS, NO_INDEX))
"""Corrected bits and all bits, from which the pre-FEC BER is derived where it is not read."""


def make_windows(kind: RowKind, counters: ColumnStore, gauges: ColumnStore, spec: WindowSpec) -> SelectedWindows | None:
    """Return the windows of a block; None where its rows are no ports, or it has none of the columns."""
    if kind is not RowKind.ROW_KIND_PORT:
        return None
    derived = BER not in gauges.index_of and all(column in counters.index_of for column in FEC)
    compared = ERRORS | CONTEXT | ({metric for metric, _ in FEC} if derived else set())
    if counters.values.shape[2] <= _HOST_PORTS:
        compared |= set(RAILS)
    else:
        compared |= {Metric.TX_BYTES}  # by which uplinks are compared
    own = WindowColumns(counters, compared), WindowColumns(gauges, {Metric.SPEED_BPS}, LEVELS)
    if not (own[0].columns or own[1].columns):
        return None
    levels = ((BER,) if derived else ()) + tuple(column for column in own[1].columns if column[0] in LEVELS)
    rows = counters.values.shape[2]
    judged = tuple(column for column in own[1].columns if column == BER or column[0] in OPTICS)
    beyond = Excursions(judged, rows, spec.ber_limit, spec.dip)
    return WindowStore(*own, spec, SelectionState(levels, rows, beyond))
