"""link/down: a link that stays down for no administrative reason."""

from streams.detect.detector import Detector, PodSide, Scope
from streams.detect.detectors.link_down import evaluate, report
from streams.detect.detectors.link_down.fabric import FABRIC
from streams.detect.detectors.link_down.params import DownParams
from streams.detect.evidence.episodes import PublishedEpisodes
from streams.wire.models import Condition

DETECTOR = Detector(
    slug=report.SLUG,
    condition=Condition.LINK_DOWN,
    version=report.VERSION,
    params=DownParams,
    section="down",
    fabric=FABRIC,
    pod=PodSide(
        state=PublishedEpisodes,
        scope=Scope.LINK,
        evaluate=evaluate.evaluate,
        follows_link_history=True,
        merge=lambda moved, existing: (*moved, *existing),
    ),
)
