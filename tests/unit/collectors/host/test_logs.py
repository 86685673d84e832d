"""The kernel's ring and a file: both are followed, resume at a position, and report lost lines."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest

from collectors.host.event_listener import LogPositions
from collectors.host.kernel_log import LogSource
from collectors.host.lines import MOST_BYTES
from collectors.host.log_file import LogFile
from collectors.host.log_sources import Kmsg, Place, place_of
from tests.fakes.kmsg import FakeKmsg

BOOT = 0xF00D_F00D_F00D_F00D


class Log:
    """One log that can be written to and opened, whichever it is."""

    def __init__(self, write: Callable[[str], None], open_at: Callable[[Place | None], LogSource]) -> None:
        self.write = write
        self.open_at = open_at


@pytest.fixture(params=["device", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    if request.param == "device":
        ring = FakeKmsg()

        def open_ring(place: Place | None) -> LogSource:
            ring.rewind()
            return Kmsg(ring, BOOT, place)

        return Log(lambda reports: ring.write(1, reports), open_ring)
    path = tmp_path / "kern.log"

    def write(reports: str) -> None:
        with path.open("a") as file:
            file.write(f"6,{0},1,-;{reports}\n")

    path.touch()
    return Log(write, lambda place: LogFile(path, place))


def messages_of(source: LogSource, most: int = 100) -> list[str]:
    """The messages of one look."""
    return [line.decode().strip().partition(";")[2] for line in source.read(most).lines]


def test_what_is_written_is_read_once_and_in_order(log: Log) -> None:
    """And reading an idle log reports it as drained."""
    source = log.open_at(None)
    for n in range(5):
        log.write(f"m{n}")
    assert messages_of(source, 3) == ["m0", "m1", "m2"]
    assert messages_of(source) == ["m3", "m4"]
    assert source.read(10).is_drained and source.read(10).lines == []
    log.write("m5")
    assert messages_of(source) == ["m5"]
    source.close()


def test_another_process_goes_on_where_the_first_stopped(log: Log) -> None:
    """Nothing twice, nothing left out, also of what was written meanwhile."""
    first = log.open_at(None)
    for n in range(5):
        log.write(f"m{n}")
    assert len(messages_of(first, 3)) == 3
    place = replace(first.place(), boot_id=BOOT)
    first.close()
    log.write("m5")
    second = log.open_at(place_of(orjson.loads(orjson.dumps(place))))
    assert second.has_resumed
    assert messages_of(second) == ["m3", "m4", "m5"]
    second.close()


def test_records_that_were_overwritten_are_counted() -> None:
    """By their numbers: the kernel reports only that some are gone."""
    ring = FakeKmsg(keeps=4)
    source = Kmsg(ring, BOOT, None)
    ring.write(1, "m0")
    assert messages_of(source) == ["m0"]
    for n in range(1, 10):
        ring.write(1, f"m{n}")
    chunk = source.read(100)
    assert (len(chunk.lines), chunk.lost) == (4, 5)


def test_a_ring_of_another_boot_is_read_from_its_beginning() -> None:
    """Its numbers start again: a position of the previous boot is invalid."""
    ring = FakeKmsg()
    ring.write(1, "m0")
    source = Kmsg(ring, BOOT, Place(boot_id=BOOT + 1, sequence=500))
    assert not source.has_resumed and messages_of(source) == ["m0"]
    ring.rewind()
    unknown = Kmsg(ring, 0, Place(boot_id=0, sequence=500))
    assert not unknown.has_resumed and messages_of(unknown) == ["m0"]


def test_records_that_are_none_are_refused_and_the_next_is_read() -> None:
    ring = FakeKmsg()
    for data in (b"hello", b"6,,1,-;m", b"6,x,1,-;m"):
        ring.put(data)
    ring.write(1, "m3")
    chunk = Kmsg(ring, BOOT, None).read(100)
    assert (len(chunk.lines), chunk.refused) == (1, 3)


def test_a_file_that_was_there_before_is_read_from_its_end(tmp_path: Path) -> None:
    """Its age is unknown; a file that appears later is all new."""
    path = tmp_path / "kern.log"
    late = LogFile(tmp_path / "late.log", None)
    path.write_text("old\n")
    source = LogFile(path, None)
    assert source.read(10).lines == [] and late.read(10).lines == []
    (tmp_path / "late.log").write_text("new\n")
    assert late.read(10).lines == [b"new"]


def appended(path: Path, text: str) -> None:
    """Write to the end of a file, as a logger does."""
    with path.open("a") as file:
        file.write(text)


def create(path: Path, rotated: str) -> None:
    """Rotate as logrotate's `create` does, with a writer that goes on with the old file until it is signalled."""
    old = path.open("a")
    path.rename(path.with_name(rotated))
    path.touch()
    old.write("late\n")
    old.close()


def copytruncate(path: Path, rotated: str) -> None:
    """Rotate as logrotate's `copytruncate` does."""
    path.with_name(rotated).write_text(path.read_text())
    path.write_text("")


def all_lines(source: LogFile) -> tuple[list[str], int]:
    """Read until the log is drained; return the lines and the number of gaps."""
    lines: list[str] = []
    gaps = 0
    for _ in range(10):
        chunk = source.read(2)
        lines += [line.decode() for line in chunk.lines]
        gaps += chunk.gaps
    return lines, gaps


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "between two processes"])
@pytest.mark.parametrize(
    ("rotate", "names", "expected"),
    [
        (create, ["kern.log.1"], ["b", "late", "n0"]),
        (create, ["kern.log-20261127", "kern.log-20261128"], ["b", "late", "n0", "late", "n1"]),
        (create, ["kern-20261127.log", "kern-20261128.log"], ["b", "late", "n0", "late", "n1"]),
        (copytruncate, ["kern.log.1"], ["b", "n0"]),
        (copytruncate, ["kern.log-20261127", "kern.log-20261128"], ["b", "n0", "n1"]),
    ],
    ids=["create", "dateext", "extension", "copytruncate", "copytruncate dateext"],
)
def test_a_rotation_loses_no_line(
    tmp_path: Path, rotate: Callable[[Path, str], None], names: list[str], expected: list[str], *, restarts: bool
) -> None:
    """Unread lines of the old file, lines of a writer that is late, and files that were full in between."""
    path = tmp_path / "kern.log"
    path.touch()
    source = LogFile(path, None)
    appended(path, "a is a line of some length, as those of a kernel are, and with a time\n")
    source.read(10)
    appended(path, "b\n")
    for n, name in enumerate(names):
        rotate(path, name)
        appended(path, f"n{n}\n")
    if restarts:
        place = source.place()
        source.close()
        source = LogFile(path, place)
        assert source.has_resumed
    assert all_lines(source) == (expected, 0)
    appended(path, "last\n")
    assert all_lines(source) == (["last"], 0)


class RotatedLog:
    """A log with writes, rotations, reads and restarts in a random order; `expected` are its lines."""

    def __init__(self, folder: Path, how: str, chance: random.Random) -> None:
        self.path, self._how, self._chance = folder / "kern.log", how, chance
        self.path.touch()
        self.source = LogFile(self.path, None)
        self.expected: list[str] = []
        self.lines: list[str] = []
        self.gaps = self._rotations = 0

    def write(self) -> None:
        """Write a line, whole or in two halves."""
        line = f"{'x' * self._chance.choice((0, 80))} line {len(self.expected)}"
        self.expected.append(line)
        appended(self.path, line[:8])
        if self._chance.random() < 0.3:
            self.read()
        appended(self.path, f"{line[8:]}\n")

    def rotate(self) -> None:
        """Rotate between two reads."""
        if self._how.startswith("copytruncate") and not self.source.place().offset:
            self.read()
        if self.path.exists():
            self._rename()
        if self._chance.random() < 0.5:
            self.read()

    def _rename(self) -> None:
        """Rotate, and rename the earlier files as logrotate does without `dateext`."""
        self._rotations += 1
        for number in range(self._rotations if self._how.endswith(".1") else 0, 0, -1):
            older = self.path.with_name(f"kern.log.{number}")
            if older.exists():
                older.rename(self.path.with_name(f"kern.log.{number + 1}"))
        name = "kern.log.1" if self._how.endswith(".1") else f"kern.log-202611{self._rotations:02}"
        if self._how.startswith("copytruncate"):
            copytruncate(self.path, name)
        else:
            self.path.rename(self.path.with_name(name))
            if self._chance.random() < 0.5:
                self.path.touch()

    def restart(self) -> None:
        """Stop, write and rotate meanwhile, and start again."""
        place = self.source.place()
        self.source.close()
        for _ in range(self._chance.randrange(4)):
            if self.path.exists() and self._chance.random() < 0.3:
                self._rename()
            appended(self.path, f"{len(self.expected)} while the agent is down\n")
            self.expected.append(f"{len(self.expected)} while the agent is down")
        self.source = LogFile(self.path, place)

    def read(self, most: int = 3) -> None:
        """Read some lines."""
        chunk = self.source.read(most)
        self.lines += [line.decode() for line in chunk.lines]
        self.gaps += chunk.gaps


@pytest.mark.parametrize("how", ["create .1", "create dateext", "copytruncate .1", "copytruncate dateext"])
@pytest.mark.parametrize("seed", range(40))
def test_no_order_of_writes_rotations_and_restarts_loses_or_repeats_a_line(tmp_path: Path, how: str, seed: int) -> None:
    """Whatever is renamed, copied or truncated between two reads, or while the agent is down."""
    chance = random.Random(seed)
    log = RotatedLog(tmp_path, how, chance)
    for _ in range(chance.randrange(5, 40)):
        chance.choice((log.write, log.write, log.read, log.rotate, log.restart))()
    log.write()
    for _ in range(60):
        log.read()
    assert (log.lines, log.gaps) == (log.expected, 0)


def test_a_line_that_copytruncate_splits_is_a_gap(tmp_path: Path) -> None:
    """Its first half is in the copy, the other one in the file; no other line is lost."""
    path = tmp_path / "kern.log"
    path.touch()
    source = LogFile(path, None)
    appended(path, "a\nhal")
    source.read(10)
    copytruncate(path, "kern.log.1")
    appended(path, "f\nb\n")
    assert all_lines(source) == (["f", "b"], 1)


@pytest.mark.parametrize("rotate", [create, copytruncate])
def test_a_rotated_file_that_is_gone_is_a_gap(tmp_path: Path, rotate: Callable[[Path, str], None]) -> None:
    """Compressed at once, or removed: what it had is lost, and counted."""
    path = tmp_path / "kern.log"
    path.touch()
    source = LogFile(path, None)
    appended(path, "a is a line of some length\n")
    source.read(10)
    place = source.place()
    source.close()
    appended(path, "b\n")
    rotate(path, "kern.log.1")
    (tmp_path / "kern.log.1").rename(tmp_path / "kern.log.1.gz")
    appended(path, "c is another line, which is longer than the one before it was\n")
    source = LogFile(path, place)
    assert not source.has_resumed and all_lines(source)[1] == 1


def test_a_file_that_was_overwritten_and_has_grown_again_is_noticed(tmp_path: Path) -> None:
    """Its size alone does not show it."""
    path = tmp_path / "kern.log"
    path.touch()
    source = LogFile(path, None)
    appended(path, "a\n")
    source.read(10)
    path.write_text("b\nc\n")
    assert all_lines(source) == (["b", "c"], 1)


def test_a_line_without_end_is_refused_once_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.touch()
    source = LogFile(path, None)
    path.write_bytes(b"x" * (40 * MOST_BYTES))
    assert source.read(10).refused == 1
    with path.open("ab") as file:
        file.write(b"x" * MOST_BYTES + b"\nnext\n" + b"y" * (MOST_BYTES + 1) + b"\nlast\n")
    chunks = [source.read(10) for _ in range(2)]
    assert [line for chunk in chunks for line in chunk.lines] == [b"next", b"last"]
    assert sum(chunk.refused for chunk in chunks) == 1


@contextmanager
def another_user() -> Iterator[None]:
    """Run as a user who may not read all files."""
    own = os.geteuid()
    os.seteuid(own or 65534)
    try:
        yield
    finally:
        os.seteuid(own)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_file_that_another_user_may_not_read_is_read_on_when_he_may(*, restarts: bool) -> None:
    """Named until then; a position is as before, and no line repeats."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "kern.log"
        path.touch()
        first = LogFile(path, None)
        appended(path, "a\n")
        assert all_lines(first) == (["a"], 0)
        place = first.place() if restarts else None
        appended(path, "b\n")
        path.chmod(0)
        with another_user():
            source = LogFile(path, place)
            assert all_lines(source) == ([], 0) and source.problem == f"{path}: Permission denied"
        assert not restarts or source.place() == place
        path.chmod(0o644)
        with another_user():
            assert all_lines(source) == (["b"] if restarts else [], 0) and not source.problem
        appended(path, "c\n")
        assert all_lines(source) == (["c"], 0)


def test_what_is_no_file_is_waited_for(tmp_path: Path) -> None:
    """A folder in its place is no line."""
    os.mkfifo(tmp_path / "fifo")
    for path, problem in (
        (tmp_path, "not a regular file"), (tmp_path / "fifo", "not a regular file"),
        (tmp_path / "absent", "No such file"), (tmp_path / "fifo" / "x", "Not a directory"),
    ):  # fmt: skip
        source = LogFile(path, None)
        assert source.read(10) == source.read(10)
        assert source.read(10).is_drained and problem in source.problem
    (tmp_path / "absent").write_text("a\n")
    late = LogFile(tmp_path / "absent", Place(boot_id=1))
    assert late.read(10).lines == [b"a"] and late.problem == ""


def test_a_place_counts_once_its_events_are_acknowledged(tmp_path: Path) -> None:
    """Killed before, a process repeats a few rather than lose one."""
    path = tmp_path / "state" / "host.json"
    positions = LogPositions(path, place_of)
    positions.note(0, Place(sequence=10))
    positions.note(2, Place(sequence=20))
    positions.note(2, Place(sequence=30))
    positions.note(3, Place(sequence=40))
    positions.save(0)
    assert LogPositions(path, place_of).load() == Place(sequence=10)
    positions.save(1)
    assert LogPositions(path, place_of).load() == Place(sequence=10)
    positions.save(2)
    assert LogPositions(path, place_of).load() == Place(sequence=30)
    positions.save(3)
    assert LogPositions(path, place_of).load() == Place(sequence=40)


@pytest.mark.parametrize("texts", ["", "nonsense", "[]", '{"sequence": "1"}', '{"other": 1}', '{"sequence": true}'])
def test_a_state_that_makes_no_sense_is_none(tmp_path: Path, texts: str) -> None:
    """As if there were no file."""
    path = tmp_path / "host.json"
    path.write_text(texts)
    assert LogPositions(path, place_of).load() is None


def test_a_state_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    """The warning is logged once."""
    (tmp_path / "file").write_text("")
    positions = LogPositions(tmp_path / "file" / "host.json", place_of)
    positions.note(0, Place(sequence=1))
    positions.save(0)
    positions.save(0)
    assert positions.load() is None
