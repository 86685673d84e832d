"""The monitors of `measure`, in the order in which they process a batch; the stage iterates them and names none.

A detector that brings a monitor of its own adds it to these.
"""

from streams.detect.measure.late_replay import LateReplay
from streams.detect.measure.monitors.cnp_monitor import CnpMonitor
from streams.detect.measure.monitors.event_confirmation import EventConfirmation
from streams.detect.measure.monitors.incast_monitor import IncastMonitor
from streams.detect.measure.monitors.monitor import Monitor, MonitorSpec, ReplayedMonitorSpec
from streams.detect.measure.monitors.pause_monitor import PauseMonitor
from streams.detect.measure.monitors.pcie_monitor import PcieMonitor
from streams.detect.measure.monitors.transitions import TransitionMonitor
from streams.detect.measure.monitors.xid_monitor import XidMonitor
from streams.detect.measure.storage.column_store import ColumnMapping
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns

MONITORS: tuple[MonitorSpec | ReplayedMonitorSpec, ...] = (
    MonitorSpec(lambda _: TransitionMonitor()),
    MonitorSpec(EventConfirmation),
    MonitorSpec(lambda params: PcieMonitor(params.pcie)),
    MonitorSpec(lambda _: XidMonitor()),
    ReplayedMonitorSpec(lambda params: PauseMonitor(params.storm, params.collapse)),
    ReplayedMonitorSpec(IncastMonitor),
    ReplayedMonitorSpec(lambda params: CnpMonitor(params.incast)),
)


Relevant = dict[tuple[ColumnMapping, ColumnMapping], tuple[Monitor, ...]]
"""By the columns of a batch: the monitors that process it."""


def make_monitors(params: DetectParams) -> tuple[Monitor, ...]:
    """Return the monitors of one partition; those that are replayed stand behind one LateReplay, which is the last."""
    own = [spec.make(params) for spec in MONITORS if isinstance(spec, MonitorSpec)]
    replayed = [spec.make(params) for spec in MONITORS if isinstance(spec, ReplayedMonitorSpec)]
    return *own, LateReplay(replayed, ns(params.lateness_s))
