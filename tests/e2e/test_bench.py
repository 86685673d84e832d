"""Runs the pipeline's benchmark on a small fabric: its figures are right, and no process is left running."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from lab.bench.params import Params
from tests.e2e.processes import Marked, railsight, until

pytestmark = pytest.mark.timeout(700)
SMALL = ("bench", "pipeline", "--gpus", "64", "--cadence", "1", "--seconds", "12", "--partitions", "2")


def test_a_small_run_stores_every_sample_and_finds_every_fault(tmp_path: Path) -> None:
    """Every message is in ClickHouse once, each fault is found, each part has its cost; the given directory stays."""
    folder = tmp_path / "run"
    limit_s = Params(folder, gpus=64, cadence_s=1, seconds=12, partitions=2).limit_s
    bench = Marked(railsight(*SMALL, "--json", "--keep", str(folder)), tmp_path / "log", stdout=subprocess.PIPE)
    try:
        result, _ = bench.process.communicate(timeout=limit_s)
    finally:
        bench.end()
    report = json.loads(result)
    stored, load, faults = report["stored"], report["load"], report["faults"]
    assert load["ports"] == 128
    # The warm-up and the drain are sent as well: 128 port-samples a second for longer than the window.
    assert stored["rows"] == load["port_samples_sent"] > 128 * 12
    assert (stored["messages"], stored["statuses"]) == (load["messages_sent"], load["statuses_sent"])
    assert stored["events"] == load["events_sent"] > 0
    assert (faults["found"], faults["missed"], faults["invented"]) == (faults["injected"], [], [])
    assert faults["injected"] >= 3
    assert report["flap_to_finding_s"]["count"] >= 3
    assert 0 < report["flap_to_finding_s"]["worst"] < 60
    assert report["sample_to_row_s"]["count"] > 0
    assert {part["part"] for part in report["parts"]} == {"broker", "clickhouse", "process", "persist"}
    assert all(part["cpu_s"] > 0 and part["peak_bytes"] > 1 << 20 for part in report["parts"])
    assert stored["kafka_bytes"]["railsight.samples.v1"] > 0
    assert (folder / "process.log").exists()
    assert not bench.left()


def test_ctrl_c_leaves_nothing_running(tmp_path: Path) -> None:
    """Interrupted while everything runs, it ends with 130, its processes and its folder are gone."""
    log = tmp_path / "log"
    bench = Marked(railsight(*SMALL), log, stdout=subprocess.DEVNULL)
    try:
        until(lambda: any("lab.bench.load" in line for line in bench.left()) or None, 120, "the load generator")
        bench.process.send_signal(signal.SIGINT)
        assert bench.process.wait(60) == 130
        until(lambda: True if not bench.left() else None, 10, "the end of all processes")
    finally:
        bench.end()
