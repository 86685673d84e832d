"""Lists the monitors of `measure` in the order in which they process a batch; the stage iterates them and names none.

The monitors listed here serve several detectors. A detector registers its own monitor in `Detector.monitor`.
"""

from collections.abc import Callable

from streams.detect.detectors import DETECTORS
from streams.detect.measure.monitors.congestion_monitors import CnpMonitor, FullMonitor, LossMonitor
from streams.detect.measure.monitors.contradiction_monitor import ContradictionMonitor
from streams.detect.measure.monitors.credit_monitor import CreditMonitor
from streams.detect.measure.monitors.event_confirmation import EventConfirmation
from streams.detect.measure.monitors.incast_monitor import IncastMonitor
from streams.detect.measure.monitors.late_replay import LateReplay
from streams.detect.measure.monitors.monitor import ConditionMonitor, Monitor
from streams.detect.measure.monitors.pause_monitor import PauseMonitor
from streams.detect.measure.monitors.port_fault_monitor import PortFaultMonitor
from streams.detect.measure.monitors.transitions import TransitionMonitor
from streams.detect.measure.monitors.watchdog_monitor import WatchdogMonitor
from streams.detect.measure.storage.column_store import ColumnMapping
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns

MONITORS: tuple[Callable[[DetectParams], Monitor], ...] = (
    lambda _: TransitionMonitor(), EventConfirmation, lambda _: PortFaultMonitor(), ContradictionMonitor,
)  # fmt: skip
REPLAYED: tuple[Callable[[DetectParams], ConditionMonitor], ...] = (
    lambda params: PauseMonitor(params.storm, params.collapse),
    IncastMonitor,
    CnpMonitor,
    LossMonitor,
    FullMonitor,
    lambda _: WatchdogMonitor(),
    lambda params: CreditMonitor(params.storm),
)

Relevant = dict[tuple[ColumnMapping, ColumnMapping], tuple[Monitor, ...]]
"""Columns of a batch -> the monitors that process it."""


def make_monitors(params: DetectParams) -> tuple[Monitor, ...]:
    """Return the monitors of one partition; one LateReplay, the last monitor, contains those that are replayed."""
    made = [make(params) for make in (*MONITORS, *REPLAYED)]
    made += [detector.monitor(params.section(detector)) for detector in DETECTORS if detector.monitor is not None]
    own = (monitor for monitor in made if not isinstance(monitor, ConditionMonitor))
    return *own, LateReplay([one for one in made if isinstance(one, ConditionMonitor)], ns(params.lateness_s))
