"""Tests the warnings about recordings in another unit of time or of another fabric."""

from pathlib import Path

import pytest

from streams.cli.main import main
from streams.fabric.inventory import write_folder
from streams.replay.backtest import InputWarnings
from streams.wire.models import Event, EventKind, Message, Source
from tests.worlds.small_fabric import inventory, topology

NOW_NS = 1_790_000_000_000_000_000


def events(at_ns: int, *devices: str) -> list[Message]:
    return [Event(device, "u0", EventKind.LINK_DOWN, at_ns, at_ns, Source.SOURCE_GNMI) for device in devices]


def warnings(at_ns: int, *devices: str) -> list[str]:
    examined = InputWarnings(topology())
    examined.examine(events(at_ns, *devices))
    return examined.lines()


@pytest.mark.parametrize(("divisor", "unit"), [(10**9, "seconds"), (10**6, "milliseconds"), (10**3, "microseconds")])
def test_times_in_another_unit_are_recognised(divisor: int, unit: str) -> None:
    """A time of our days that is read as nanoseconds lies in 1970."""
    (line,) = warnings(NOW_NS // divisor, "p1-l0")
    assert line.startswith("the recording ends at 1970-01-") and f"its times look like {unit};" in line
    assert warnings(NOW_NS, "p1-l0") == []


def test_devices_of_another_fabric_are_counted() -> None:
    """Each device counts once; the first few are named."""
    assert warnings(NOW_NS, "p1-l0", "x1", "x1") == ["1 of 2 devices are not in the inventory: x1"]
    (line,) = warnings(NOW_NS, *(f"x{number}" for number in range(7)))
    assert line == "7 of 7 devices are not in the inventory: x0, x1, x2, x3, x4, …"


def test_a_backtest_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(inventory(), tmp_path / "inventory")
    rows = "".join(f"{1_790_000_000 + 10 * n},leaf9,e1,oper_up,,1\n" for n in range(5))
    (tmp_path / "samples.csv").write_text("time,device,port,metric,index,value\n" + rows)
    with pytest.raises(SystemExit) as ended:
        main(["backtest", "--samples", str(tmp_path / "samples.csv"), "--inventory", str(tmp_path / "inventory"),
              "--out", str(tmp_path / "out")])  # fmt: skip
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert out.startswith("5 messages, 0 findings")
    assert [line.split(": ")[1].split(" ")[0] for line in err.splitlines()] == ["the", "1"]
