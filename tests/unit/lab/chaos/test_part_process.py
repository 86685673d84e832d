"""A part that a fault kills did not end by itself."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

from lab.chaos.stack import PartProcess

if TYPE_CHECKING:
    from streams.embedded.watched_process import WatchedProcess


def test_a_part_has_no_process_while_a_fault_kills_it(tmp_path: Path) -> None:
    """Parts whose process has ended are started again; a kill takes milliseconds."""
    seen: list[WatchedProcess | None] = []
    part = PartProcess("worker-a", ("true",), tmp_path)

    class Killed:
        def kill(self) -> None:
            seen.append(part.process)

    part.process = cast("WatchedProcess", Killed())
    part.kill()
    assert seen == [None]
