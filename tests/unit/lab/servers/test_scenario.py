"""Tests of the plan of a demo: its faults are apart from each other, and have their truth."""

import random
import runpy
import sys
from pathlib import Path

import pytest

from lab.servers import files
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_scenario import plan
from lab.world.faults.congestion import PauseStorm
from lab.world.faults.devices import Reboot, SilentDevice
from lab.world.faults.hosts import GpuFault
from lab.world.faults.links import AdminDown, Degrading, LinkDown, LinkFlap
from lab.world.ground_truth import truth_rows
from streams.fabric.inventory import read_folder

START = 1_700_000_000_000_000_000
S = 1_000_000_000
INVENTORY = demo_fabric.inventory(DemoShape(), START)
OF_LINKS = LinkFlap | LinkDown | AdminDown | Degrading | PauseStorm


@pytest.mark.parametrize("seed", range(20))
def test_a_minute_has_every_kind_of_fault_apart_from_the_others(seed: int) -> None:
    """Two flaps, two lasting downs, a shut port at either end, two reboots, a silence, a storm; none share a place."""
    faults = plan(INVENTORY, START, 60, random.Random(seed), more_kinds=True)
    flaps = [fault for fault in faults if isinstance(fault, LinkFlap)]
    downs = [fault for fault in faults if isinstance(fault, LinkDown)]
    shut = [fault for fault in faults if isinstance(fault, AdminDown)]
    reboots = [fault.device for fault in faults if isinstance(fault, Reboot)]
    assert {flap.link.role for flap in flaps} == {"host-link", "fabric-link"}
    assert all(len(flap.downs) >= 3 and flap.downs[-1].end_ns - flap.downs[0].start_ns < 10 * S for flap in flaps)
    assert len(downs) == 2 and all(down.interval.end_ns - down.interval.start_ns > 35 * S for down in downs)
    assert [fault.port for fault in shut] == [shut[0].link.a, shut[1].link.z]
    assert sorted(name.rpartition("-")[2][:4] for name in reboots) == ["leaf", "spin"]
    links = [fault.link for fault in faults if isinstance(fault, OF_LINKS)]
    assert len(set(links)) == 7
    (silent,) = (fault for fault in faults if isinstance(fault, SilentDevice))
    assert silent.interval.end_ns - silent.interval.start_ns > 35 * S
    (storm,) = (fault for fault in faults if isinstance(fault, PauseStorm))
    assert storm.link.role == "host-link"
    assert not {end for link in links for end in (link.a_device, link.z_device)} & {*reboots, silent.device}
    assert silent.device not in reboots
    (gpu,) = (fault for fault in faults if isinstance(fault, GpuFault))
    assert gpu.host == next(device.name for device in INVENTORY.devices if device.kind == "host")
    last_ns = max(row.end for row in truth_rows(faults))
    assert last_ns <= START + 60 * S


def test_shut_ports_have_no_truth() -> None:
    """Every other fault has one row, at the lower end."""
    faults = plan(INVENTORY, START, 60, random.Random(1), more_kinds=True)
    rows = truth_rows(faults)
    assert len(rows) == sum(not isinstance(fault, AdminDown) for fault in faults)
    assert {row.condition for row in rows} == {
        "link_flap", "link_down", "device_down", "telemetry_stale", "congestion_pfc_storm",
        "host_gpu_fault",
    }  # fmt: skip
    assert all((row.port == "") == (row.condition in ("device_down", "telemetry_stale")) for row in rows)


def test_a_long_demo_has_a_degrading_link() -> None:
    """From twenty minutes on, on a link without other faults; the truth names the end that counts the errors."""
    faults = plan(INVENTORY, START, 1200, random.Random(1))
    (worse,) = (fault for fault in faults if isinstance(fault, Degrading))
    assert worse.link not in [f.link for f in faults if isinstance(f, LinkFlap | LinkDown | AdminDown)]
    (row,) = (row for row in truth_rows(faults) if row.condition == "link_degrading")
    assert (row.device, row.port) == (worse.link.z_device, worse.link.z_port)
    assert row.end - row.start == 300 * S
    links = [fault.link for fault in faults if isinstance(fault, OF_LINKS)]
    assert len(set(links)) == len(links)


def test_the_written_files_are_read_back(tmp_path: Path) -> None:
    """The inventory folder passes `railsight inventory check`."""
    faults = plan(INVENTORY, START, 60, random.Random(1))
    written = files.write(tmp_path / "sim", INVENTORY, files.Endpoints({"spine1": "127.0.0.1:1"}), truth_rows(faults))
    assert read_folder(written.inventory) == INVENTORY
    assert written.targets.read_text() == '[{"name":"spine1","address":"127.0.0.1:1"}]'
    head, *rows = written.truth.read_text().splitlines()
    assert head == "start,end,condition,device,port,tolerance_s"
    assert len(rows) == len(truth_rows(faults))


@pytest.mark.parametrize(("option", "code"), [("--help", 0), ("--no-such", 2)])
def test_an_option_prints_a_text_and_starts_nothing(
    option: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option was taken for the name of the folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["lab.servers", option])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("lab.servers", run_name="__main__")
    printed = capsys.readouterr()
    assert ended.value.code == code and "usage: python -m lab.servers" in printed.out + printed.err
    assert list(tmp_path.iterdir()) == []
