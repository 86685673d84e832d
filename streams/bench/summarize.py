"""From what was sent and what was seen to the report: rates, latencies, the score, and what lies on disk."""

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from streams.bench.clickhouse_metrics import StoredCounts, TableSize, table_sizes
from streams.bench.load.spec import InjectedFault, LoadReport
from streams.bench.machine import machine_info
from streams.bench.monitor import LOAD, RECOVERED_WITHIN_S, Monitor, WindowEdge
from streams.bench.report import FaultScore, LoadFacts, PartCost, Report, StageRate, StoredFacts, WorkerKill
from streams.bench.statistics import Spread, grows, slope, spread_of, spread_of_histogram
from streams.bench.verdicts import verdicts
from streams.fabric.ids import Port
from streams.replay.score import Truth, score
from streams.replay.score_report import as_dict
from streams.simulation.fabric_arrays import FabricArrays
from streams.store.clickhouse import ClickHouse
from streams.wire.models import Condition, Finding
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, SAMPLES

CONDITIONS = {
    "burst": Condition.LINK_FLAP,
    "down": Condition.LINK_DOWN,
    "reboot": Condition.DEVICE_DOWN,
    "gone": Condition.DEVICE_DOWN,
}
"""Which condition each kind of fault is; the others have no truth."""
OPENS_AFTER_NS = 30_000_000_000
"""link/down's own wait, which its latency leaves out."""
BEFORE_A_KILL_S = 1.0
"""What came so shortly before a kill may have been on its way."""
COMPLETES = 4
"""The change of a burst that is its third down: down, up, down, up, down."""


def summarize(
    watch: Monitor, plant: FabricArrays, sent: LoadReport, stored: StoredCounts, start_s: float, problems: list[str]
) -> Report:
    """The report of one run."""
    params, first, last = watch.params, watch.first, watch.last
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
            _load(sent, plant, messages / seconds, rows / seconds, used.get(LOAD, 0.0)), senders=params.senders
        ),
        parts=tuple(_parts(watch, used)),
        bench_cpu_s=sum(os.times()[:2]),
        stages=tuple(_stages(watch, first, last, seconds)),
        sample_to_row_s=spread_of_histogram(watch.row_age_counts),
        flap_to_finding_s=_latency(watch, sent, "burst"),
        down_to_finding_s=_latency(watch, sent, "down"),
        faults=_fault_score(watch, sent),
        stored=_stored(watch, stored),
        kills=tuple(watch.kills),
        restarts={state.name: state.restarts for state in watch.supervisor.states()},
        lags=watch.lags,
        memory=watch.memory,
        problems=(*problems, *_unasked_restarts(watch)),
        machine=machine_info(),
    )
    return replace(report, verdicts=tuple(verdicts(report)))


def _between(sent: LoadReport, column: int, begin_ns: int, end_ns: int) -> float:
    """How much was acknowledged in a time, by the marks about each second."""

    def at(at_ns: int) -> float:
        before = after = (sent.began_ns, 0, 0)
        for mark in sent.marks:
            before, after = after, mark
            if mark[0] >= at_ns:
                break
        span = after[0] - before[0]
        share = (at_ns - before[0]) / span if span else 0.0
        return before[column] + share * (after[column] - before[column])

    return at(end_ns) - at(begin_ns)


def _load(sent: LoadReport, plant: FabricArrays, messages_per_s: float, rows_per_s: float, cpu_s: float) -> LoadFacts:
    return LoadFacts(
        devices=len(plant.devices),
        ports=plant.port_count,
        links=len(plant.links),
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


def _parts(watch: Monitor, used: dict[str, float]) -> Iterator[PartCost]:
    for part, cpu_s in used.items():
        if part != LOAD:
            # The first third still fills what is bounded.
            looks = watch.memory.get(part, [])
            growth = slope(looks[len(looks) // 3 :])
            yield PartCost(part, cpu_s, watch.costs.peak.get(part, 0), growth)


def _stages(watch: Monitor, first: WindowEdge, last: WindowEdge, seconds: float) -> Iterator[StageRate]:
    for stage, looks in watch.lags.items():
        lag = spread_of([value for _, value in looks])
        records = (last.records.get(stage, 0) - first.records.get(stage, 0)) / seconds
        # Two seconds' worth: the sink closes a block each second, and looks do not meet its commits.
        allowed = max(50.0, 2 * records if records else 2 * _messages_per_s(first, last, seconds))
        yield StageRate(
            stage, records, lag.p50 or 0.0, lag.worst or 0.0, looks[-1][1] if looks else 0.0, grows(looks, allowed)
        )


def _messages_per_s(first: WindowEdge, last: WindowEdge, seconds: float) -> float:
    return (last.records.get("measure", 0) - first.records.get("measure", 0)) / seconds


def _latency(watch: Monitor, sent: LoadReport, kind: str) -> Spread:
    """From what completes a fault to the first revision of its finding; the load is the same until it ends.

    Faults that were completed while a killed worker was on its way back are left out: how long that takes is said of
    each kill.
    """
    came: dict[Port, list[tuple[int, Finding]]] = defaultdict(list)
    for came_ns, finding in watch.revisions:
        if finding.condition is CONDITIONS[kind]:
            for end in (finding.subject.a, finding.subject.z):
                if end is not None:
                    came[Port(end.device, end.port)].append((came_ns, finding))
    assert watch.first is not None
    latencies = []
    for told in sent.faults:
        complete_ns = _complete_ns(told)
        if told.kind != kind or complete_ns is None:
            continue
        if is_recovering(watch.kills, (complete_ns - watch.first.at_ns) / 1e9):
            continue
        own = [came_ns for came_ns, _ in came[Port(told.device, told.port)] if came_ns >= told.at_ns[0]]
        if own:
            latencies.append((min(own) - complete_ns) / 1e9)
    return spread_of(latencies)


def is_recovering(kills: Iterable[WorkerKill], at_s: float) -> bool:
    """Whether a killed worker was on its way back at this second of the window."""
    return any(
        kill.at_s - BEFORE_A_KILL_S <= at_s <= kill.at_s + (kill.caught_up_s or RECOVERED_WITHIN_S) for kill in kills
    )


def _complete_ns(told: InjectedFault) -> int | None:
    if told.kind == "burst":
        return told.at_ns[COMPLETES] if len(told.at_ns) > COMPLETES else None
    return told.at_ns[0] + OPENS_AFTER_NS


def _truths(sent: LoadReport, cadence_s: float) -> list[Truth]:
    # What only samples tell is dated by a reading, a cadence late at most; two are allowed.
    tolerance_s = max(15.0, 2 * cadence_s)
    return [
        Truth(told.at_ns[0], told.at_ns[-1], CONDITIONS[told.kind], told.device, told.port, tolerance_s)
        for told in sent.faults
        if told.kind in CONDITIONS
    ]


def _fault_score(watch: Monitor, sent: LoadReport) -> FaultScore:
    truths = _truths(sent, watch.params.cadence_s)
    outcome = score([finding for _, finding in watch.revisions], truths)
    names = as_dict(outcome)
    return FaultScore(
        len(truths), len(outcome.found), tuple(names["missed"]), tuple(names["invented"]), len(outcome.false_pages)
    )


def _stored(watch: Monitor, there: StoredCounts) -> StoredFacts:
    clickhouse = ClickHouse(watch.settings.store)
    try:
        tables: tuple[TableSize, ...] = tuple(table_sizes(clickhouse))
    finally:
        clickhouse.close()
    kafka = topic_bytes(watch.params.folder / "kafka")
    return StoredFacts(there.rows, there.messages, there.statuses, there.events, tables, kafka)


def topic_bytes(folder: Path) -> dict[str, int]:
    """What the segments of each topic take; its indices, made in advance, are left out."""
    found: dict[str, int] = defaultdict(int)
    for segment in folder.rglob("*.log"):
        topic, _, partition = segment.parent.name.rpartition("-")
        if topic and partition.isdigit():
            found[topic] += segment.stat().st_size
    return dict(found)


def _unasked_restarts(watch: Monitor) -> Iterator[str]:
    asked: dict[str, int] = defaultdict(int)
    for kill in watch.kills:
        asked[kill.part] += 1
    for state in watch.supervisor.states():
        if state.restarts > asked[state.name]:
            yield f"{state.name} ended by itself and was started again {state.restarts - asked[state.name]} times"
