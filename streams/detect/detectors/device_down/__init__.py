"""device/down: a device that restarted, or that neither its sources nor its neighbors reach."""

from streams.detect.detector import Detector
from streams.detect.detectors.device_down.evaluate import SLUG, VERSION
from streams.detect.detectors.device_down.fabric import FABRIC
from streams.detect.detectors.device_down.params import DeviceDownParams
from streams.wire.models import Condition

DETECTOR = Detector(SLUG, Condition.DEVICE_DOWN, VERSION, DeviceDownParams, "device_down", FABRIC)
