"""rail/degraded: a rail that is up but slower than its peers."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.rail_degraded import evaluate, report
from streams.detect.detectors.rail_degraded.fabric import FABRIC
from streams.detect.detectors.rail_degraded.params import RailParams
from streams.wire.models import Condition, PeerGroup

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.RAIL_DEGRADED,
    version=report.VERSION,
    params=RailParams,
    section="rail",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.PodRails,
        scope=Scope.POD,
        inputs=(PeerGroup.HOST_RAILS,),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
    ),
)
