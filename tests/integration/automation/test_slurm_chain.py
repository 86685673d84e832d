"""From a finding on Kafka to a drained node of a real Slurm, and back: every process is the one that users start."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from streams.config.kafka import KafkaSettings
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from streams.runtime.topic_reader import read_to_end
from streams.runtime.topic_writer import inventory_records, publish
from streams.wire.models import (
    Action,
    Condition,
    Endpoint,
    Finding,
    Progress,
    Remediation,
    Severity,
    Status,
    Subject,
    Verdict,
)
from streams.wire.models import RemediationState as State
from streams.wire.topics import PROGRESS, REMEDIATIONS, decode
from tests.fixtures.automation_process import start
from tests.fixtures.fabric_feed import FabricFeed, fabric_feed
from tests.fixtures.slurm import Slurm, cluster, end_process
from tests.worlds.small_fabric import inventory, job

pytestmark = [pytest.mark.timeout(240), pytest.mark.peer("slurmctld")]

ROOT = Path(__file__).parents[3]
HOST, NODE = "p1-h1", "h1"
QUALIFY_S = 6
WITHIN_S = 60

RAILSIGHT = """[kafka]
bootstrap = "{bootstrap}"
[decide]
mode = "act"
settle_s = 1
evaluate_s = 1
[decide.qualification]
qualify_s = {qualify_s}
[runtime]
data = "{folder}"
"""
AUTOMATION = """actor = "netbot"
journal = "journal.jsonl"
[kafka]
bootstrap = "{bootstrap}"
[slurm.nodes]
"{host}" = "{node}"
"""


def railsight(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "streams.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)


@contextmanager
def deciding(config: Path, log: Path) -> Iterator[None]:
    """Run the stage `decide` until the end of the block."""
    command = [sys.executable, "-m", "streams.cli.main", "process", "decide", "--config", str(config)]
    with log.open("wb") as output, ended(subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)):
        yield


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process with the block."""
    try:
        yield
    finally:
        end_process(process)


@dataclass
class Chain:
    """Kafka, `decide`, the automation and Slurm, with what the stages before `decide` publish."""

    slurm: Slurm
    kafka: KafkaSettings
    feed: FabricFeed
    config: Path
    logs: list[Path] = field(default_factory=list)

    async def revisions(self, action: Action) -> list[Remediation]:
        """Return all revisions of an action's remediations, the newest last."""
        messages = [decode(REMEDIATIONS, record.value) async for record in read_to_end(self.kafka, REMEDIATIONS)]
        return [one for one in messages if isinstance(one, Remediation) and one.action is action]

    async def until_state(self, action: Action, state: State) -> Remediation:
        """Wait until an action's remediation is in a state."""
        give_up = time.monotonic() + WITHIN_S
        while not (found := await self.revisions(action)) or found[-1].state is not state:
            assert time.monotonic() < give_up, self.report(f"{action.name} is {found[-1:]}, not {state.name}")
            await asyncio.sleep(0.2)
        return found[-1]

    async def until_decided(self, seconds: float) -> None:
        """Wait until the watermark of `decide` is so many seconds after the present."""
        target_ns, give_up = time.time_ns() + round(seconds * 1e9), time.monotonic() + WITHIN_S
        reached_ns = 0
        while reached_ns < target_ns:
            assert time.monotonic() < give_up, self.report("decide's watermark does not advance")
            await asyncio.sleep(0.5)
            async for record in read_to_end(self.kafka, PROGRESS):
                message = decode(PROGRESS, record.value)
                if isinstance(message, Progress) and message.stage == "decide":
                    reached_ns = message.watermark_ns

    async def until_node(self, condition: Callable[[str], bool]) -> None:
        """Wait until Slurm's state of the node meets a condition."""
        give_up = time.monotonic() + WITHIN_S
        while not condition(state := await asyncio.to_thread(self.slurm.state, NODE)):
            assert time.monotonic() < give_up, self.report(f"the node is {state}")
            await asyncio.sleep(0.2)

    def report(self, text: str) -> str:
        """Return a text with the ends of the logs."""
        return "\n".join((text, *(log.read_text()[-3000:] for log in self.logs)))


@asynccontextmanager
async def chain(slurm: Slurm, folder: Path) -> AsyncIterator[Chain]:
    """Run everything but the finding."""
    with EmbeddedKafka(KafkaParams(data=folder / "kafka")) as broker:
        config, log, automation = folder / "railsight.toml", folder / "decide.log", folder / "automation"
        config.write_text(RAILSIGHT.format(bootstrap=broker.bootstrap, qualify_s=QUALIFY_S, folder=folder))
        automation.mkdir()
        (automation / "automation.toml").write_text(AUTOMATION.format(bootstrap=broker.bootstrap, host=HOST, node=NODE))
        await asyncio.to_thread(railsight, "topics", "--config", str(config))
        kafka = KafkaSettings.model_validate({"bootstrap": broker.bootstrap})
        # A job elsewhere: the jobs are known, and none would lose the host.
        own = inventory(jobs=[job("llm", "p2-h1", "2026-01-01T00:00:00+00:00")])
        await publish(kafka, inventory_records(own, time.time_ns() - 3600 * 10**9))
        with deciding(config, log), ended(start(automation)):
            async with fabric_feed(kafka) as feed:
                yield Chain(slurm, kafka, feed, config, [log, automation / "log"])


def gpu_fault(**changes: object) -> Finding:
    """Return a CRITICAL fault of a GPU of the host."""
    now_ns = time.time_ns()
    opened = Finding(
        "f" * 32, 1, False, Condition.HOST_GPU_FAULT, Status.OPEN, Severity.CRITICAL,
        Subject(f"device:{HOST}", Endpoint(HOST), pod="p1"), now_ns, now_ns, detected_at_ns=now_ns,
        detector="host/gpu-fault", summary="GPU 3 is off the bus", confidence=0.95,
    )  # fmt: skip
    return replace(opened, **changes)  # type: ignore[arg-type]


async def test_a_finding_on_kafka_drains_a_node_until_its_repair_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drained with our reason; errors after the reported repair keep it drained, and the proof resumes it."""
    with cluster(tmp_path / "slurm") as slurm:
        monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
        async with chain(slurm, tmp_path) as run:
            opened = gpu_fault()
            await run.feed.publish(opened)
            cordon = await run.until_state(Action.CORDON_HOST, State.DRAINED)
            assert [one.verdict for one in await run.revisions(Action.CORDON_HOST)].count(Verdict.APPROVED) > 0
            assert State.WAITING not in {one.state for one in await run.revisions(Action.CORDON_HOST)}
            assert slurm.state(NODE) == "IDLE+DRAIN" and slurm.state("h0") == "IDLE"
            reasons = slurm.reasons()
            assert list(reasons) == [NODE] and reasons[NODE].startswith(f"railsight {cordon.id} ")

            run.feed.bad_device = HOST
            await asyncio.to_thread(railsight, "repaired", cordon.id, "--config", str(run.config))
            await run.feed.publish(replace(opened, revision=2, status=Status.RESOLVED, resolved_at_ns=time.time_ns()))
            await run.until_state(Action.CORDON_HOST, State.VERIFYING)
            await run.until_decided(QUALIFY_S + 3)
            assert slurm.state(NODE) == "IDLE+DRAIN" and not await run.revisions(Action.UNCORDON_HOST)

            run.feed.bad_device = ""
            await run.until_state(Action.CORDON_HOST, State.PROBATION)
            await run.until_state(Action.UNCORDON_HOST, State.CLOSED)
            await run.until_node("IDLE".__eq__)
            assert slurm.reasons() == {}
