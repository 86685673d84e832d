"""Grades Xids: no fault of the GPU, corrected, contained, uncorrectable, or off the bus.

After the actions of NVIDIA's own agents: the Xid catalogue's resolution buckets as NVSentinel's `xiderrorsmapping.csv`
has them (RESTART_APP, RESET_GPU, RESTART_BM, IGNORE), and gpud's list of what is critical. Those that only the
program on the GPU can cause are no fault of it: the device plugin of Kubernetes ignores them as well.
"""

from enum import IntEnum

from streams.wire.models import Cause


class Grade(IntEnum):
    """The severity of an Xid, in order; DETECTION 3a makes the upper two CRITICAL."""

    NONE = 0
    """Caused by the program, or for information only."""
    CORRECTED = 1
    """The hardware dealt with it; the GPU goes on."""
    UNKNOWN = 2
    """Not in the catalogue, or "report an issue" in it."""
    CONTAINED = 3
    """One program died of it; the GPU goes on."""
    UNCORRECTABLE = 4
    """The GPU must be reset, or its host be restarted."""
    OFF_BUS = 5


ECC = 0
"""The code for uncorrectable ECC errors that a counter shows, without an Xid."""
OFF_BUS = 79
INIT_FAILED = 143
RECOVERY = 154
"""The driver reports the action that the GPU needs, or that it needs none any more."""

_PROGRAM = frozenset(
    {8, 11, 13, 25, 31, 32, 39, 40, 41, 43, 44, 45, 60, *range(68, 73), *range(75, 78), 80, *range(82, 87), 88, 89,
     *range(96, 106), *range(126, 136), 139, 141, 159}
)  # fmt: skip
"""RESTART_APP: a page fault (31), an exception of the program (13), a channel that was taken away (45) and the like."""

_INFORMATION = frozenset({14, 37, 38, 66, 67, 93, 106, 107, 137, 152, 153, RECOVERY, 157, 161})
"""IGNORE."""

_NAMES: dict[int, tuple[Grade, str]] = {
    ECC: (Grade.CONTAINED, "uncorrectable ECC errors"),
    46: (Grade.UNCORRECTABLE, "it stopped processing"),
    48: (Grade.UNCORRECTABLE, "double bit ECC error"),
    54: (Grade.UNCORRECTABLE, "its auxiliary power is not connected"),
    62: (Grade.UNCORRECTABLE, "its microcontroller halted"),
    63: (Grade.CORRECTED, "a row or page of memory is to be replaced"),
    64: (Grade.UNCORRECTABLE, "a row or page of memory could not be replaced"),
    74: (Grade.UNCORRECTABLE, "NVLink error"),
    OFF_BUS: (Grade.OFF_BUS, "it has fallen off the bus"),
    92: (Grade.CORRECTED, "many single bit ECC errors"),
    94: (Grade.CONTAINED, "contained ECC error"),
    95: (Grade.UNCORRECTABLE, "uncontained ECC error"),
    109: (Grade.UNCORRECTABLE, "a context switch timed out"),
    110: (Grade.UNCORRECTABLE, "security fault"),
    119: (Grade.UNCORRECTABLE, "its system processor does not answer"),
    120: (Grade.UNCORRECTABLE, "its system processor failed"),
    121: (Grade.CORRECTED, "corrected error between CPU and GPU"),
    136: (Grade.UNCORRECTABLE, "an NVLink does not train"),
    140: (Grade.UNCORRECTABLE, "unrecovered ECC error"),
    INIT_FAILED: (Grade.UNCORRECTABLE, "it could not be initialised"),
    **dict.fromkeys(range(144, 151), (Grade.UNCORRECTABLE, "NVLink error")),
    151: (Grade.UNCORRECTABLE, "its keys could not be changed"),
    155: (Grade.UNCORRECTABLE, "NVLink error"),
    156: (Grade.UNCORRECTABLE, "a part of it was retired; active after a reset"),
    158: (Grade.UNCORRECTABLE, "fatal time-out"),
    160: (Grade.UNCORRECTABLE, "a memory channel was retired; active after a restart"),
    162: (Grade.UNCORRECTABLE, "must be reset"),
}

_NVLINK = frozenset({74, 136, *range(144, 151), 155})
_MEMORY = frozenset({ECC, 48, 63, 64, 92, 94, 95, 140, 156, 160})


def grade(code: int) -> Grade:
    """Return the grade of an Xid."""
    if code in _NAMES:
        return _NAMES[code][0]
    return Grade.NONE if code in _PROGRAM or code in _INFORMATION else Grade.UNKNOWN


def name(code: int) -> str:
    """Return the text of an Xid; empty where the catalogue has none."""
    return _NAMES[code][1] if code in _NAMES else ""


def cause(code: int) -> Cause:
    """Return the part that is at fault."""
    if code == OFF_BUS:
        return Cause.GPU_OFF_BUS
    return Cause.NVLINK if code in _NVLINK else Cause.GPU_MEMORY if code in _MEMORY else Cause.GPU


def is_recovered(code: int, detail: str) -> bool:
    """Return whether the driver reports that no action is needed: `… from 0x1 (GPU Reset Required) to 0x0 (None)`."""
    return code == RECOVERY and detail.rstrip().endswith("to 0x0 (None)")


def code_of(detail: str) -> int | None:
    """Return the Xid for lines of the driver that mean the same without one; None for others."""
    if "fallen off the bus" in detail:
        return OFF_BUS
    return INIT_FAILED if "RmInitAdapter failed" in detail else None
