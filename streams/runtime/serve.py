"""Runs one or several stages in this process until a signal stops it.

Several Faust apps share one event loop; each is a service with its own consumer thread.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streams.config.identity import IdentitySettings
from streams.config.kafka import KafkaSettings
from streams.config.runtime import RuntimeSettings
from streams.embedded.directories import data_directory, prepare
from streams.health.health import Health, HealthParams
from streams.health.metrics_export import Sender
from streams.health.partition_checks import Group, OwnedPartition, PartitionChecks, Wording
from streams.health.status_server import process_metrics, stop_of, supervised
from streams.instrument.memory import relaxed_gc
from streams.runtime.admin import ensure_topics, until_ready
from streams.runtime.bindings import BINDINGS, Binding
from streams.runtime.foreground import WallClock
from streams.runtime.inventory_reader import InventoryReader
from streams.runtime.log_setup import throttle_repeats
from streams.runtime.partition_processor import MakeStage
from streams.runtime.runner import Runner, end_process
from streams.wire.errors import Retry
from streams.wire.event_loop import new_loop, unless_stopped
from streams.wire.topics import INVENTORY, JOBS, TOPICS, Topic

if TYPE_CHECKING:
    from streams.wire.identity import MacSigner, MacVerifier

log = logging.getLogger(__name__)

STOP_WITHIN_S = 7.0
"""The limit of a stop, for snapshots and a second of Faust's: below the ten seconds of supervise.GRACE_S."""
_FIRST_WAIT_S = 3.0
"""After this time without an answer, a line reports it; the next follows after `broker_wait_s`."""
_SWITCH_S = 0.001
"""The interpreter's switch interval: a consumer's thread waits this long at every step while a batch is processed. With
the default of 5 ms, an event waited several times 5 ms at each of four stages."""


@dataclass(frozen=True)
class StageSet:
    """The registry of topics; tests use another one, because they share brokers."""

    bindings: Mapping[str, Binding] = field(default_factory=lambda: BINDINGS)
    topics: Iterable[Topic] = TOPICS
    inventory: Topic = INVENTORY
    jobs: Topic = JOBS


def run_stages(
    stages: Mapping[str, MakeStage],
    kafka: KafkaSettings,
    runtime: RuntimeSettings,
    *,
    wiring: StageSet | None = None,
    health: HealthParams | None = None,
    identity: IdentitySettings | None = None,
    sender: Sender | None = None,
) -> None:
    """Run until SIGTERM or SIGINT, and wait for unavailable brokers; raises Misconfigured."""
    state = Health(health or HealthParams(), time.monotonic)
    identity = identity or IdentitySettings()
    verifier = identity.verifier() if "measure" in stages else None
    signer = identity.decide_signer() if "decide" in stages else None

    async def until_signalled() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with supervised(state):
            await _serve(stages, kafka, runtime, stop, wiring or StageSet(), state, verifier, signer, sender)

    throttle_repeats()
    sys.setswitchinterval(_SWITCH_S)
    with relaxed_gc(), asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(until_signalled())


async def _serve(
    stages: Mapping[str, MakeStage],
    kafka: KafkaSettings,
    runtime: RuntimeSettings,
    stop: asyncio.Event,
    wiring: StageSet,
    health: Health,
    verifier: "MacVerifier | None",
    signer: "MacSigner | None",
    sender: Sender | None,
) -> None:
    """Run these stages until `stop` is set; raises Misconfigured if the topics differ from the configuration."""
    data = runtime.data or data_directory() / "faust"
    prepare(data, purpose="folder of Faust", needs_bytes=0)
    metrics = process_metrics(runtime.metrics_host, runtime.metrics_port, health, sender)
    if not await unless_stopped(stop, _prepare(kafka, runtime, wiring)):
        return
    inventory = InventoryReader(kafka, wiring.inventory, wiring.jobs)
    following = asyncio.create_task(inventory.run(), name="inventory")
    following.add_done_callback(_ended)
    await unless_stopped(stop, _first_inventory(inventory, runtime.inventory_wait_s))
    runners = [
        Runner(
            wiring.bindings[stage],
            make_stage,
            kafka,
            runtime,
            inventory.versions,
            clock=WallClock(),
            metrics=metrics,
            data=data,
            verifier=verifier,
            signer=signer if stage == "decide" else None,
        )
        for stage, make_stage in stages.items()
    ]
    tasks = [asyncio.create_task(runner.run(), name=runner.binding.stage) for runner in runners]
    for task in tasks:
        task.add_done_callback(_ended)
    checks = stage_checks(runners, kafka, health)
    asking = asyncio.create_task(checks.run(), name="health of the input")
    asking.add_done_callback(_ended)
    health.started()
    await stop.wait()
    stop_of(health)
    for reading in (following, asking):
        reading.cancel()
    stops = [asyncio.create_task(runner.stop(), name=f"stop of {runner.binding.stage}") for runner in runners]
    done, late = await asyncio.wait(stops, timeout=STOP_WITHIN_S)
    late |= {task for task in done if isinstance(task.exception(), TimeoutError)}
    if late:
        _abandon([task.get_name() for task in late])
    for task in (*tasks, *stops):
        task.cancel()


_SENDING_S = 1.0
"""A send takes milliseconds; after this time its partition counts as waiting for the brokers."""
_ATTEMPT_S = 120.0
"""Added to the limit during an attempt to take over or to send. Attempts end by themselves after 60 and 80 s: aiokafka
waits 40 s for metadata and 40 s for an acknowledgement."""


def stage_checks(runners: Sequence[Runner], kafka: KafkaSettings, health: Health) -> PartitionChecks:
    """Add the checks of these stages to the health of their process."""

    def owned() -> Mapping[str, OwnedPartition]:
        return {f"{one.binding.stage}/{partition}": owner for one in runners for partition, owner in one.owners.items()}

    def unassigned() -> str:
        missing = [runner.binding.stage for runner in runners if not runner.owns_its_assignment]
        return f"{', '.join(missing)} has none assigned yet, or is in a rebalance" if missing else ""

    return PartitionChecks(
        kafka.client_options(),
        health,
        owned,
        lambda: [Group(f"{one.binding.stage} is ", one.generation, one.is_joining) for one in runners],
        unassigned,
        Wording(
            "{name} is taken over for {s:.0f} s",
            "{name} waits for an acknowledgement for {s:.0f} s",
            "{name} waits for an acknowledgement of its records for {s:.0f} s",
            output="output",
        ),
        attempt_s=_ATTEMPT_S,
        sending_s=_SENDING_S,
    )


def _abandon(late: Sequence[str]) -> None:
    """End the process at once.

    Nothing is lost, because input is acknowledged only after its outputs and a snapshot; a successor reads it again.
    """
    log.warning("stopping without the brokers, a successor reads again what no snapshot covers: %s", ", ".join(late))
    logging.shutdown()
    os._exit(0)


async def _prepare(kafka: KafkaSettings, runtime: RuntimeSettings, wiring: StageSet) -> None:
    within_s = _FIRST_WAIT_S
    while True:
        try:
            await until_ready(kafka, within_s)
            await ensure_topics(kafka, wiring.topics)
        except Retry as error:
            log.warning("waiting for Kafka: %s", error)
            within_s = runtime.broker_wait_s
        else:
            return


async def _first_inventory(inventory: InventoryReader, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await inventory.first.wait()
    except TimeoutError:
        log.warning("no inventory after %g s: going on without, every device is a pod of its own", within_s)


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        end_process(task.get_name(), error)
