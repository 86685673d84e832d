"""fleet/version-drift: devices of a cohort that run another version than the allow-list or the majority."""

from streams.detect.detector import Detector
from streams.detect.detectors.fleet_version_drift.evaluate import SLUG, VERSION
from streams.detect.detectors.fleet_version_drift.fabric import FABRIC
from streams.detect.detectors.fleet_version_drift.params import DriftParams
from streams.wire.models import Condition

DETECTOR = Detector(SLUG, Condition.FLEET_VERSION_DRIFT, VERSION, DriftParams, "drift", FABRIC)
