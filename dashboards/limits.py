"""Provides the limits that panels draw: the default settings of the detectors."""

from streams.decide.params import DecideParams
from streams.detect.params import DetectParams

DETECT = DetectParams()
DECIDE = DecideParams()
