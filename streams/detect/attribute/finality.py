"""When a finding is final, and when it is judged anew though nothing is told of it."""

from collections.abc import Mapping

from streams.detect.attribute.root_cause import OUTLIVING, parent_expiry_ns
from streams.detect.attribute.state import Case
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import Condition, Finding, Status


def is_final(params: DetectParams, case: Case, now_ns: int) -> bool:
    """Nothing that may still arrive changes it; of what was taken back, nothing brought it back in time."""
    own = case.episode.finding
    if own.status is Status.RETRACTED:
        return now_ns >= case.retracted_ns + ns(params.lateness_s)
    return own.final and now_ns >= _settled_ns(params, own)


def next_evaluation_ns(params: DetectParams, cases: Mapping[str, Case], case: Case, now_ns: int) -> int | None:
    """When it is final, or when the device that it went with has been back for long; None where it waits for news.

    What is still said to have gone with it then has an end that nobody reads: it is looked at again as long after.
    """
    own = case.episode.finding
    if own.status is Status.RETRACTED:
        return case.retracted_ns + ns(params.lateness_s)
    if own.is_closed:
        return _settled_ns(params, own)
    if own.condition in OUTLIVING and case.published is not None and case.published.parent_id:
        parent = cases.get(case.published.parent_id)
        until_ns = None if parent is None else parent_expiry_ns(params, parent.episode.finding)
        if until_ns is not None:
            return until_ns + 1 if until_ns >= now_ns else now_ns + ns(params.grouping.outlive_s)
    if own.condition is Condition.TELEMETRY_STALE:
        return (own.detected_at_ns or 0) + ns(params.stale.unseen_after_s)
    return None


def _settled_ns(params: DetectParams, finding: Finding) -> int:
    """When what explains it has been heard as well."""
    return (finding.resolved_at_ns or 0) + ns(params.lateness_s + params.down.hold_up_s)
