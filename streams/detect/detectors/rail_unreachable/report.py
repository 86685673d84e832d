"""The finding of rail/unreachable: the rail, who does not reach it, and that the host's other rails answer."""

from streams.detect.detector import Context
from streams.detect.detectors.rail_unreachable.params import UnreachableParams
from streams.detect.evidence import probe_findings
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.probe_verdicts import ProbePeriod, ProbeStatement, ProbeVerdict
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    RailProbes,
    Subject,
)

SLUG = "rail/unreachable"
VERSION = "1"


def verdict(params: UnreachableParams, window: RailProbes, topology: Topology) -> ProbeVerdict:
    """Return the verdict on a window in which the rail is not reached."""
    name = f"{window.device}/{window.port}"
    link = topology.link_at(Port(window.device, window.port))
    behind = f" behind {link.upper.device}" if link is not None else ""
    statements = (
        ProbeStatement(
            f"{window.to_lost} of {window.to_sent} probes of {window.peers} hosts to {name}{behind} are lost",
            window.device, window.port, window.to_lost / max(1, window.to_sent), params.unreached_ratio,
        ),
        ProbeStatement(
            f"{window.own_lost} of {window.own_sent} probes from {name} are lost",
            window.device, window.port, window.own_lost / max(1, window.own_sent), params.unreached_ratio,
        ),
        ProbeStatement(
            f"{window.others_lost} of {window.others_sent} probes from the other rails of {window.device} are lost",
            window.device, "", window.others_lost / max(1, window.others_sent), params.others_ratio,
        ),
    )  # fmt: skip
    lost, sent = window.to_lost + window.own_lost, window.to_sent + window.own_sent
    summary = f"{name} answers no probe, while the other rails of {window.device} do"
    return ProbeVerdict(window.begin_ns, window.end_ns, window.end_ns, lost, sent, summary, statements)


def conclusion(params: UnreachableParams, context: Context, subject: Subject, period: ProbePeriod) -> Conclusion:
    """Return the episode of a period."""
    fields = {
        **finding_defaults(context.settings, SLUG, VERSION),
        "condition": Condition.RAIL_UNREACHABLE,
        "subject": subject,
        "cause": Cause.UNKNOWN,
        "coverage": Coverage(seen=1, expected=1),
    }
    return probe_findings.conclusion(fields, period, params.clear_s, context.settings, context.watermark_ns)
