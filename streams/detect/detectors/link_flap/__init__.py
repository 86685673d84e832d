"""link/flap: a link that repeatedly goes down and recovers."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.link_flap import evaluate, report
from streams.detect.detectors.link_flap.fabric import FABRIC
from streams.detect.detectors.link_flap.params import FlapParams
from streams.detect.evidence.episodes import PublishedEpisodes
from streams.wire.models import Condition

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.LINK_FLAP,
    version=report.VERSION,
    params=FlapParams,
    section="flap",
    fabric=FABRIC,
    pod=PodSide(
        state=PublishedEpisodes,
        scope=Scope.LINK,
        evaluate=evaluate.evaluate,
        follows_link_history=True,
        link_retention_ns=evaluate.link_retention_ns,
        merge=lambda moved, existing: (*moved, *existing),
    ),
)
