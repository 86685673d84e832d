"""A day of a simulated fabric with known faults, through the stages and into the tables, for the dashboards.

The fabric has one pod of four hosts with eight rails, eight leaves and two spines, each read once a minute. The day is
yesterday (UTC), because rows expire by arrival; only its date differs between runs.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from lab.world import demo_fabric
from lab.world.delivery_model import Cadence
from lab.world.demo_fabric import DemoShape
from lab.world.effects import Effect, Interval
from lab.world.fabric_arrays import FabricArrays, fabric_arrays
from lab.world.faults.congestion import Incast
from lab.world.faults.hosts import DegradedPcie, GpuFault, SlowRail
from lab.world.faults.links import Degrading, LinkDown, LinkFlap
from lab.world.ground_truth import PlacedFault, effects_of
from lab.world.telemetry import Telemetry
from lab.world.traffic import JobRun, Traffic
from lab.world.world import World
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Job
from streams.fabric.topology import Topology
from streams.replay.driver import Driver, batches, event_time
from streams.runtime.topic_io import inventory_records
from streams.store.clickhouse import ClickHouse
from streams.store.persist.persisted_topics import PERSISTED_TOPICS, OffsetRange, PersistedTopic
from streams.store.rows.native_format import encode_block
from streams.store.rows.row_builder import SourcedMessage
from streams.wire import topics
from streams.wire.models import CollectorStatus, Event, Facts, Finding, Message, Progress, Remediation, Samples
from tests.worlds.simulated_world import IMMEDIATE
from tests.worlds.small_world import stages

S = 10**9
HOUR = 3600
DAY_S = 24 * HOUR
END_S = int(time.time()) // DAY_S * DAY_S
"""Midnight: the end of the day, in Unix seconds."""
START_S = END_S - DAY_S
CADENCE_S = 60.0
JOB = "pretrain-70b"


def between(begin_h: float, end_h: float) -> Interval:
    """Return an interval of the day, in hours."""
    return Interval(round((START_S + begin_h * HOUR) * S), round((START_S + end_h * HOUR) * S))


INVENTORY = replace(
    demo_fabric.inventory(DemoShape(pods=1, hosts=4, planes=2, spines=1, uplinks=1), START_S * S), jobs=()
)
HOST_LINKS = {link.a: link for link in INVENTORY.links if link.role == "host-link"}
FABRIC_LINKS = [link for link in INVENTORY.links if link.role == "fabric-link"]
DOWN = HOST_LINKS[Port("pod1-host1", "mlx5_2")]
"""Down from 6:00 to 7:00, and from 23:00 past the end of the day."""
FLAPS = FABRIC_LINKS[0]
WORSE = FABRIC_LINKS[5]
SLOW = HOST_LINKS[Port("pod1-host2", "mlx5_4")]
NARROW = HOST_LINKS[Port("pod1-host3", "mlx5_1")]
INCAST_LINK = HOST_LINKS[Port("pod1-host4", "mlx5_0")]
GPU = "0000:1a:00.0"


def _faults() -> list[PlacedFault]:
    downs = tuple(between(4 + minute / 60, 4 + (minute + 0.3) / 60) for minute in range(0, 8, 2))
    senders = (HOST_LINKS[Port("pod1-host1", "mlx5_0")], HOST_LINKS[Port("pod1-host2", "mlx5_0")])
    return [
        LinkDown(DOWN, between(6, 7)),
        LinkDown(DOWN, between(23, 25)),
        LinkFlap(FLAPS, downs),
        Degrading(WORSE, WORSE.z, between(10, 11), lost_ratio=1e-6, ber=2e-5, lane=3),
        SlowRail(SLOW, between(12, 13), 0.6),
        DegradedPcie(NARROW, between(14, 15)),
        GpuFault("pod1-host2", GPU, between(15, 16), 79),
        Incast(INCAST_LINK, between(17, 17.5), marked_ratio=0.2, senders=senders),
    ]


class _Steady(Traffic):
    """One job on the first three hosts for the whole day; the last is as busy with another."""

    def __init__(self, whole: Interval) -> None:
        self.hosts = 4
        self._runs = {
            range(3): [JobRun(JOB, range(3), whole, 0.45, ())],
            range(3, 4): [JobRun("finetune-8b", range(3, 4), whole, 0.45, ())],
        }

    def loads(self, at_ns: int, rng: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        return np.full(self.hosts, 0.45)


def _jobs() -> tuple[Job, ...]:
    names = [device.name for device in INVENTORY.devices if device.kind == "host"]
    since = datetime.fromtimestamp(START_S, UTC)
    return tuple(Job(JOB if name != names[-1] else "finetune-8b", name, since) for name in names)


def fill(store: ClickHouse) -> None:
    """Simulate the day, run the stages over it, and insert all rows."""
    whole = between(0, 24)
    inventory = replace(INVENTORY, jobs=_jobs())
    fabric = fabric_arrays(inventory)
    effects = effects_of(_faults(), fabric)
    messages = _telemetry(inventory, fabric, effects, whole)
    conclusions = _conclusions(messages, inventory)
    by_topic: dict[str, list[tuple[int, Message]]] = defaultdict(list)
    for message in messages:
        by_topic[_TOPICS[type(message)]].append((event_time(message)[0], message))
    for at_ns, conclusion in conclusions:
        by_topic[_TOPICS[type(conclusion)]].append((at_ns, conclusion))
    by_topic[topics.PROGRESS.name] = [
        ((START_S + second) * S, Progress(stage, 0, 1, (START_S + second - 2) * S, 0, second * 10, 0))
        for second in range(0, DAY_S + 1, 60)
        for stage in ("measure", "correlate", "attribute", "decide")
    ]
    for record in inventory_records(inventory, START_S * S - S):
        by_topic[topics.INVENTORY.name].append(
            (START_S * S - S, topics.decode(topics.INVENTORY, record.value, record.headers))
        )
    for persisted in PERSISTED_TOPICS:
        _insert(store, persisted, by_topic[persisted.topic.name])


_TOPICS: dict[type[Message], str] = {
    Samples: topics.SAMPLES.name, Event: topics.EVENTS.name, Facts: topics.FACTS.name,
    CollectorStatus: topics.COLLECTOR_STATUS.name, Finding: topics.FINDINGS.name,
    Remediation: topics.REMEDIATIONS.name,
}  # fmt: skip


def _telemetry(inventory: Inventory, fabric: FabricArrays, effects: Sequence[Effect], whole: Interval) -> list[Message]:
    rng = np.random.default_rng(5)
    world = World(inventory, fabric, _Steady(whole), effects, whole.start_ns, rng)
    telemetry = Telemetry(world, Topology(inventory), effects, Cadence(CADENCE_S, CADENCE_S), IMMEDIATE, rng)
    return [message for _, arrived in telemetry.batches(*whole, S) for message in arrived]


def _conclusions(messages: Sequence[Message], inventory: Inventory) -> list[tuple[int, Finding | Remediation]]:
    """Return what the stages conclude, with the time of the message after which they did."""
    driver = Driver(stages(), Topology(inventory))
    found: list[tuple[int, Finding | Remediation]] = []
    for batch in batches(sorted(messages, key=event_time)):
        at_ns = event_time(batch[-1])[0]
        found += [(at_ns, conclusion) for conclusion in driver.process(batch)]
    return found


def _insert(store: ClickHouse, persisted: PersistedTopic, messages: Sequence[tuple[int, Message]]) -> None:
    if not messages:
        return
    builder = persisted.start(store, OffsetRange(0, 0, 0, 0))
    for offset, (at_ns, message) in enumerate(messages):
        builder.add(SourcedMessage(0, offset, at_ns // 1_000_000, message))
    for rows in builder.finish():
        store.insert(rows.table, rows.column_names, encode_block(rows.columns), f"{rows.table}-day")
