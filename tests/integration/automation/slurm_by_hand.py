"""Runs the chain of test_slurm_chain.py for a person: `python -m tests.integration.automation.slurm_by_hand FOLDER`.

Kafka, `railsight process decide`, the automation, munged, slurmctld and two slurmd, each a process of its own on
loopback. It publishes a finding, prints the commands to type in another terminal, and ends its finding when the repair
is reported; Ctrl-C ends all processes.
"""

import asyncio
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from streams.wire.models import Action, Status
from streams.wire.models import RemediationState as State
from tests.fixtures.slurm import cluster
from tests.fixtures.slurm_chain import HOST, chain, gpu_fault

TYPE = """a GPU fault of {host} is on Kafka; in another terminal:
  export SLURM_CONF={conf}
  sinfo -R
  railsight remediations --config {config}
  railsight repaired {id} --reason "GPU reseated" --config {config}
  sinfo -N"""


async def run(folder: Path) -> None:
    """Run until the node is back, and then until Ctrl-C."""
    with cluster(folder / "slurm") as slurm:
        os.environ["SLURM_CONF"] = str(slurm.conf)
        async with chain(slurm, folder) as own:
            opened = gpu_fault()
            await own.feed.publish(opened)
            cordon = await own.until_state(Action.CORDON_HOST, State.DRAINED)
            print(TYPE.format(host=HOST, conf=slurm.conf, config=own.config, id=cordon.id[:8]), flush=True)
            while (await own.revisions(Action.CORDON_HOST))[-1].state is not State.VERIFYING:  # noqa: ASYNC110 — a person
                await asyncio.sleep(0.5)
            now_ns = time.time_ns()
            await own.feed.publish(replace(opened, revision=2, status=Status.RESOLVED, resolved_at_ns=now_ns))
            print("the repair is reported, and the finding has ended; its links qualify in some seconds", flush=True)
            await own.until_state(Action.UNCORDON_HOST, State.CLOSED)
            print("the node is resumed; Ctrl-C ends all processes", flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.integration.automation.slurm_by_hand FOLDER (which must not exist)")
    Path(sys.argv[1]).mkdir(parents=True)
    with suppress(KeyboardInterrupt):
        asyncio.run(run(Path(sys.argv[1]).resolve()))
