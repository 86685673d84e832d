"""Defines the NVML fields that are read of a GPU and of its NVLinks, and decodes their values. Pure.

The numbers are those of nvml.h, which are never reused. A driver refuses each field that it lacks by itself: NVLink 5
(Blackwell) has no replay and CRC counters, and GPUs before it have no bit error ratios.
"""

from collections.abc import Callable
from typing import NamedTuple

from streams.fabric.catalogue import Metric

_KIB = 1024


class GpuField(NamedTuple):
    """One field; of fields with the same metric and kind, the first that the GPU supports counts."""

    metric: Metric
    number: int
    decode: Callable[[int], float] = lambda value: value
    kind: int = -1


def bit_error_ratio(value: int) -> float:
    """Decode a bit error ratio, m·10^-e with m in the bits 11:8 and e in the bits 7:0; 0xFFF means none (nvml.h)."""
    return 0.0 if value & 0xFFF == 0xFFF else float(f"{value >> 8 & 0xF}e-{value & 0xFF}")


def _kibibytes(value: int) -> int:
    return value * _KIB % 2**64


LINK_FIELDS = (
    GpuField(Metric.NVLINK_TX_BYTES, 138, _kibibytes),
    GpuField(Metric.NVLINK_TX_BYTES, 202),
    GpuField(Metric.NVLINK_RX_BYTES, 139, _kibibytes),
    GpuField(Metric.NVLINK_RX_BYTES, 204),
    GpuField(Metric.NVLINK_RECOVERIES, 215),
    GpuField(Metric.NVLINK_FAILED_RECOVERIES, 214),
    GpuField(Metric.NVLINK_RX_ERRORS, 208),
    GpuField(Metric.NVLINK_INTEGRITY_ERRORS, 211),
    GpuField(Metric.NVLINK_TX_DISCARDS, 212),
    GpuField(Metric.NVLINK_EFFECTIVE_ERRORS, 219),
    GpuField(Metric.NVLINK_SYMBOL_ERRORS, 221),
    GpuField(Metric.NVLINK_EFFECTIVE_BER, 220, bit_error_ratio),
    GpuField(Metric.NVLINK_SYMBOL_BER, 222, bit_error_ratio),
    GpuField(Metric.NVLINK_RAW_BER, 293, bit_error_ratio),
    GpuField(Metric.NVLINK_RAW_BER, 218, bit_error_ratio),
)
"""Fields of one NVLink. The payload is counted in KiB up to Hopper; NVLink 5 counts the bytes on the link."""
GPU_FIELDS = (
    GpuField(Metric.NVLINK_LINKS, 91),
    *(GpuField(Metric.GPU_CLOCK_LIMITED_NS, number, kind=kind) for kind, number in enumerate((74, 269, 270, 271))),
    *(GpuField(Metric.GPU_ROWS_REMAPPED, number, kind=kind) for kind, number in enumerate((142, 143))),
    *(GpuField(Metric.GPU_ROW_REMAP_STATE, number, kind=kind) for kind, number in enumerate((144, 145))),
    GpuField(Metric.GPU_RECOVERY_ACTION, 230),
)
"""Fields of a GPU; the kinds are those of metric.proto."""

_CONFIGURATION = 4
_MASK = ((0, 1), (2, 1), (4, 1), (6, 1), (8, 0), (12, 2), (14, 2))
"""By kind of GPU_FABRIC_FAULTS, the lowest bit in the health mask and the value that is the fault."""


def fabric_faults(mask: int) -> dict[int, float]:
    """Return the faults of a fabric health mask by kind, 1 or 0; kinds that the GPU does not report are absent."""
    found = {}
    for kind, (shift, fault) in enumerate(_MASK):
        value = mask >> shift & (0xF if kind == _CONFIGURATION else 3)
        if kind == _CONFIGURATION and value:
            found[kind] = float(value > 1)
        elif kind != _CONFIGURATION and value in (1, 2):
            found[kind] = float(value == fault)
    return found


def clique_name(uuid: bytes, clique: int) -> str:
    """Return the name of an NVLink clique as NVIDIA's device plugin writes it; empty without a cluster."""
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}.{clique}" if any(uuid) else ""
