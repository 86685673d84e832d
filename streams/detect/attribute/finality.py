"""Decides when a finding is final, and when to evaluate it again without new input."""

from collections.abc import Mapping

from streams.detect.attribute.root_cause import parent_expiry_ns
from streams.detect.attribute.sides import DetectorParams, fabric_side
from streams.detect.attribute.state import Case
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import Finding, Status


def is_final(params: DetectParams, case: Case, watermark_ns: int) -> bool:
    """Return whether nothing that may still arrive changes a finding; a retraction is final after the lateness."""
    finding = case.episode.finding
    if finding.status is Status.RETRACTED:
        return watermark_ns >= case.retracted_ns + ns(params.lateness_s)
    return finding.final and watermark_ns >= _settled_ns(params, finding)


def next_evaluation_ns(params: DetectParams, cases: Mapping[str, Case], case: Case, watermark_ns: int) -> int | None:
    """Return the watermark at which a finding is final or may outlive its parent; None if it waits for input.

    A finding that still has its parent after the parent's expiry has an end that no source reads; it is evaluated
    again after as long.
    """
    finding = case.episode.finding
    side = fabric_side(finding)
    if finding.status is Status.RETRACTED:
        return case.retracted_ns + ns(params.lateness_s)
    if finding.is_closed:
        return _settled_ns(params, finding)
    if side.ends_with_parent and case.published is not None and case.published.parent_id:
        parent = cases.get(case.published.parent_id)
        expiry_ns = None if parent is None else parent_expiry_ns(params, parent.episode.finding)
        if expiry_ns is not None:
            return expiry_ns + 1 if expiry_ns >= watermark_ns else watermark_ns + ns(params.grouping.outlive_s)
    if side.severity_due_ns is not None:
        return side.severity_due_ns(DetectorParams(params).of(finding), finding)
    return None


def _settled_ns(params: DetectParams, finding: Finding) -> int:
    """Return when what may explain a resolved finding has arrived as well."""
    return (finding.resolved_at_ns or 0) + ns(params.lateness_s + params.down.hold_up_s)
