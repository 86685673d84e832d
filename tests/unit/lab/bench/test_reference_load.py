"""The reference load: its figure, what counts as a disturbance, and that a busy neighbor is noticed."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from lab.bench import reference_load
from lab.bench.reference_load import MachineSpeed, Speed, machine_speed
from streams.wire.errors import Misconfigured

QUARTERS = Speed(0.25, 0.25, 0.25, 0.25, 1.2)


@pytest.mark.parametrize(
    ("speed", "load_s", "reasons"),
    [
        (MachineSpeed(QUARTERS, [QUARTERS], QUARTERS), 1.0, []),
        (MachineSpeed(replace(QUARTERS, python_s=0.5, copy_s=0.125)), 1.0, []),
        (MachineSpeed(QUARTERS, [], QUARTERS, others_cores=0.4), 1.0, ["other processes used 0.40 cores"]),
        (MachineSpeed(QUARTERS, [Speed(0.5, 0.5, 0.5, 0.5, 2)], QUARTERS), 1.0, ["took 1.00 to 2.00 s"]),
        (
            MachineSpeed(QUARTERS, [], Speed(0.3, 0.3, 0.3, 0.3, 2), others_cores=1.0),
            1.1,
            ["other processes used 1.00 cores", "took 1.00 to 1.20 s"],
        ),
    ],
)
def test_the_load_and_the_disturbances(speed: MachineSpeed, load_s: float, reasons: list[str]) -> None:
    """The median of all measurements counts; each reason of a disturbance is named, and none without one."""
    assert speed.load_s == pytest.approx(load_s)
    assert bool(speed.disturbance) is bool(reasons)
    assert all(reason in speed.disturbance for reason in reasons)
    lines = list(speed.lines())
    assert f"median {load_s:.2f} s" in lines[0]
    assert [line.startswith("DISTURBED") for line in lines[1:]] == ([True] if reasons else [])


def test_a_load_that_does_not_end_disturbs_a_run_and_ends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one decides whether a run begins."""
    monkeypatch.setattr(reference_load, "_TIMEOUT_S", 0.001)
    with pytest.raises(Misconfigured, match="the machine is too busy"), machine_speed():
        pass
    measured = [QUARTERS, None]
    monkeypatch.setattr(reference_load, "_measured", lambda _=0: measured.pop(0))
    with machine_speed() as speed:
        pass
    assert speed.load_s == 1.0 and "did not end in 0 s: 1" in speed.disturbance


def test_a_process_of_others_is_noticed() -> None:
    """A process that is no descendant of the run adds its CPU time to that of others; the run is measured around it."""
    code = "import time\nwhile time.process_time() < 1: pass"
    with machine_speed() as speed:
        began_s = time.monotonic()
        # setsid --fork starts it as a child of init; it has the pipe until it ends.
        subprocess.run(["setsid", "--fork", sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
        lasted_s = time.monotonic() - began_s
    assert speed.others_cores > 0.5 / (lasted_s + 5)
    assert speed.after is not None
    assert speed.load_s > 0
