"""rail/unreachable: a rail of a host that answers no active probe while the host's other rails do."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.rail_unreachable import evaluate
from streams.detect.detectors.rail_unreachable.fabric import FABRIC
from streams.detect.detectors.rail_unreachable.params import UnreachableParams
from streams.detect.detectors.rail_unreachable.report import SLUG, VERSION
from streams.wire.models import Condition, RailProbes

DETECTOR = Detector(
    slug=SLUG,
    condition=Condition.RAIL_UNREACHABLE,
    version=VERSION,
    params=UnreachableParams,
    section="unreachable",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.RailProbeState,
        scope=Scope.PORT,
        inputs=(RailProbes,),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
    ),
)
