"""Decides when a finding is final, and when to evaluate it again without new input."""

from collections.abc import Mapping

from streams.detect.attribute.root_cause import parent_expiry_ns
from streams.detect.attribute.sides import DetectorParams, fabric_side
from streams.detect.attribute.state import Case
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.wire.models import Finding, Status


class Finality:
    """The times at which findings become final, by the lateness and the detectors' settings."""

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._detector_params = DetectorParams(params)
        self._lateness_ns = ns(params.lateness_s)
        self._settle_ns = ns(params.lateness_s + self._detector_params.settle_s)

    def is_final(self, case: Case, watermark_ns: int) -> bool:
        """Return whether nothing that may still arrive changes a finding; a retraction is final after the lateness."""
        finding = case.episode.finding
        if finding.status is Status.RETRACTED:
            return watermark_ns >= case.retracted_ns + self._lateness_ns
        return finding.final and watermark_ns >= self._settled_ns(finding)

    def next_evaluation_ns(self, cases: Mapping[str, Case], case: Case, watermark_ns: int) -> int | None:
        """Return the watermark at which a finding is final or may outlive its parent; None if it waits for input.

        A finding that still has its parent after the parent's expiry has an end that no source reads; it is evaluated
        again after as long.
        """
        finding = case.episode.finding
        side = fabric_side(finding)
        if finding.status is Status.RETRACTED:
            return case.retracted_ns + self._lateness_ns
        if finding.is_closed:
            return self._settled_ns(finding)
        if side.ends_with_parent and case.published is not None and case.published.parent_id:
            parent = cases.get(case.published.parent_id)
            expiry_ns = None if parent is None else parent_expiry_ns(self._params, parent.episode.finding, finding)
            if expiry_ns is not None:
                outlive_ns = ns(self._params.grouping.outlive_s)
                return expiry_ns + 1 if expiry_ns >= watermark_ns else watermark_ns + outlive_ns
        if side.severity_due_ns is not None:
            return side.severity_due_ns(self._detector_params.of(finding), finding)
        return None

    def _settled_ns(self, finding: Finding) -> int:
        """Return when the observations that may explain a resolved finding have arrived as well."""
        return (finding.resolved_at_ns or 0) + self._settle_ns
