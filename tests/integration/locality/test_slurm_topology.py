"""Slurm's own slurmctld loads topology.conf of the demo's inventory (`make peers` installs it)."""

import time
from collections.abc import Iterator

import pytest

from streams.locality.export.slurm import expanded
from streams.locality.export.write import export_text
from streams.locality.params import LocalityParams
from tests.fixtures.slurm import Slurm, cluster
from tests.worlds.localities import demo_groups, state

pytestmark = pytest.mark.timeout(240)
HOSTS = [demo_groups().graph.names[host] for host in demo_groups().hosts.tolist()]
CONF = export_text(state(), "slurm", "tree", LocalityParams())[0]
_STARTS_S = 30.0


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Yield a cluster of the demo's hosts with the exported file."""
    with cluster(tmp_path_factory.mktemp("slurm"), HOSTS, CONF) as running:
        yield running


def switches(text: str) -> dict[str, tuple[list[str], list[str]]]:
    """Return the nodes and the switches below each switch; a switch of switches has no nodes of its own."""
    found = {}
    for line in text.splitlines():
        fields = dict(part.partition("=")[::2] for part in line.split())
        if name := fields.get("SwitchName"):
            below = sorted(expanded(fields.get("Switches", "")))
            found[name] = ([] if below else sorted(expanded(fields["Nodes"])), below)
    return found


def nodes_of(slurm: Slurm, job: str) -> list[str]:
    """Wait until a job runs, and return its nodes."""
    deadline = time.monotonic() + _STARTS_S
    while not (line := slurm.run("squeue", "-h", "-j", job, "-t", "RUNNING", "-o", "%N")):
        assert time.monotonic() < deadline, slurm.run("squeue", "-l")
        time.sleep(0.1)
    return expanded(line)


def test_slurm_shows_the_topology_that_was_exported(slurm: Slurm) -> None:
    """Each switch with the same nodes and switches, and no complaint in the log."""
    assert switches(slurm.run("scontrol", "show", "topology")) == switches(CONF)
    log = (slurm.conf.parent / "slurmctld.log").read_text(errors="replace")
    assert [line for line in log.splitlines() if "switch" in line.lower() and "error" in line.lower()] == []


def test_a_job_that_fits_one_unit_is_placed_in_one(slurm: Slurm) -> None:
    """With a host of the first pod busy, four hosts are those of the second; without topology one would be of pod 1."""
    submit = ("sbatch", "--parsable", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 60")
    busy = slurm.run(*submit, "-w", "pod1-host1")
    assert nodes_of(slurm, busy) == ["pod1-host1"]
    job = slurm.run(*submit, "-N", "4")
    assert nodes_of(slurm, job) == [f"pod2-host{number}" for number in range(1, 5)]
    slurm.run("scancel", busy, job)
