"""The brokers of a disk that was full are started again, also where one ends only while the others start."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from lab.chaos.network_faults import BrokerDiskFull
from lab.chaos.scene import Scene
from lab.chaos.stack import Restarts
from streams.wire.errors import Misconfigured


def heal(folder: Path, late_ends: int) -> int:
    """Heal the fault of three brokers, some of which end while others start; return the starts."""
    starts = 0

    def start() -> None:
        nonlocal starts
        starts += 1
        if starts <= late_ends:
            raise Misconfigured(f"broker {starts} ended with 1: No space left on device")

    stack = SimpleNamespace(
        brokers=(1, 2, 3), kafka=SimpleNamespace(data=folder), restart_brokers=Restarts(start).restart
    )
    asyncio.run(BrokerDiskFull().heal(Scene(stack, None)))  # type: ignore[arg-type]
    return starts


@pytest.mark.parametrize("late_ends", [0, 1, 3])
def test_a_broker_that_ends_late_is_started_as_well(tmp_path: Path, late_ends: int) -> None:
    assert heal(tmp_path, late_ends) == late_ends + 1


def test_a_broker_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="No space left"):
        heal(tmp_path, 99)
