"""The list of faults on the demo's screen: every condition that the simulation can inject, and what was found of it.

Each state is a word beside its color, so that a terminal without colors shows the same.
"""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from lab.world.faults import FAULT_OF
from streams.replay.score import Truth
from streams.report.top.state import SEVERITY_COLORS
from streams.wire.models import Finding, Severity, Status

FOUND, WAITING, PLANNED = "found", "waiting", "planned"
_COLORS = {FOUND: "green", WAITING: "yellow", PLANNED: ""}
_LEGEND = "found: by a finding   waiting: begun, no finding yet   planned: begins later"
_ID_CHARACTERS = 12
_PLACE = 22
"""Characters of the place, with which a row has 78: a scroll bar takes two of 80."""


def fault_list(truths: Sequence[Truth], findings: Iterable[Finding], at_ns: int) -> RenderableType:
    """Return the legend, a row for each fault of this demo, and the conditions that it has no fault of."""
    known = [one for one in findings if one.status is not Status.RETRACTED]
    head = f"{'STATE':<8} {'CONDITION':<22} {'PLACE':<{_PLACE}} {'SEVERITY':<9} FINDING"
    lines = [Text(_LEGEND, "dim"), Text(head, "bold"), *_rows(truths, known, at_ns)]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    absent = [slug for slug in FAULT_OF if slug not in {truth.condition.slug for truth in truths}]
    others = f"The simulation can also inject: {', '.join(absent)}" if absent else ""
    return Group(*lines, Text(""), Text(others, "dim"))


def _rows(truths: Sequence[Truth], findings: Sequence[Finding], at_ns: int) -> Iterator[Text]:
    for slug in FAULT_OF:
        injected = sorted((one for one in truths if one.condition.slug == slug), key=lambda one: one.start_ns)
        for truth in injected:
            finding = next((one for one in findings if _is_of(one, truth)), None)
            state = FOUND if finding else WAITING if at_ns >= truth.start_ns else PLANNED
            yield _row(state, slug, "/".join(filter(None, (truth.device, truth.port))), finding)


def _row(state: str, slug: str, place: str, finding: Finding | None) -> Text:
    place = place if len(place) <= _PLACE else f"{place[: _PLACE - 1]}…"
    severity = finding.severity if finding else Severity.SEVERITY_UNSPECIFIED
    return Text.assemble(
        (f"{state:<8} ", _COLORS[state]),
        f"{slug:<22} {place:<{_PLACE}} ",
        (f"{severity.name if finding else '-':<9} ", SEVERITY_COLORS.get(severity, "dim")),
        (finding.id[:_ID_CHARACTERS] if finding else "-", ""),
    )


def _is_of(finding: Finding, truth: Truth) -> bool:
    """Return whether a finding has the condition and the place of a fault, and began while it lasted."""
    if finding.condition is not truth.condition:
        return False
    if not truth.start_ns - truth.tolerance_ns <= finding.started_at_ns <= truth.end_ns + truth.tolerance_ns:
        return False
    ends = [end for end in (finding.subject.a, finding.subject.z) if end is not None]
    if any(end.device == truth.device and truth.port in ("", end.port) for end in ends):
        return True
    return finding.subject.id == f"device:{truth.device}"
