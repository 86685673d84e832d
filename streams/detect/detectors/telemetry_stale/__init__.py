"""telemetry/stale: a source of a device that delivers no data."""

from streams.detect.detector import Detector
from streams.detect.detectors.telemetry_stale.evaluate import SLUG, VERSION
from streams.detect.detectors.telemetry_stale.fabric import FABRIC
from streams.detect.detectors.telemetry_stale.params import StaleParams
from streams.wire.models import Condition

DETECTOR = Detector(SLUG, Condition.TELEMETRY_STALE, VERSION, StaleParams, "stale", FABRIC)
