"""The finding of path/loss: the element, what it loses, and the votes for it and for the next best."""

from collections.abc import Sequence

from streams.detect.detectors.path_loss.flows import device_of
from streams.detect.detectors.path_loss.localize import Suspect
from streams.detect.detectors.path_loss.params import PathParams
from streams.detect.evidence import probe_findings
from streams.detect.evidence.episodes import Conclusion, finding_defaults
from streams.detect.evidence.params import SharedSettings
from streams.detect.evidence.probe_verdicts import ProbePeriod, ProbeStatement, ProbeVerdict
from streams.detect.evidence.subjects import link_name
from streams.detect.thresholds import ns
from streams.wire.models import (
    Cause,
    Condition,
    Coverage,
    ProbeWindow,
    Subject,
)

SLUG = "path/loss"
VERSION = "1"

_CERTAIN, _NOT_DISTINGUISHED, _NOT_LOCATED = 0.9, 0.6, 0.5
"""Confidence in one element, in one of several with the same flows, and in a flow whose trace shows no place."""


def verdict(
    params: PathParams, subject: Subject, suspects: Sequence[Suspect], end_ns: int, cells: Sequence[ProbeWindow]
) -> ProbeVerdict:
    """Return the verdict on a subject: its suspects are both directions of a link, or several flows."""
    whole = [one for one in suspects if one.flow is None]
    lost, sent = sum(one.lost for one in suspects), sum(one.sent for one in suspects)
    confidence = min(
        _NOT_LOCATED if not one.is_located else _NOT_DISTINGUISHED if one.equal else _CERTAIN for one in suspects
    )
    width_ns = ns(params.window_s)
    return ProbeVerdict(
        min(one.begin_ns for one in suspects) - width_ns, max(one.last_ns for one in suspects), end_ns, lost, sent,
        _summary(subject, whole, suspects),
        (*(line for one in suspects for line in _statements(params, one)), _coverage(cells)), confidence,
        is_switch=any("/" not in one.element for one in suspects),
    )  # fmt: skip


def _summary(subject: Subject, whole: Sequence[Suspect], suspects: Sequence[Suspect]) -> str:
    name = link_name(subject) if subject.z is not None else subject.id.partition(":")[2]
    if whole:
        ratio = sum(one.lost for one in whole) / max(1, sum(one.sent for one in whole))
        return f"{name} loses {ratio:.1%} of the probes that cross it"
    hosts = suspects[0].flow.hosts if suspects[0].flow is not None else ("", "")
    if not suspects[0].is_located:
        return f"a path from {hosts[0]} to {hosts[1]} loses all probes of one 5-tuple"
    count = "one 5-tuple" if len(suspects) == 1 else f"{len(suspects)} 5-tuples"
    return f"{name} loses all probes of {count} (first: {hosts[0]} to {hosts[1]})"


def _statements(params: PathParams, suspect: Suspect) -> list[ProbeStatement]:
    device = device_of(suspect.element)
    port = suspect.element[len(device) + 1 :]
    if suspect.flow is not None:
        flow = suspect.flow
        where = (
            f"beyond the last hop that answers: into {suspect.element}" if suspect.is_located else "place not traced"
        )
        text = (
            f"{suspect.lost} of {suspect.sent} probes from {flow.source} to {flow.target}, source port"
            f" {flow.source_port}, are lost; other flows over the same links and hosts are not; {where}"
        )
        return [ProbeStatement(text, device, port, suspect.lost / max(1, suspect.sent), params.healthy_ratio)]
    where = f"into {suspect.element}" if port else f"through {device}"
    text = f"{suspect.lost} of {suspect.sent} probes {where} are lost, of {suspect.flows} flows"
    lines = [ProbeStatement(text, device, port, suspect.lost / max(1, suspect.sent), params.noise)]
    if suspect.votes:
        text = f"{suspect.votes:.2f} votes of these flows for {suspect.element}"
        if suspect.next_element:
            text += f"; next: {suspect.next_votes:.2f} for {suspect.next_element}"
        lines.append(ProbeStatement(text, device, port, suspect.votes, suspect.next_votes))
    if suspect.equal:
        text = f"the same flows cross {', '.join(suspect.equal)}: probes cannot distinguish these"
        lines.append(ProbeStatement(text, device, port, 1.0 + len(suspect.equal), 1.0))
    return lines


def _coverage(cells: Sequence[ProbeWindow]) -> ProbeStatement:
    """Return how many probers counted; the sum over the partitions of the newest window."""
    newest_ns = max(cell.at_ns for cell in cells)
    newest = [cell for cell in cells if cell.at_ns == newest_ns]
    probers, left_out = sum(cell.probers for cell in newest), sum(cell.left_out for cell in newest)
    text = f"{probers} probers reported, {left_out} more stalled and cast no votes"
    return ProbeStatement(text, "", "", probers, probers + left_out)


def conclusion(
    params: PathParams, settings: SharedSettings, subject: Subject, period: ProbePeriod, watermark_ns: int
) -> Conclusion:
    """Return the episode of a period."""
    coverage = period.worst.statements[-1]
    fields = {
        **finding_defaults(settings, SLUG, VERSION),
        "condition": Condition.PATH_LOSS,
        "subject": subject,
        "cause": Cause.SWITCH if period.worst.is_switch else Cause.UNKNOWN,
        "coverage": Coverage(seen=round(coverage.observed), expected=round(coverage.expected)),
    }
    return probe_findings.conclusion(fields, period, params.clear_s, settings, watermark_ns)
