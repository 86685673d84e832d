"""link/miscabled: a link whose ends have other LLDP neighbors than the inventory names."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.link_miscabled import evaluate, report
from streams.detect.detectors.link_miscabled.fabric import FABRIC
from streams.detect.detectors.link_miscabled.params import MiscabledParams
from streams.wire.models import CablingReport, Condition

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.LINK_MISCABLED,
    version=report.VERSION,
    params=MiscabledParams,
    section="miscabled",
    fabric=FABRIC,
    pod=PodSide(
        state=evaluate.LinkCabling,
        scope=Scope.LINK,
        inputs=(CablingReport,),
        observe=evaluate.observe,
        evaluate=evaluate.evaluate,
        subject_of=lambda state: state.subject,
        rebase=evaluate.rebase,
        merge=evaluate.merge,
    ),
)
