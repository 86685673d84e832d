"""Computes the report from the load and the observations: rates, latencies, the score, and sizes on disk."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from lab.bench.clickhouse_metrics import StoredCounts, TableSize, table_sizes
from lab.bench.load.spec import LoadReport, ReportedFault
from lab.bench.monitor import LOAD, RECOVERED_WITHIN_S, Monitor, WindowEdge
from lab.bench.processes import machine_info
from lab.bench.report import FaultScore, LoadFacts, PartCost, Report, StageRate, StoredFacts, WorkerKill, verdicts
from lab.bench.statistics import Spread, grows, slope, spread_of, spread_of_histogram
from lab.world.fabric_arrays import FabricArrays
from streams.detect.detectors.telemetry_stale import BEHIND_METRIC
from streams.detect.evidence.subjects import subject_ends
from streams.fabric.ids import Port
from streams.replay.score import Truth, as_dict, score
from streams.store.clickhouse import ClickHouse
from streams.wire.models import Finding
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, SAMPLES

OPENS_AFTER_NS = 30_000_000_000
"""The hold time of link/down, which its latency excludes."""
BEFORE_KILL_S = 1.0
"""An event this shortly before a kill may not have been processed yet."""
COMPLETING_CHANGE = 4
"""Index of the third down in the changes of a burst: down, up, down, up, down."""


def summarize(
    monitor: Monitor, fabric: FabricArrays, sent: LoadReport, stored: StoredCounts, start_s: float, problems: list[str]
) -> Report:
    """Return the report of one run."""
    params, first, last = monitor.params, monitor.first, monitor.last
    assert first is not None and last is not None
    seconds = (last.at_ns - first.at_ns) / 1e9
    messages, rows = (_between(sent, column, first.at_ns, last.at_ns) for column in (1, 2))
    used = {part: last.cpu_s.get(part, 0.0) - first.cpu_s.get(part, 0.0) for part in last.cpu_s}
    report = Report(
        gpus=params.gpus,
        cadence_s=params.cadence_s,
        seconds=seconds,
        partitions=params.partitions,
        workers=params.workers,
        compression=params.compression,
        cores=len(os.sched_getaffinity(0)),
        warm_up_s=params.warm_s,
        start_s=start_s,
        port_samples=rows / 1e6,
        load=replace(
            _load(sent, fabric, messages / seconds, rows / seconds, used.get(LOAD, 0.0)), senders=params.senders
        ),
        parts=tuple(_parts(monitor, used)),
        bench_cpu_s=sum(os.times()[:2]),
        stages=tuple(_stages(monitor, first, last, seconds)),
        sample_to_row_s=spread_of_histogram(monitor.row_age_counts),
        flap_to_finding_s=_latency(monitor, sent, "burst"),
        flap_in_kafka_to_finding_s=_latency(monitor, sent, "burst", in_kafka=True),
        down_to_finding_s=_latency(monitor, sent, "down"),
        faults=_fault_score(monitor, sent),
        stored=_stored(monitor, stored),
        kills=tuple(monitor.kills),
        restarts={state.name: state.restarts for state in monitor.supervisor.states()},
        lags=monitor.lags,
        memory=monitor.memory,
        problems=(*problems, *_unexpected_restarts(monitor)),
        behind_s=monitor.behind_s,
        delays=tuple({one.id: one.summary for _, one in monitor.revisions if _is_of_delay(one)}.values()),
        machine=machine_info(),
    )
    return replace(report, verdicts=tuple(verdicts(report)))


def _between(sent: LoadReport, column: int, begin_ns: int, end_ns: int) -> float:
    """Return the amount acknowledged in an interval, interpolated between the marks (about one per second)."""

    def at(at_ns: int) -> float:
        before = after = (sent.began_ns, 0, 0)
        for mark in sent.marks:
            before, after = after, mark
            if mark[0] >= at_ns:
                break
        length_ns = after[0] - before[0]
        share = (at_ns - before[0]) / length_ns if length_ns else 0.0
        return before[column] + share * (after[column] - before[column])

    return at(end_ns) - at(begin_ns)


def _load(sent: LoadReport, fabric: FabricArrays, messages_per_s: float, rows_per_s: float, cpu_s: float) -> LoadFacts:
    return LoadFacts(
        devices=len(fabric.devices),
        ports=fabric.port_count,
        links=len(fabric.links),
        messages_per_s=messages_per_s,
        port_samples_per_s=rows_per_s,
        port_samples_sent=sent.rows,
        messages_sent=sent.messages.get(SAMPLES.name, 0),
        statuses_sent=sent.messages.get(COLLECTOR_STATUS.name, 0),
        events_sent=sent.messages.get(EVENTS.name, 0),
        refused=sent.refused,
        bytes_per_port_sample=sent.bytes / max(1, sent.rows),
        late_max_s=sent.late_max_s,
        late_p99_s=sent.late_p99_s,
        cpu_s=cpu_s,
        messages_per_batch=sum(sent.messages.values()) / max(1, sent.batches),
    )


def _parts(monitor: Monitor, used: dict[str, float]) -> Iterator[PartCost]:
    for part, cpu_s in used.items():
        if part != LOAD:
            # In the first third, bounded buffers still fill.
            samples = monitor.memory.get(part, [])
            growth = slope(samples[len(samples) // 3 :])
            yield PartCost(part, cpu_s, monitor.costs.peak.get(part, 0), growth)


def _stages(monitor: Monitor, first: WindowEdge, last: WindowEdge, seconds: float) -> Iterator[StageRate]:
    for stage, samples in monitor.lags.items():
        lag = spread_of([value for _, value in samples])
        records = (last.records.get(stage, 0) - first.records.get(stage, 0)) / seconds
        # Two seconds of messages: the sink closes a block each second, and samples do not coincide with its commits.
        allowed = max(50.0, 2 * records if records else 2 * _messages_per_s(first, last, seconds))
        yield StageRate(
            stage,
            records,
            lag.p50 or 0.0,
            lag.worst or 0.0,
            samples[-1][1] if samples else 0.0,
            grows(samples, allowed),
        )


def _messages_per_s(first: WindowEdge, last: WindowEdge, seconds: float) -> float:
    return (last.records.get("measure", 0) - first.records.get("measure", 0)) / seconds


def _latency(monitor: Monitor, sent: LoadReport, kind: str, *, in_kafka: bool = False) -> Spread:
    """Return the time from the event that completes a fault, or from its record, to the first revision of its finding.

    Faults that were completed while a killed worker recovered are left out: the recovery time is reported per kill.
    """
    conditions = {fault.condition for fault in sent.faults if fault.kind == kind}
    arrivals: dict[Port, list[int]] = defaultdict(list)
    for arrived_ns, finding in monitor.revisions:
        if finding.condition in conditions:
            for end in subject_ends(finding.subject):
                arrivals[Port(end.device, end.port)].append(arrived_ns)
    assert monitor.first is not None
    latencies = []
    for fault in sent.faults:
        complete_ns = _complete_ns(fault, fault.appended_ns if in_kafka else fault.at_ns)
        if fault.kind != kind or not complete_ns:
            continue
        if is_recovering(monitor.kills, (complete_ns - monitor.first.at_ns) / 1e9):
            continue
        found = [at_ns for at_ns in arrivals[Port(fault.device, fault.port)] if at_ns >= fault.at_ns[0]]
        if found:
            latencies.append((min(found) - complete_ns) / 1e9)
    return spread_of(latencies)


def is_recovering(kills: Iterable[WorkerKill], at_s: float) -> bool:
    """Return True if a killed worker was recovering at this second of the window."""
    return any(
        kill.at_s - BEFORE_KILL_S <= at_s <= kill.at_s + (kill.caught_up_s or RECOVERED_WITHIN_S) for kill in kills
    )


def _complete_ns(fault: ReportedFault, at_ns: list[int]) -> int:
    """Return the time at which a fault was complete; 0 if it was not."""
    if fault.kind == "burst":
        return at_ns[COMPLETING_CHANGE] if len(at_ns) > COMPLETING_CHANGE else 0
    return fault.at_ns[0] + OPENS_AFTER_NS


def _truths(sent: LoadReport, cadence_s: float) -> list[Truth]:
    # A fault that only samples show gets the time of a reading, at most a cadence late; two cadences are allowed.
    tolerance_s = max(15.0, 2 * cadence_s)
    return [
        Truth(fault.at_ns[0], fault.at_ns[-1], fault.condition, fault.device, fault.port, tolerance_s)
        for fault in sent.faults
    ]


def _fault_score(monitor: Monitor, sent: LoadReport) -> FaultScore:
    truths = _truths(sent, monitor.params.cadence_s)
    outcome = score([finding for _, finding in monitor.revisions if not _is_of_delay(finding)], truths)
    names = as_dict(outcome)
    missed: dict[bool, list[str]] = {True: [], False: []}
    for truth, name in zip(outcome.missed, names["missed"], strict=True):
        missed[truth.end_ns + truth.tolerance_ns <= monitor.decided_ns].append(name)
    return FaultScore(
        len(truths), len(outcome.found), tuple(missed[True]), tuple(missed[False]), tuple(names["invented"]),
        len(outcome.false_pages),
    )  # fmt: skip


def _is_of_delay(finding: Finding) -> bool:
    """Return whether a finding reports that the pipeline is behind, which is true of a load that it does not carry."""
    return any(evidence.metric == BEHIND_METRIC for evidence in finding.evidence)


def _stored(monitor: Monitor, stored: StoredCounts) -> StoredFacts:
    clickhouse = ClickHouse(monitor.settings.store)
    try:
        tables: tuple[TableSize, ...] = tuple(table_sizes(clickhouse))
    finally:
        clickhouse.close()
    kafka = topic_bytes(monitor.params.folder / "kafka")
    return StoredFacts(stored.rows, stored.messages, stored.statuses, stored.events, tables, kafka)


def topic_bytes(folder: Path) -> dict[str, int]:
    """Return the size of each topic's segments, without its preallocated indices."""
    sizes: dict[str, int] = defaultdict(int)
    for segment in folder.rglob("*.log"):
        topic, _, partition = segment.parent.name.rpartition("-")
        if topic and partition.isdigit():
            sizes[topic] += segment.stat().st_size
    return dict(sizes)


def _unexpected_restarts(monitor: Monitor) -> Iterator[str]:
    kills: dict[str, int] = defaultdict(int)
    for kill in monitor.kills:
        kills[kill.part] += 1
    for state in monitor.supervisor.states():
        if state.restarts > kills[state.name]:
            yield f"{state.name} ended on its own and was restarted {state.restarts - kills[state.name]} times"
