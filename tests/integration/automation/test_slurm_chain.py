"""From a finding on Kafka to a drained node of a real Slurm, and back: every process is the one that users start."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from streams.wire.models import Action, Status, Verdict
from streams.wire.models import RemediationState as State
from tests.fixtures.slurm import cluster
from tests.fixtures.slurm_chain import HOST, NODE, QUALIFY_S, chain, gpu_fault, railsight

pytestmark = [pytest.mark.timeout(240), pytest.mark.peer("slurmctld")]


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


async def test_a_node_that_a_person_resumes_is_in_service_for_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The automation reads the node back by itself; the decision does not stay DRAINED."""
    with cluster(tmp_path / "slurm") as slurm:
        monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
        async with chain(slurm, tmp_path) as run:
            await run.feed.publish(gpu_fault())
            await run.until_state(Action.CORDON_HOST, State.DRAINED)
            slurm.run("scontrol", "update", f"NodeName={NODE}", "State=RESUME")
            returned = await run.until_state(Action.CORDON_HOST, State.PROBATION)
            assert returned.reason.startswith("changed by others: back in service by another party")
            assert slurm.state(NODE) == "IDLE" and slurm.reasons() == {}
