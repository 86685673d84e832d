"""Was the network clean for a job: what hurt it, what was seen of it, and what was not."""

from dataclasses import dataclass
from typing import Any

import orjson

from streams.detect.params import StaleParams, ns
from streams.report.job.harm import Harm, harms, is_blind
from streams.report.job.place import Place, place_of
from streams.report.job.seen import Seen, seen_of
from streams.report.job.spans import Span
from streams.store.queries import job_allocations, job_history
from streams.store.query_client import QueryClient
from streams.wire import codec
from streams.wire.models import Finding


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer; `stale` are the findings of what was not seen."""

    place: Place
    harms: tuple[Harm, ...]
    stale: tuple[Finding, ...]
    seen: Seen
    enough: float

    @property
    def clean(self) -> bool:
        """Nothing speaks against the network."""
        return not any(harm.counts for harm in self.harms)

    @property
    def enough_seen(self) -> bool:
        """Whether that says anything: enough of all, and something of each port."""
        return self.seen.share >= self.enough and all(port.share > 0 for port in self.seen.ports)

    def as_dict(self) -> dict[str, Any]:
        """As JSON would have it; shares from 0 to 1, times in Unix ns."""
        return {
            "job": self.place.job, "from_ns": self.place.span[0], "to_ns": self.place.span[1],
            "clean": self.clean, "enough_seen": self.enough_seen, "seen": round(self.seen.share, 6),
            "hosts": {host: [list(span) for span in spans] for host, spans in self.place.stays.items()},
            "hurt": [_harm(harm) for harm in self.harms],
            "stale": [orjson.loads(codec.to_json(finding)) for finding in self.stale],
            "ports": [
                {
                    "host": port.cable.lower, "port": port.cable.lower_port, "rail": port.cable.rail,
                    "seen": round(port.share, 6), "gaps": [list(gap) for gap in port.gaps],
                    "by": [{"source": by.source, "at": by.at, "seen": round(by.share, 6)} for by in port.by],
                }
                for port in self.seen.ports
            ],
        }  # fmt: skip


def _harm(harm: Harm) -> dict[str, Any]:
    return {
        "finding": orjson.loads(codec.to_json(harm.finding)), "lasted_s": harm.lasted_ns / 1e9,
        "hosts": list(harm.hosts), "explains": [_harm(child) for child in harm.children],
    }  # fmt: skip


def verdict_of(asks: QueryClient, silent: StaleParams, job: str, asked: Span, enough: float) -> Verdict | None:
    """What ClickHouse says of a job in a span, cut to when it ran; None where it did not run then."""
    since_ns, until_ns = asked
    stays = job_allocations.query_allocations(asks, since_ns, until_ns, job)
    if not stays:
        return None
    span = max(since_ns, min(stay.start_ns for stay in stays)), min(until_ns, max(stay.end_ns for stay in stays))
    place = place_of(asks, job, span, stays)
    near = _with_parents(asks, job_history.findings_near(asks, job, place.stays, place.devices, place.pods, span))
    hurt = harms(place, [finding for finding in near if not is_blind(finding)])
    stale = harms(place, [finding for finding in near if is_blind(finding)])
    return Verdict(place, hurt, tuple(harm.finding for harm in stale), _seen(asks, silent, place, span), enough)


def _with_parents(asks: QueryClient, near: list[Finding]) -> list[Finding]:
    """And what explains them, though it be far from the job."""
    known = {finding.id for finding in near}
    return [*near, *job_history.findings_by_id(asks, {f.parent_id for f in near if f.parent_id} - known)]


def _seen(asks: QueryClient, silent: StaleParams, place: Place, span: Span) -> Seen:
    devices = sorted({*place.stays, *(cable.upper for cable in place.ports)})
    reads = list(job_history.source_readings(asks, devices, span, silent.cadences, ns(silent.at_least_s)))
    return seen_of(
        place, reads, job_history.port_row_counts(asks, devices, span), job_history.port_aliases(asks, devices)
    )
