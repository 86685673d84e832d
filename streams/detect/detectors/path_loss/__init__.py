"""path/loss: a link or switch that drops packets without a counter that shows it, or a path that drops one 5-tuple."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.path_loss import sessions
from streams.detect.detectors.path_loss.fabric import FABRIC
from streams.detect.detectors.path_loss.params import PathParams
from streams.detect.detectors.path_loss.report import SLUG, VERSION
from streams.detect.evidence.episodes import PublishedEpisodes
from streams.wire.models import Condition

DETECTOR = Detector(
    slug=SLUG,
    condition=Condition.PATH_LOSS,
    version=VERSION,
    params=PathParams,
    section="path",
    fabric=FABRIC,
    pod=PodSide(
        state=PublishedEpisodes,
        scope=Scope.LINK,
        evaluate=sessions.evaluate,
        follows_link_history=True,
        merge=lambda moved, existing: (*moved, *existing),
    ),
)
