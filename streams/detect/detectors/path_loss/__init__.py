"""path/loss: a link or switch that drops packets without a counter that shows it, or a path that drops one 5-tuple."""

from streams.detect.detector import Detector
from streams.detect.detectors.path_loss.fabric import FABRIC
from streams.detect.detectors.path_loss.params import PathParams
from streams.detect.detectors.path_loss.report import SLUG, VERSION
from streams.wire.models import Condition

DETECTOR = Detector(SLUG, Condition.PATH_LOSS, VERSION, PathParams, "path", FABRIC)
