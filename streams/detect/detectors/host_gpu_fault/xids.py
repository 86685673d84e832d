"""Grades a report of a GPU's driver: by the words of its line first, then by NVIDIA's catalog. Pure.

The catalog is a data file with its source and date (xids.toml). A line of an NVLink 5 error states whether it is fatal,
and its words select the row of the catalog; a row never overrides the line's severity. Xid 154 states the recovery
action. AMD's driver has no Xids: its lines are graded by their text.
"""

import re
import tomllib
from collections.abc import Mapping
from datetime import date
from enum import IntEnum
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from streams.wire.models import Cause

Action = Literal["RESTART_APP", "IGNORE", "RESET_GPU", "RESTART_HOST", "XID_154_EVAL", "INVESTIGATE_CABLE"]


class Grade(IntEnum):
    """The severity of a report, in order; DETECTION 3a makes the upper two CRITICAL."""

    NONE = 0
    """Caused by the program, or for information only."""
    CORRECTED = 1
    """The hardware corrected it; the GPU continues."""
    UNKNOWN = 2
    """Unknown to the catalog, or without an action in it."""
    CONTAINED = 3
    """One program ended because of it; the GPU continues."""
    UNCORRECTABLE = 4
    """The GPU must be reset, or its host restarted."""
    OFF_BUS = 5


_GRADES: Mapping[Action, Grade] = {
    "RESTART_APP": Grade.NONE, "IGNORE": Grade.NONE, "RESET_GPU": Grade.UNCORRECTABLE,
    "RESTART_HOST": Grade.UNCORRECTABLE, "XID_154_EVAL": Grade.CONTAINED, "INVESTIGATE_CABLE": Grade.CORRECTED,
}  # fmt: skip
AMD = 0
"""The code of reports that are no Xid: lines of amdgpu."""
OFF_BUS = 79
INIT_FAILED = 143
RECOVERY = 154
_RECOVERY_GRADES = {
    0: Grade.NONE, 1: Grade.UNCORRECTABLE, 2: Grade.UNCORRECTABLE, 3: Grade.CONTAINED, 4: Grade.UNCORRECTABLE,
    5: Grade.CONTAINED,
}  # fmt: skip
"""By the action of Xid 154: none, reset, reboot, drain peer-to-peer traffic, drain and reset, recover the IMEX domain
(open-gpu-kernel-modules 595.45.04)."""


class GpuReport(NamedTuple):
    """The grade of a report, its text for people, and the part at fault."""

    grade: Grade
    headline: str
    cause: Cause


class LineRow(BaseModel):
    """A row of the catalog's table of NVLink 5 lines; `unit` is the beginning of the unit's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: int
    unit: str
    severity: Literal["fatal", "nonfatal"]
    action: Action
    reasons: tuple[int, ...] = ()
    statuses: tuple[int, ...] = ()


class XidCatalogue(BaseModel):
    """The data file; `extra` is forbidden, so that a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    date: date
    actions: dict[Action, tuple[int, ...]]
    hardware: dict[Literal["contained", "corrected", "off_bus"], tuple[int, ...]]
    ends: dict[int, int]
    names: dict[int, str]
    parts: dict[Literal["nvlink", "memory"], tuple[int, ...]]
    lines: tuple[LineRow, ...]


@cache
def catalogue() -> XidCatalogue:
    """Return the catalog of this version."""
    text = (resources.files(__package__) / "xids.toml").read_text(encoding="utf-8")
    return XidCatalogue.model_validate(tomllib.loads(text))


@cache
def _grades() -> Mapping[int, Grade]:
    known = catalogue()
    grades = {code: _GRADES[action] for action, codes in known.actions.items() for code in codes}
    return grades | {code: Grade[name.upper()] for name, codes in known.hardware.items() for code in codes}


def grade(code: int) -> Grade:
    """Return the grade of an Xid by its code alone."""
    if code == RECOVERY:
        return Grade.NONE
    return _grades().get(code, Grade.UNKNOWN)


@lru_cache(maxsize=4096)
def report(code: int, message: str) -> GpuReport:
    """Return the grade of a report by its line, or by its code where the line has no words."""
    if code == AMD:
        return _amd_report(message)
    found = grade(code)
    name = catalogue().names.get(code, "")
    if code == RECOVERY and (action := _ACTION.search(message)):
        found = _RECOVERY_GRADES.get(int(action[1], 16), Grade.UNKNOWN)
        name = f"the driver asks for: {action[2]}"
    elif found is Grade.UNKNOWN and (line := _NVLINK.search(message)):
        found, name = _line_grade(code, line, name)
    if not name:
        name = f"which is unknown to the catalog of {catalogue().date}"
    return GpuReport(found, f"Xid {code}, {name}", _cause(code))


_ACTION = re.compile(r"\bto 0x([0-9a-fA-F]{1,8}) \(([^()]{1,60})\)", re.ASCII)
_NVLINK = re.compile(
    r"[,:] (?P<unit>[A-Z][\w/]{0,40}(?: [A-Z][a-z]{1,20})?)\s+(?P<severity>Fatal|Non-?fatal)\b"
    r"(?:[^(]{0,80}\(0x(?P<info>[0-9a-fA-F]{1,8})\b(?:[ ,]+0x(?P<status>[0-9a-fA-F]{1,8})\b)?)?",
    re.ASCII,
)


def _line_grade(code: int, line: re.Match[str], name: str) -> tuple[Grade, str]:
    """Return the grade and the name of an NVLink 5 line."""
    severity: Any = "fatal" if line["severity"] == "Fatal" else "nonfatal"
    info, status = int(line["info"] or "0", 16), int(line["status"] or "0", 16)
    name = f"{name or 'NVLink error'}, {severity} in {line['unit']}"
    row = _row(code, line["unit"], severity, info >> 20 & 0x3F, status) if line["info"] else None
    if row is None:
        return (Grade.UNCORRECTABLE if severity == "fatal" else Grade.CORRECTED), name
    if row.action == "INVESTIGATE_CABLE":
        name = f"{name}: bit errors of the link, check its cable"
    return _GRADES[row.action], name


def _row(code: int, unit: str, severity: str, reason: int, status: int) -> LineRow | None:
    """Return the catalog's row of this severity; an exact status or reason first, then one of its bits."""
    rows = [
        row for row in catalogue().lines if row.code == code and unit.startswith(row.unit) and row.severity == severity
    ]
    exact = (row for row in rows if status in row.statuses or reason in row.reasons)
    by_bit = (row for row in rows if any(status & bit == bit for bit in row.statuses))
    whole = (row for row in rows if not row.statuses and not row.reasons)
    return next((row for found in (exact, by_bit, whole) for row in found), None)


_AMD = re.compile(
    r"^amdgpu \S{1,20}: (?:amdgpu: )?(?:.{0,80}?\b(?P<count>[1-9]\d{0,9}) new )?"
    r"(?:.{0,20}?\b(?P<kind>uncorrectable|correctable|deferred) hardware error"
    r"|GPU reset(?: (?P<begin>begin)| (?P<failed>end with ret = -\d)|\(\d{1,9}\) (?P<end>failed|succeeded)))",
    re.ASCII,
)


def is_amd(message: str) -> bool:
    """Return True for a line of AMD's driver that reports an error or a reset of the GPU."""
    return _AMD.match(message) is not None


def _amd_report(message: str) -> GpuReport:
    line = _AMD.match(message)
    kind, begin, end, failed = line.group("kind", "begin", "end", "failed") if line else ("", "", "", "")
    count = f"{line['count']} " if line and line["count"] else ""
    if kind == "uncorrectable":
        return GpuReport(Grade.UNCORRECTABLE, f"{count}uncorrectable hardware errors", Cause.GPU)
    if kind:
        return GpuReport(Grade.CORRECTED, f"{count}{kind} hardware errors", Cause.GPU)
    if failed or end == "failed":
        return GpuReport(Grade.UNCORRECTABLE, "its reset failed", Cause.GPU)
    return GpuReport(Grade.CONTAINED if begin else Grade.NONE, "the driver resets it", Cause.GPU)


def needs_nothing(code: int, message: str) -> bool:
    """Return whether the driver reports that the GPU needs no action: `… to 0x0 (None)`, or a reset by AMD's."""
    if code == RECOVERY:
        action = _ACTION.search(message)
        return action is not None and int(action[1], 16) == 0
    line = _AMD.match(message) if code == AMD else None
    return line is not None and line["end"] == "succeeded"


def _cause(code: int) -> Cause:
    """Return the part at fault."""
    if code == OFF_BUS:
        return Cause.GPU_OFF_BUS
    parts = catalogue().parts
    return Cause.NVLINK if code in parts["nvlink"] else Cause.GPU_MEMORY if code in parts["memory"] else Cause.GPU
