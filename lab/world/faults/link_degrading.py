"""link/degrading: one end of a link receives badly while the link stays up.

It loses frames, or FEC corrects more bits, or both, or the received light fades as well.
"""

from lab.world.effects import BitErrors, CounterIncrement, Effect, GaugeOverride, Interval
from lab.world.fault_placement import FaultPlacer
from lab.world.faults.fault import Fault
from lab.world.faults.link_selection import links_of_random_role
from lab.world.ground_truth import WINDOW_TOLERANCE_S, GroundTruth, InjectedFault, truth_at
from streams.fabric.catalogue import Metric
from streams.wire.models import Condition

_ERRORS_PER_LOST_FRAME = (
    (Metric.RX_FCS_ERRORS, 1), (Metric.RX_ERRORS, 1), (Metric.RX_SYMBOL_ERRORS, 3),
    (Metric.FEC_UNCORRECTED_CODEWORDS, 2),
)  # fmt: skip


def inject(placer: FaultPlacer, within: Interval) -> InjectedFault:
    """Degrade one end of a busy link for 480 to 1500 s."""
    rng = placer.rng
    link, interval = placer.link(links_of_random_role(placer), within, (480, 1500), placer.is_busy)
    port = placer.ports(link)[int(rng.integers(2))]
    kind = ("lossy", "noisy", "both", "fading")[int(rng.integers(4))]
    effects: list[Effect] = []
    lane = int(rng.integers(4)) if rng.random() < 0.5 else None
    if kind in ("lossy", "both"):
        lost_ratio = 10 ** rng.uniform(-6.5, -4)
        effects += [
            CounterIncrement(port, metric, interval, share=count * lost_ratio, of_metric=Metric.RX_PACKETS)
            for metric, count in _ERRORS_PER_LOST_FRAME
        ]
        effects.append(BitErrors(port, interval, 10 ** rng.uniform(-5.6, -5.1), lane))
    if kind in ("noisy", "both", "fading"):
        effects.append(BitErrors(port, interval, 10 ** rng.uniform(-4.85, -4.2), lane))
    if kind == "fading":
        drop_db, ramp_s = -rng.uniform(3.6, 7.0), rng.uniform(30, 180)
        effects.append(GaugeOverride(port, Metric.RX_POWER_DBM, interval, offset=drop_db, ramp_s=ramp_s))
    truth = truth_at(placer, Condition.LINK_DEGRADING, port, interval, WINDOW_TOLERANCE_S)
    return InjectedFault((GroundTruth(truth, interval.start_ns),), tuple(effects), kind)


LINK_DEGRADING = Fault(Condition.LINK_DEGRADING, inject)
