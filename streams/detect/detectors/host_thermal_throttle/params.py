"""Thresholds of host/thermal-throttle."""

from pydantic import Field

from streams.detect.thresholds import Seconds, Thresholds


class ThermalParams(Thresholds):
    """`[detect.thermal]`: the temperatures at which a GPU or a module is too hot, and for how long it counts."""

    gpu_limit_c: float = Field(default=85.0, gt=0)
    """Maximum operating temperature of data center GPUs by `nvidia-smi -q -d TEMPERATURE` (A100: 85 °C, H100: 87)."""

    module_limit_c: float = Field(default=80.0, gt=0)
    """Above the high alarm of 75 °C that modules for a case of up to 70 °C have; 70 °C alone is usual under load."""

    peer_margin_c: float = Field(default=10.0, ge=0)
    """Above the median of the host's own GPUs or modules: all hot is the room or the fans (DETECTION 3: +10 °C)."""

    open_after_s: Seconds = 60
    """Six readings: a GPU touches its limit for some seconds when a job starts, until its clock falls."""

    clear_s: Seconds = 120
    """Cool for this long; a part that throttles and recovers in turn is one finding."""
