"""Usage of processes, read from a tree like /proc."""

from pathlib import Path

from lab.bench.processes import ProcessCosts

_TICKS = 100


def _process(proc: Path, pid: int, parent: int, ticks: int, kib: int, started: int = 1) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", str(parent), *["0"] * 9, str(ticks), str(ticks), *["0"] * 6, str(started), "0"]
    (folder / "stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}\n")
    (folder / "status").write_text(f"Name:\tx\nVmHWM:\t{kib} kB\nVmRSS:\t{kib // 2} kB\n")


def test_a_part_is_its_process_and_all_below_it(tmp_path: Path) -> None:
    """A wrapper's cost is its own and that of what it started; others are left out."""
    _process(tmp_path, 10, 1, ticks=100, kib=1000)
    _process(tmp_path, 11, 10, ticks=200, kib=3000)
    _process(tmp_path, 12, 11, ticks=300, kib=500)
    _process(tmp_path, 99, 1, ticks=9999, kib=9999)
    costs = ProcessCosts(tmp_path)
    costs.sample({"broker": 10, "absent": None, "gone": 77})
    assert costs.cpu_s() == {"broker": 2 * 600 / _TICKS}
    assert costs.peak["broker"] == 4500 * 1024
    assert costs.rss() == {"broker": 2250 * 1024}


def test_what_a_killed_process_used_stays_counted(tmp_path: Path) -> None:
    """After a kill the part's cost is that of both lives, its memory that of the present one."""
    _process(tmp_path, 10, 1, ticks=100, kib=1000)
    costs = ProcessCosts(tmp_path)
    costs.sample({"worker": 10})
    for file in (tmp_path / "10").iterdir():
        file.unlink()
    (tmp_path / "10").rmdir()
    _process(tmp_path, 20, 1, ticks=50, kib=800)
    costs.sample({"worker": 20})
    assert costs.cpu_s() == {"worker": 2 * 150 / _TICKS}
    assert costs.rss() == {"worker": 400 * 1024}
    assert costs.peak["worker"] == 1000 * 1024


def test_a_number_used_again_is_another_process(tmp_path: Path) -> None:
    """Linux reuses numbers; the start time distinguishes the processes."""
    _process(tmp_path, 10, 1, ticks=100, kib=1000, started=1)
    costs = ProcessCosts(tmp_path)
    costs.sample({"worker": 10})
    _process(tmp_path, 10, 1, ticks=30, kib=1000, started=2)
    costs.sample({"worker": 10})
    assert costs.cpu_s() == {"worker": 2 * 130 / _TICKS}
