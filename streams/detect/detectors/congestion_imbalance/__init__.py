"""congestion/imbalance: the uplinks of one switch carry unevenly for minutes, and one of them is nearly full."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.congestion_imbalance import evaluate, report
from streams.detect.detectors.congestion_imbalance.fabric import FABRIC
from streams.detect.detectors.congestion_imbalance.params import ImbalanceParams
from streams.wire.models import Condition, PeerGroup

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.CONGESTION_IMBALANCE,
    version=report.VERSION,
    params=ImbalanceParams,
    section="imbalance",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.ImbalanceState,
        scope=Scope.DEVICE,
        inputs=(PeerGroup.SWITCH_UPLINKS,),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
    ),
)
