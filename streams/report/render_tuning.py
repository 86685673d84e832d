"""Renders the tuning of a detector as text: the candidates, the proposal, and examples of what it changes."""

from collections.abc import Iterator

from streams.instrument.time_format import format_time
from streams.replay.tuning import Tuning
from streams.wire.models import Finding

_EXAMPLES = 5
_SHORT_DAYS = 7


def tuning_lines(tuning: Tuning) -> Iterator[str]:
    """Yield a line for each candidate, the settings as TOML, and some of the findings that come and go."""
    extent = f"{tuning.days:.2f} days, {tuning.messages} messages"
    yield f"{tuning.detector} over {extent}; wanted: {tuning.per_week:g} a week"
    if tuning.days < _SHORT_DAYS:
        yield f"the history is shorter than a week: numbers a week are extrapolated from {tuning.days:.2f} days"
    yield f"{'limits x':>9}{'findings':>10}{'a week':>10}"
    for one in tuning.candidates:
        marks = (" present", one is tuning.present), (" proposed", one is tuning.proposed)
        mark = "".join(text for text, applies in marks if applies)
        yield f"{one.factor:>9g}{len(one.findings):>10}{one.per_week:>10.1f}{mark}"
    if tuning.proposed is tuning.present:
        yield "the present settings are the nearest; change nothing"
        return
    yield f"[detect.{tuning.section}]"
    yield from (f"{name} = {value:.6g}" for name, value in tuning.proposed.values.items())
    differences = tuning.differences
    yield f"{len(differences.appeared)} findings appear, {len(differences.disappeared)} disappear"
    for sign, findings in (("+", differences.appeared), ("-", differences.disappeared)):
        yield from (f"{sign} {_line(finding)}" for finding in findings[:_EXAMPLES])
        if len(findings) > _EXAMPLES:
            yield f"{sign} and {len(findings) - _EXAMPLES} more"


def _line(finding: Finding) -> str:
    confidence = "" if finding.confidence is None else f", confidence {finding.confidence:.2f}"
    return f"{format_time(finding.started_at_ns)}  {finding.severity.name:<8}  {finding.summary}{confidence}"
