"""The limits that panels draw: the detectors' own settings, as they are by default."""

from streams.decide.params import DecideParams
from streams.detect.params import DetectParams

DETECT = DetectParams()
DECIDE = DecideParams()
