"""congestion/incast: more traffic arrives for one host's port than it drains, unlike for its peers."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.congestion_incast import evaluate, report
from streams.detect.detectors.congestion_incast.fabric import FABRIC
from streams.detect.detectors.congestion_incast.params import IncastParams
from streams.wire.models import Condition, RailDelays
from streams.wire.symptoms import CongestionState

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.CONGESTION_INCAST,
    version=report.VERSION,
    params=IncastParams,
    section="incast",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.IncastState,
        scope=Scope.POD,
        inputs=(
            CongestionState.INCAST,
            CongestionState.CNP_THROTTLED,
            CongestionState.THROTTLED_BY_PAUSE,
            CongestionState.SLOWED_BY_CNP,
            CongestionState.SLOWED_BY_LOSS,
            CongestionState.FULL,
            RailDelays,
        ),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
    ),
)
