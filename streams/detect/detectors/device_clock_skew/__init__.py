"""device/clock-skew: the clock of a device, of a host or of a collector is off."""

from streams.detect.detector import Detector
from streams.detect.detectors.device_clock_skew.evaluate import SLUG, VERSION
from streams.detect.detectors.device_clock_skew.fabric import FABRIC
from streams.detect.detectors.device_clock_skew.params import ClockParams
from streams.wire.models import Condition

DETECTOR = Detector(SLUG, Condition.DEVICE_CLOCK_SKEW, VERSION, ClockParams, "clock", FABRIC)
