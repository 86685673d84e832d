"""link/degrading: a link that is up and loses frames, corrects ever more errors, or loses optical power."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.link_degrading import evaluate, report
from streams.detect.detectors.link_degrading.fabric import FABRIC
from streams.detect.detectors.link_degrading.params import DegradingParams
from streams.wire.models import Condition, Window

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.LINK_DEGRADING,
    version=report.VERSION,
    params=DegradingParams,
    section="degrading",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.DegradingState,
        scope=Scope.LINK,
        inputs=(Window,),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
        follows_link_history=True,
        merge=evaluate.merge,
    ),
)
