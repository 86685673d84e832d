"""congestion/pfc-storm: a port that is paused nearly all the time while no traffic passes."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.congestion_pfc_storm import evaluate, report
from streams.detect.detectors.congestion_pfc_storm.fabric import FABRIC
from streams.detect.detectors.congestion_pfc_storm.params import StormParams
from streams.wire.models import Condition
from streams.wire.symptoms import CongestionState

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.CONGESTION_PFC_STORM,
    version=report.VERSION,
    params=StormParams,
    section="storm",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.StormState,
        scope=Scope.LINK,
        inputs=(CongestionState.PAUSE_RECEIVED, CongestionState.PAUSE_SENT),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
        subject_of=lambda state: state.link.subject,
        rebase=evaluate.rebase,
        merge=evaluate.merge,
    ),
)
