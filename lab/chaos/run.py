"""Carries out sequences on one stack: applies each plan, waits for the recovery, and checks the promises."""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self, TypeVar

from aiokafka.errors import KafkaError

from lab.chaos.faults import FAULTS, needs_of
from lab.chaos.isolation import enter_namespaces
from lab.chaos.load import COLLECTOR, Fabric, Load, subject_id
from lab.chaos.plan import Step, make_plan
from lab.chaos.reader import ClickHouseReader, KafkaReader, Offsets, Revision
from lab.chaos.report import Report, StepResult, build_report, reported_lost
from lab.chaos.scene import Need, Scene
from lab.chaos.stack import SINK, ChaosParams, Stack
from lab.chaos.verdict import FindingTruth, Observation, check_open, newest_revisions
from streams.runtime.foreground import run_until_signalled
from streams.wire.errors import Misconfigured, Retry
from streams.wire.topics import STAGES

T = TypeVar("T")

WARM_UP_S = 60.0
RECOVERY_S = 150.0
"""The longest wait for lag zero and for correct findings, after the last fault has healed."""
_STAYS_DOWN_AFTER_S, _DOWN_AFTER_S, _UP_AFTER_S = 1.0, 3.0, 15.0
_POLL_S = 1.0
_RETRY_S = 0.3
_STAGE_OF_REJECTED = "persist"


@dataclass
class _Recovery:
    """One step that has healed, and the offsets that must be read until it counts as recovered."""

    result: StepResult
    healed_s: float
    ends: Offsets


class ChaosSession:
    """One stack with its load, which runs sequences one after the other."""

    def __init__(self, stack: Stack, load: Load, kafka: KafkaReader, report_line: Callable[[str], None]) -> None:
        self._stack, self._load, self._kafka = stack, load, kafka
        self._report_line = report_line
        self._recoveries: list[_Recovery] = []
        self._has_begun = False

    @classmethod
    @asynccontextmanager
    async def started(
        cls, folder: Path, seed: int, needs: Need, report_line: Callable[[str], None]
    ) -> AsyncIterator[Self]:
        """Start the stack that the faults of some sequences need; end every process at the end."""
        brokers: Literal[1, 3] = 3 if Need.THREE_BROKERS in needs else 1
        has_small_disks = Need.NAMESPACES in needs
        async with Stack.running(folder, brokers=brokers, has_small_disks=has_small_disks) as stack:
            load = Load(stack.kafka_settings, Fabric(run=seed + 1), seed)
            cluster = stack.kafka_settings.cluster
            groups = (*(f"railsight.{cluster}.{stage}" for stage in STAGES), stack.settings.persist.group)
            kafka = KafkaReader(stack.kafka.bootstrap, groups)
            try:
                await load.publish_inventory()
                yield cls(stack, load, kafka, report_line)
            finally:
                await kafka.close()

    async def run(self, params: ChaosParams) -> Report:
        """Carry out one sequence and return its report; at the end nothing is offered and all its messages are read."""
        plan = make_plan(params.seed, params.faults, params.seconds)
        self._report_line(f"seed {params.seed}: {', '.join(map(str, plan))}")
        self._recoveries.clear()
        self._load.ledger.acknowledged.clear()
        for part in self._stack.parts.values():
            part.ended.clear()
        reported_before = reported_lost(self._stack.parts[SINK].logs())
        scene = Scene(self._stack, self._load)
        sending = asyncio.create_task(self._load.run())
        background = [asyncio.create_task(self._stack.keep())]
        try:
            await self._begin()
            background += [
                asyncio.create_task(self._watch(self._kafka)),
                asyncio.create_task(_change_links(self._load)),
            ]
            began_s = time.monotonic()
            results = await asyncio.gather(*(self._carry_out(step, scene, self._kafka, began_s) for step in plan))
            await background[-1]
            self._load.change_link(lambda fabric: fabric.truth.down_at_end, down=True)
            problems = await self._recover(scene, self._kafka)
            # The load continues while everything is read: on a slow machine all devices would otherwise become silent.
            self._load.stop_counting()
            problems += await self._drain(scene, self._kafka)
            seen = await retried(lambda: self._observe(self._stack, self._kafka))
            self._load.stop()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(sending), WARM_UP_S)
        finally:
            for task in (*background, sending):
                task.cancel()
            await asyncio.gather(*background, sending, return_exceptions=True)
        truth = replace(_truth(self._load.fabric), may_lose=scene.may_lose)
        return build_report(params, results, scene, seen, truth, problems, reported_before)

    async def _begin(self) -> None:
        """Bring up the links of the previous sequence and select others; wait until every group reads."""
        fabric = self._load.fabric
        if self._has_begun:
            for link in (fabric.truth.stays_down, fabric.truth.down_at_end):
                self._load.change_link(lambda _, link=link: link, down=False)  # type: ignore[misc]
        self._has_begun = True
        fabric.next_truth(time.time_ns())
        await self._warm_up(self._kafka)

    async def _carry_out(self, step: Step, scene: Scene, kafka: KafkaReader, began_s: float) -> StepResult:
        fault = FAULTS[step.fault]
        own = Scene(scene.stack, scene.load, random.Random(step.seed))
        await asyncio.sleep(max(0.0, began_s + step.begin_s - time.monotonic()))
        result = StepResult(step, fault.promise, time.monotonic())
        with scene.stack.fault(fault.target):
            await retried(lambda: fault.begin(own))
            await asyncio.sleep(max(0.0, began_s + step.heal_s - time.monotonic()))
        await retried(lambda: fault.heal(own))
        result.healed_s = time.monotonic()
        scene.poisoned += own.poisoned
        scene.may_lose |= own.may_lose
        result.may_lose = own.may_lose
        await self._expect_recovery(result, kafka)
        return result

    async def _expect_recovery(self, result: StepResult, kafka: KafkaReader) -> None:
        self._recoveries.append(_Recovery(result, result.healed_s, await _ends(kafka)))

    async def _watch(self, kafka: KafkaReader) -> None:
        """Record when each step has recovered, until cancelled."""
        while True:
            for one in list(self._recoveries):
                if await self._is_read(kafka, one.ends):
                    one.result.recovered_after_s = time.monotonic() - one.healed_s
                    self._recoveries.remove(one)
            await asyncio.sleep(_POLL_S)

    async def _warm_up(self, kafka: KafkaReader) -> None:
        """Wait until every group has read the existing records, so that all parts are working at the first fault."""
        ends = await _ends(kafka)
        if not await self._until(lambda: self._is_read(kafka, ends), WARM_UP_S):
            raise Retry(f"the pipeline did not start to read within {WARM_UP_S:g} s (logs: {self._stack.folder})")

    async def _is_read(self, kafka: KafkaReader, ends: Offsets) -> bool:
        try:
            return await asyncio.wait_for(kafka.lag(ends), 5) == 0
        except (KafkaError, OSError, TimeoutError):
            return False

    async def _recover(self, scene: Scene, kafka: KafkaReader) -> list[str]:
        """Wait until every step has recovered and the open findings equal the truth."""
        truth = replace(_truth(scene.load.fabric), may_lose=scene.may_lose)

        async def is_right() -> bool:
            findings = await asyncio.wait_for(kafka.findings(), 10)
            return not self._recoveries and not check_open(newest_revisions(findings), truth)

        if await self._until(is_right, RECOVERY_S):
            return []
        return [f"not recovered after {RECOVERY_S:g} s: {one.result.step}" for one in self._recoveries]

    async def _drain(self, scene: Scene, kafka: KafkaReader) -> list[str]:
        """Wait until everything in the ledger is acknowledged, read and stored."""

        async def is_acknowledged() -> bool:
            return not scene.load.pending

        if not await self._until(is_acknowledged, WARM_UP_S):
            return [f"{scene.load.pending} messages were not acknowledged after {WARM_UP_S:g} s without a fault"]
        ends = await _ends(kafka)
        if not await self._until(lambda: self._is_read(kafka, ends), RECOVERY_S):
            return [f"the lag was not zero {RECOVERY_S:g} s after the last counted message"]
        return []

    async def _observe(self, stack: Stack, kafka: KafkaReader) -> Observation:
        """Read everything; findings that are published meanwhile are in Kafka or in both."""
        database = ClickHouseReader(
            stack.clickhouse.url, stack.clickhouse.user, stack.clickhouse.password, stack.settings.store.database
        )
        findings, open_topic = await _unchanged(kafka)

        async def has_rows() -> bool:
            rows = await asyncio.to_thread(database.findings)
            return all((one.id, one.revision) in rows for one in findings)

        await self._until(has_rows, 30)
        rows = await asyncio.to_thread(database.findings)
        later = {(one.id, one.revision) for one in await kafka.findings()} - {(o.id, o.revision) for o in findings}
        return Observation(
            await asyncio.to_thread(database.messages, COLLECTOR),
            await asyncio.to_thread(database.sample_rows, COLLECTOR),
            findings,
            type(rows)({key: times for key, times in rows.items() if key not in later}),
            open_topic,
            await asyncio.to_thread(database.rejected, _STAGE_OF_REJECTED),
        )

    async def _until(self, condition: Callable[[], Awaitable[bool]], within_s: float) -> bool:
        deadline_s = time.monotonic() + within_s
        while time.monotonic() < deadline_s:
            with suppress(KafkaError, OSError, TimeoutError):
                if await condition():
                    return True
            await asyncio.sleep(_POLL_S)
        return False


async def _unchanged(kafka: KafkaReader) -> tuple[list[Revision], dict[str, bytes | None]]:
    """Return all revisions and all open findings at one moment: none was published between the two readings."""
    while True:
        findings = await kafka.findings()
        open_topic = await kafka.open_topic()
        if len(await kafka.findings()) == len(findings):
            return findings, open_topic


async def _ends(kafka: KafkaReader) -> Offsets:
    """Return the ends of all partitions."""
    return await retried(lambda: asyncio.wait_for(kafka.ends(), 5))


async def retried(act: Callable[[], Awaitable[T]], within_s: float = RECOVERY_S) -> T:
    """Return the result of an action that needs Kafka or ClickHouse, which may be down by a fault, or busy.

    Raises Retry with the last error if it has not succeeded within the limit of a recovery.
    """
    last: Exception = TimeoutError("no answer")
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    return await act()
                except (KafkaError, OSError, TimeoutError) as error:
                    last = error
                await asyncio.sleep(_RETRY_S)
    except TimeoutError:
        raise Retry(f"Kafka and ClickHouse were not usable within {within_s:g} s: {last!r}") from last


async def _change_links(load: Load) -> None:
    await asyncio.sleep(_STAYS_DOWN_AFTER_S)
    load.change_link(lambda fabric: fabric.truth.stays_down, down=True)
    await asyncio.sleep(_DOWN_AFTER_S - _STAYS_DOWN_AFTER_S)
    load.change_link(lambda fabric: fabric.truth.recovers, down=True)
    await asyncio.sleep(_UP_AFTER_S - _DOWN_AFTER_S)
    load.change_link(lambda fabric: fabric.truth.recovers, down=False)


def _truth(fabric: Fabric) -> FindingTruth:
    truth = fabric.truth
    at_end = {subject_id(link) for link in (truth.stays_down, truth.down_at_end)}
    since = datetime.fromtimestamp(truth.begun_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return FindingTruth(frozenset(at_end), frozenset({*at_end, subject_id(truth.recovers)}), since)


def sequences(seed: int, faults: Sequence[str], seconds: float, runs: int, *, each: bool) -> list[ChaosParams]:
    """Return the sequences: `runs` consecutive seeds, for each fault alone if `each`."""
    groups = [(name,) for name in faults] if each else [tuple(faults)]
    return [ChaosParams(number, group, seconds) for group in groups for number in range(seed, seed + runs)]


def run_chaos(
    folder: Path,
    runs: Sequence[ChaosParams],
    report_line: Callable[[str], None],
    on_report: Callable[[Report], None],
    *,
    share: bool = True,
) -> bool:
    """Carry out sequences and pass each report on; return False if a signal ended them.

    With `share` they follow each other on one stack until one breaks a promise. The next one starts on a new stack, so
    that effects of the failure are not counted against it.
    """
    if Need.NAMESPACES in needs_of(name for params in runs for name in params.faults):
        enter_namespaces()
    work = _run_all(folder, deque(runs), report_line, on_report, share=share)
    return asyncio.run(run_until_signalled(work)) is not None


async def _run_all(
    folder: Path,
    runs: deque[ChaosParams],
    report_line: Callable[[str], None],
    on_report: Callable[[Report], None],
    *,
    share: bool,
) -> bool:
    while runs:
        own = folder / f"stack-{runs[0].seed}-{len(runs)}"
        own.mkdir()
        needs = needs_of(name for params in runs for name in params.faults) if share else needs_of(runs[0].faults)
        async with ChaosSession.started(own, runs[0].seed, needs, report_line) as session:
            is_usable = True
            while runs and is_usable:
                report = await _report(session, runs.popleft())
                on_report(report)
                is_usable = share and report.is_passed
    return True


async def _report(session: ChaosSession, params: ChaosParams) -> Report:
    """Return the report of a sequence; a sequence that could not be evaluated is a breach, and the next one is run."""
    try:
        return await session.run(params)
    except (Retry, Misconfigured) as error:
        return Report(params, (), 0, 0, 0, 0, {}, [f"not judged: {error}"])
