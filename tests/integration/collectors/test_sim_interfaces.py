"""Tests one `railsight collect sim` with every collector: each of its interfaces shows the same fault."""

import asyncio
import contextlib
import csv
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.core.context import CollectorContext
from collectors.host.collector import collect
from collectors.host.params import Params
from lab.constants import with_constants
from streams.fabric.ids import Port
from streams.fabric.inventory import read_folder
from streams.wire.models import Event, EventKind
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.running_task import run_beside

pytestmark = pytest.mark.timeout(180)

RAILSIGHT = (sys.executable, "-m", "streams.cli.main")


class Sim:
    """A simulated fabric in a process of its own, and the files in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = (f"folder={folder}", "shape.pods=1", "shape.hosts=2", "faults_s=60")
        command = [*RAILSIGHT, "collect", "sim", *(text for result in settings for text in ("--set", result))]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.addresses: dict[str, Any] = json.loads(self._process.stdout.readline())
        self.links = read_folder(folder / "inventory").links
        with (folder / "truth.csv").open(newline="") as file:
            self.truth = list(csv.DictReader(file))
        self.hosts = {host["name"]: host for host in json.loads((folder / "hosts.json").read_bytes())}

    def end(self) -> None:
        """Stop the process."""
        with self._process:
            self._process.terminate()

    def host_link_down(self) -> tuple[Port, Port, float, float]:
        """Return the host's and the leaf's end of the link that goes down, and the begin and end in Unix seconds."""
        for row in self.truth:
            if row["condition"] == "link_down" and row["device"] in self.hosts:
                (link,) = [each for each in self.links if (each.a_device, each.a_port) == (row["device"], row["port"])]
                return link.a, link.z, int(row["start"]) / 1e9, int(row["end"]) / 1e9
        raise AssertionError("no host's link goes down")


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[Sim]:
    """Yield a fabric whose faults begin in some seconds."""
    found = Sim(tmp_path / "sim")
    yield found
    found.end()


def rows(kind: str, *arguments: str) -> dict[tuple[str, str], dict[str, float]]:
    """Return the output of `railsight collect KIND --once --print`, by device and port."""
    ran = subprocess.run(
        [*RAILSIGHT, "collect", kind, *arguments, "--once", "--print"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {(line["device"], line["port"]): line["metrics"] for line in lines}


@contextlib.asynccontextmanager
async def listening(host: dict[str, str], folder: Path) -> AsyncIterator[RecordingPublisher]:
    """Run the agent of one host."""
    retained = RecordingPublisher()
    params = with_constants(Params, log_poll_s=0.1)(
        device=host["name"],
        root=Path(host["root"]),
        kernel_log=Path(host["kernel_log"]),
        cadence_s=0.5,
        state_file=folder / "state.json",
    )
    context = CollectorContext(retained, "host", rng=random.Random(1))
    with context.at_end:
        async with run_beside(collect(params, context)):
            yield retained


async def test_a_link_that_goes_down_shows_in_every_interface(sim: Sim, tmp_path: Path) -> None:
    """The switch reports it by gNMI and SNMP, the host by its NIC and its kernel log, each for its end of the link."""
    host_end, leaf_end, start_s, end_s = sim.host_link_down()
    host = sim.hosts[host_end.device]

    def states() -> dict[str, float]:
        nic_settings = (f"root={host['root']}", f"ethtool_dir={host['ethtool_dir']}", f"device={host['name']}")
        nic = [text for result in nic_settings for text in ("--set", result)]
        snmp_targets = str(sim.folder / "snmp-targets.json")
        return {
            "gnmi": rows("gnmi", "--targets", str(sim.folder / "targets.json"))[leaf_end]["oper_up"],
            "snmp": rows("snmp", "--targets", snmp_targets, "--set", "community=public")[leaf_end]["oper_up"],
            "nic": rows("nic", *nic)[host_end]["oper_up"],
        }

    async with listening(host, tmp_path) as retained:
        assert time.time() < start_s, "the machine was too slow to see it before the fault"
        while time.time() < start_s + 1.5:  # noqa: ASYNC110 — the fault is another process's; its moment is known
            await asyncio.sleep(0.1)
        assert await asyncio.to_thread(states) == {"gnmi": 0.0, "snmp": 0.0, "nic": 0.0}
        assert time.time() < end_s, "the machine was too slow to see it during the fault"
        await retained.until(lambda: any(_is_of(event, host_end) for event in retained.of(Event)))
        emitted = next(event for event in retained.of(Event) if _is_of(event, host_end))
        assert emitted.kind is EventKind.LINK_DOWN and abs(emitted.at_ns / 1e9 - start_s) < 1.0
        links = rows("host", "--set", f"root={host['root']}", "--set", f"device={host['name']}")
        assert links[host_end]["pcie_width_lanes"] == 16


def _is_of(event: Event, end: Port) -> bool:
    return (event.device, event.port) == end


def test_a_deselected_interface_is_not_started(tmp_path: Path) -> None:
    """`interfaces` selects the interfaces; the files of the others are empty lists."""
    command = [*RAILSIGHT, "collect", "sim", "--set", f"folder={tmp_path}", "--set", 'interfaces=["gnmi"]']
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            result = json.loads(process.stdout.readline())
            assert (result["switches"], result["hosts_shown"]) == (20, 0)
            assert len(json.loads((tmp_path / "targets.json").read_bytes())) == 20
            assert json.loads((tmp_path / "snmp-targets.json").read_bytes()) == []
            assert not (tmp_path / "hosts").exists()
        finally:
            process.terminate()
            process.wait(10)
