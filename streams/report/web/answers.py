"""Builds the answers of the pages and of the JSON: findings, one finding, jobs, one device, the pipeline's health.

Each answer is a value of JSON, with times in Unix ns; templates and clients read the same.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from itertools import islice
from typing import Any, TypeVar

import orjson

from streams.config.settings import Settings
from streams.detect.fabric_side import devices_of
from streams.fabric.inventory import Inventory
from streams.fabric.link_table import TopologyLink
from streams.fabric.topology import Topology
from streams.locality.distance import UnknownHost
from streams.locality.fabric_state import Usability
from streams.report.explanation import explain_finding
from streams.report.job import MIN_COVERAGE
from streams.report.job.render_verdict import verdict_lines
from streams.report.job.summary import summaries
from streams.report.job.verdict import job_verdict
from streams.report.locality.service import LocalityService
from streams.report.open_findings import FindingFilter
from streams.report.render import decision_reason, is_waiting, revision_lines, state_name
from streams.report.source_status import UNKNOWN_NAMES, SourceRow, SourceState, source_rows, unknown_devices
from streams.report.top.state import TopState, follow_state
from streams.store.clickhouse import ClickHouse
from streams.store.queries.finding_queries import query_past_findings
from streams.store.queries.jobs import query_stays
from streams.wire import codec
from streams.wire.control_scope import is_active
from streams.wire.errors import Misconfigured, Retry
from streams.wire.models import Control, ControlKind, Finding, Remediation

MAX_ROWS = 500
"""The limit of rows of a list; the rest is counted."""
HISTORY_DAYS = 28
NEIGHBORS = 8
BEHIND_NS = 60_000_000_000
"""Findings that are older than this are reported as behind, as by the board Pipeline."""
_HEALTH_NS = 1_000_000_000
"""The age at which the health is computed again: it reads every source, and each page has it in its header."""
_DAY_NS = 86_400_000_000_000

Json = dict[str, Any]
_Result = TypeVar("_Result")


def plain(message: Finding | Remediation | Control) -> Json:
    """Return a message as its record on Kafka has it."""
    return dict(orjson.loads(codec.to_json(message)))


class Answers:
    """The answers from the present state of the topics, and from Kafka and ClickHouse for one finding or job."""

    def __init__(
        self, settings: Settings, state: TopState, locality: LocalityService, now_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._settings, self._state, self.locality = settings, state, locality
        self.now_ns = now_ns
        self._health: tuple[int, Json] | None = None
        """The newest health, and the time of its computation."""

    @property
    def _topology(self) -> Topology | None:
        """The inventory in effect with the jobs of the schedulers; None until the locality has read it."""
        current = self.locality.current
        return None if current is None else current.locality.groups.topology

    async def follow(self) -> None:
        """Follow the topics until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.locality.run())
            tasks.create_task(follow_state(self._settings.kafka, self._state, with_inventory=False))

    def health(self) -> Json:
        """Return how far behind the findings are, what is not read, and the state of each stage; at most 1 s old."""
        now_ns = self.now_ns()
        if self._health is None or not 0 <= now_ns - self._health[0] < _HEALTH_NS:
            self._health = now_ns, self._compute_health(now_ns)
        return self._health[1]

    def _compute_health(self, now_ns: int) -> Json:
        now_s = time.monotonic()
        watermark_ns = self._state.stages["decide"].watermark_ns
        behind_ns = None if watermark_ns is None else max(0, now_ns - watermark_ns)
        rows = self._sources(now_ns)
        stages = [
            {
                "stage": name, "unread": stage.lag, "records_per_s": round(stage.rate(now_s), 1),
                "watermark_ns": stage.watermark_ns,
            }
            for name, stage in self._state.stages.items()
        ]  # fmt: skip
        return {
            "findings_as_of_ns": watermark_ns,
            "behind_ns": behind_ns,
            "is_behind": behind_ns is None or behind_ns > BEHIND_NS,
            "problem": self.locality.problem(),
            "sources_up": sum(row.state is SourceState.UP for row in rows),
            "sources": sum(row.state is not SourceState.ENDED for row in rows),
            "problems": [row.as_dict(now_ns) for row in islice((one for one in rows if one.has_problem), MAX_ROWS)],
            "unknown_lines": [
                {"device": name, "lines": lines} for name, lines in unknown_devices(rows)[:UNKNOWN_NAMES]
            ],
            "stages": stages,
        }

    def _sources(self, now_ns: int, device: str = "") -> list[SourceRow]:
        """Return the sources of one device, by default of all."""
        topology, statuses = self._topology, self._state.statuses.values()
        devices = () if topology is None else topology.devices.values()
        return source_rows(
            (one for one in statuses if device in ("", one.device)),
            Inventory(tuple(one for one in devices if device in ("", one.name))),
            now_ns,
        )

    def findings(self, wanted: FindingFilter) -> Json:
        """Return the open findings that a filter selects, causes first and the most severe on top."""
        now_ns = self.now_ns()
        acked = self._state.acknowledged(now_ns)
        found = [one for one in self._state.open_findings if wanted.selects(one, one.id in acked)]
        return {
            "open": len(self._state.open_findings),
            "shown": min(len(found), MAX_ROWS),
            "selected": len(found),
            "findings": [self._finding(one, acked) for one in found[:MAX_ROWS]],
            "waiting": [_remediation(one) for one in self._state.remediations.values() if is_waiting(one)],
        }

    def _finding(self, finding: Finding, acked: Mapping[str, Control]) -> Json:
        ack = acked.get(finding.id)
        return {
            **_named(finding),
            "started_ns": finding.started_at_ns,
            "acknowledged_by": "" if ack is None else ack.actor or "unknown",
            "ends": devices_of(finding),
        }

    async def finding(self, identity: str) -> Json:
        """Return one finding with its evidence, samples, revisions and remediations.

        Raises NoSuchFinding, and Retry if neither Kafka nor ClickHouse answers.
        """
        kafka = self._settings.kafka
        found = await self._stored(lambda clickhouse: explain_finding(kafka, clickhouse, identity, samples=True))
        acked = self._state.acknowledged(self.now_ns())
        return {
            **found.as_dict(),
            "finding": self._finding(found.finding, acked),
            "parent": self._parent(found.finding),
            "children": [self._finding(child, acked) for child in found.children],
            "remediations": [_remediation(one) for one in found.remediations],
            "no_samples": found.no_samples,
            "history": list(revision_lines(found.revisions)),
        }

    def _parent(self, finding: Finding) -> Json | None:
        found = self._state.findings.get(finding.parent_id)
        return None if found is None else self._finding(found, {})

    async def _stored(self, read: Callable[[ClickHouse], _Result]) -> _Result:
        """Return what a function reads from ClickHouse in a thread, which must not read the state."""

        def work() -> _Result:
            with closing(ClickHouse(self._settings.store)) as clickhouse:
                return read(clickhouse)

        return await asyncio.to_thread(work)

    async def jobs(self) -> list[Json]:
        """Return the jobs that run now; raises Retry without ClickHouse's answer."""
        now_ns = self.now_ns()
        found = await self._stored(lambda clickhouse: summaries(query_stays(clickhouse, now_ns - 1, now_ns)))
        return [
            {
                "job": one.job, "name": one.name, "user": one.user, "team": one.team, "tenant": one.tenant,
                "state": one.state, "hosts": len(one.hosts), "gpus": one.gpus, "start_ns": one.start_ns,
            }
            for one in found
        ]  # fmt: skip

    async def job(self, identity: str) -> Json | None:
        """Return the verdict on a job's network so far, or None for an unknown job; raises Retry as `jobs`."""
        stale, window = self._settings.detect.stale, (0, self.now_ns())
        verdict = await self._stored(lambda clickhouse: job_verdict(clickhouse, stale, identity, window, MIN_COVERAGE))
        return None if verdict is None else {**verdict.as_dict(), "lines": list(verdict_lines(verdict))}

    async def device(self, name: str) -> Json | None:
        """Return what is known of one device and its links, or None for a name that the inventory lacks.

        `no_past` is the reason for a missing history.
        """
        topology, now_ns = self._topology, self.now_ns()
        if topology is None or name not in topology.devices:
            return None
        acked = self._state.acknowledged(now_ns)
        worst = self._worst_by_subject()
        names = {name, f"device:{name}", *(link.id for link in topology.links_of.get(name, ()))}
        about = [one for one in self._state.open_findings if _concerns(one, name)]
        past, no_past = await self._past(name, now_ns)
        return {
            "device": topology.devices[name]._asdict(),
            "jobs": topology.jobs_on([name], now_ns),
            "findings": [self._finding(one, acked) for one in about],
            "links": [_link(link, name, worst.get(link.id)) for link in topology.links_of.get(name, ())],
            "sources": [row.as_dict(now_ns) for row in self._sources(now_ns, name)],
            "remediations": [_remediation(one) for one in self._state.remediations.values() if one.target.id in names],
            "controls": [
                plain(one)
                for one in self._state.controls.values()
                if one.subject_id in names and one.kind is not ControlKind.ACKNOWLEDGE and is_active(one, now_ns)
            ],
            **self._neighborhood(name),
            "past": [_named(one) for one in past],
            "no_past": no_past,
        }

    def _worst_by_subject(self) -> dict[str, Finding]:
        worst: dict[str, Finding] = {}
        for finding in reversed(self._state.open_findings):
            worst[finding.subject.id] = finding
        return worst

    def _neighborhood(self, name: str) -> Json:
        """Return the usability of a host with its reasons, and the nearest hosts; neither for a switch."""
        current = self.locality.current
        if current is None:
            return {"usability": "unknown", "reasons": [self.locality.problem()], "near": []}
        locality = current.locality
        try:
            number = locality.distances.host_number(name)
        except UnknownHost:
            return {"usability": "", "reasons": [], "near": []}
        issues = locality.state.issues(number)
        near = locality.distances.near(name, NEIGHBORS)
        return {
            "usability": Usability(int(locality.state.usability[number])).name.lower(),
            "reasons": [f"{each.subject_id}: {each.reason}" for each in issues],
            "near": [orjson.loads(each.model_dump_json()) for each in near],
        }

    async def _past(self, name: str, now_ns: int) -> tuple[list[Finding], str]:
        since_ns = now_ns - HISTORY_DAYS * _DAY_NS
        try:
            return await self._stored(lambda clickhouse: query_past_findings(clickhouse, name, since_ns)), ""
        except (Retry, Misconfigured) as error:
            return [], str(error).splitlines()[0]


def _named(finding: Finding) -> Json:
    """Return the record of a finding, with the names of its condition and severity on the pages."""
    return {**plain(finding), "slug": finding.condition.slug, "rank": finding.severity.name.lower()}


def _concerns(finding: Finding, device: str) -> bool:
    radius = finding.blast_radius
    return device in devices_of(finding) or (radius is not None and device in radius.hosts)


def _remediation(one: Remediation) -> Json:
    """Return a remediation with its state in words, and the command for a person if it waits for one."""
    return {
        **plain(one),
        "state": state_name(one),
        "decision": decision_reason(one),
        "command": f"railsight approve {one.id[:12]}" if is_waiting(one) else "",
    }


def _link(link: TopologyLink, device: str, worst: Finding | None) -> Json:
    own, far = (link.lower, link.upper) if link.lower.device == device else (link.upper, link.lower)
    return {
        "id": link.id, "port": own.port, "far_device": far.device, "far_port": far.port, "role": link.role,
        "rail": link.rail, "plane": link.plane, "speed_bps": link.speed_bps,
        "finding": None if worst is None else {
            "id": worst.id, "slug": worst.condition.slug, "rank": worst.severity.name.lower(), "summary": worst.summary,
        },
    }  # fmt: skip
