"""congestion/collapse: many hosts of a group are throttled and send far less than just before, at the same time."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.congestion_collapse import evaluate, report
from streams.detect.detectors.congestion_collapse.fabric import FABRIC
from streams.detect.detectors.congestion_collapse.params import CollapseParams
from streams.wire.models import Condition, RailDelays
from streams.wire.symptoms import CongestionState

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.CONGESTION_COLLAPSE,
    version=report.VERSION,
    params=CollapseParams,
    section="collapse",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.CollapseState,
        scope=Scope.POD,
        inputs=(
            CongestionState.THROTTLED_BY_PAUSE,
            CongestionState.SLOWED_BY_CNP,
            CongestionState.SLOWED_BY_LOSS,
            RailDelays,
        ),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
    ),
)
