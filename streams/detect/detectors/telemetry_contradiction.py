"""telemetry/contradiction: detects collectors that send reports about one port that exclude each other.

Opens when one reads the port as up and another as down, or one counts errors and the other none, over three readings of
both; when a run without readings reports downs of a port that readings show up; or when the only collector that counts
errors does not show that it reads the port. Resolves when none of this was reported for 11 minutes.

A fault of the link is not excused by it: its own finding stays open, with unknown coverage.
"""

from streams.detect.detector import Context, Detector, Evaluation, JobDomain, Placement, follow_link, link_follower
from streams.detect.evidence.episodes import Conclusion, PublishedEpisodes, evidence_of
from streams.detect.evidence.link_history import CONTRADICTED_NS, FOREVER, LinkHistory
from streams.detect.evidence.subjects import link_name
from streams.detect.fabric_side import CapacityEffect, FabricSide, link_keys
from streams.detect.thresholds import Thresholds, ns
from streams.fabric.catalogue import Metric
from streams.fabric.intervals import split_at_gaps
from streams.wire.models import Cause, Condition, Coverage, Endpoint, Symptom
from streams.wire.symptoms import PortFault


class ContradictionParams(Thresholds):
    """`[detect.contradiction]` has no settings."""


_CONFIDENCE = 0.9
"""One of the two collectors is wrong; a host of a name that two devices share may explain both."""


def _conclusion(context: Context, history: LinkHistory, reports: list[Symptom]) -> Conclusion:
    first_ns, last_ns = reports[0].at_ns, reports[-1].at_ns
    over_ns = last_ns + CONTRADICTED_NS
    is_over = over_ns <= context.watermark_ns
    by_text = {(one.device, one.port, _text(one)): one for one in reversed(reports)}
    ports = tuple(sorted({f"{one.device}/{one.port}" for one in reports}))
    return Conclusion(
        history.subject, first_ns, last_ns, opened_ns=first_ns, seen_ns=last_ns,
        resolved_ns=last_ns if is_over else None, over_ns=over_ns,
        summary=f"collectors contradict each other about {link_name(history.subject)}",
        cause=Cause.UNKNOWN,
        evidence=(
            evidence_of(
                f"{device}/{port}: {text}", "", Endpoint(device, port),
                (one.at_ns, last_ns if is_over else None), comparison="both-collectors",
            )
            for (device, port, text), one in sorted(by_text.items())
        ),
        confidence=_CONFIDENCE,
        coverage=Coverage(missing=ports),
    )  # fmt: skip


def _text(report: Symptom) -> str:
    return report.payload.report if isinstance(report.payload, PortFault) else ""


def _evaluate(
    _: ContradictionParams, key: str, state: PublishedEpisodes | None, context: Context
) -> Evaluation[PublishedEpisodes]:
    """Conclude from the reports of the link."""
    history = context.evidence.links[key]
    reports = sorted(history.contradictions(0, FOREVER), key=lambda one: one.at_ns)
    runs = split_at_gaps(reports, lambda one: (one.at_ns, one.at_ns), CONTRADICTED_NS)
    return follow_link(context, history, state, [_conclusion(context, history, run) for run in runs], ())


def _link_retention_ns(_: ContradictionParams, lateness_s: float) -> int:
    """Return the age from which a report changes no conclusion."""
    return 2 * CONTRADICTED_NS + ns(2 * lateness_s)


DETECTOR = Detector(
    Condition.TELEMETRY_CONTRADICTION,
    version="1",
    opens_when="collectors send reports about one port that exclude each other: up and down, errors and none",
    params=ContradictionParams,
    section="contradiction",
    placement=Placement.DOUBTFUL,
    job_domain=JobDomain.NEITHER,
    lemon=None,
    hidden_in={
        **dict.fromkeys(("snmp", "nic", "infiniband"), "only one collector reports on a port"),
        "slow": "no reading refutes a down before it is link/down",
    },
    fabric=FabricSide(capacity=CapacityEffect.NONE, explained_by_outages=False, group_keys=link_keys),
    pod=link_follower(_evaluate, _link_retention_ns),
    state_metric=Metric.OPER_UP,
)
