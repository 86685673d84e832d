"""The spool: stored records survive any end of the process, in order; records that do not fit are refused."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.core.spool import BufferedRecord, Damaged, Spool
from streams.wire.errors import Misconfigured
from tests.fixtures.spool_records import buffered, files_no_larger_than

MUCH = 1 << 30


def opened(path: Path, limit_bytes: int = MUCH) -> Spool:
    spool = Spool(path, limit_bytes, lock_s=0.1)
    spool.open()
    return spool


def copy_of(path: Path, to: Path) -> Path:
    """The files as a kill would leave them: nothing was closed."""
    for part in path.parent.glob(path.name + "*"):
        (to / part.name).write_bytes(part.read_bytes())
    return to / path.name


@given(st.lists(st.tuples(st.sampled_from(["append", "drop", "kill"]), st.integers(0, 5), st.integers(0, 2000))))
def test_the_spool_is_a_queue(steps: list[tuple[str, int, int]]) -> None:
    """Appended, dropped and killed in any order, it contains what a list would, within its limit."""
    with TemporaryDirectory() as folder:
        path, model, number = Path(folder) / "a.spool", list[BufferedRecord](), 0
        spool = opened(path, 8000)
        for step, count, size in steps:
            if step == "append":
                given_to_it = [buffered(number := number + 1, size) for _ in range(count)]
                taken = spool.append(given_to_it)
                model += given_to_it[:taken]
                assert taken == count or sum(one.size for one in (*model, given_to_it[taken])) > 8000
            elif step == "drop" and model:
                spool.drop(min(count, len(model)))
                model = model[count:]
            elif step == "kill":
                spool.close()
                spool = opened(path, 8000)
            assert spool.oldest(1000) == model
            assert (spool.count, spool.size_bytes) == (len(model), sum(one.size for one in model))
        spool.close()


def test_appended_records_survive_a_kill(tmp_path: Path) -> None:
    """At any time the files contain all records that `append` returned from."""
    (tmp_path / "killed").mkdir()
    spool = opened(tmp_path / "a.spool")
    spool.append([buffered(number) for number in range(100)])
    spool.drop(10)
    again = opened(copy_of(tmp_path / "a.spool", tmp_path / "killed"))
    assert again.oldest(1000) == [buffered(number) for number in range(10, 100)]


def test_a_torn_tail_loses_only_records_that_were_not_acknowledged(tmp_path: Path) -> None:
    """Cut or garbled anywhere in its last commit, the log ends at the one before."""
    spool = opened(tmp_path / "a.spool")
    spool.append([buffered(number) for number in range(20)])
    wal = tmp_path / "a.spool-wal"
    whole = wal.stat().st_size
    spool.append([buffered(number, 3000) for number in range(20, 40)])
    written = wal.stat().st_size
    for number, cut in enumerate(range(whole, written, (written - whole) // 7)):
        for garbled in (False, True):
            (folder := tmp_path / f"torn{number}{garbled}").mkdir()
            torn = copy_of(tmp_path / "a.spool", folder)
            data = wal.read_bytes()
            rest = os.urandom(written - cut) if garbled else b""
            (folder / "a.spool-wal").write_bytes(data[:cut] + rest)
            again = opened(torn)
            assert again.oldest(1000) == [buffered(number) for number in range(20)]
            again.close()


def test_a_full_disk_refuses_and_preserves_the_stored_records(tmp_path: Path) -> None:
    """The append fails completely, with its reason; with space again the next one succeeds."""
    spool = opened(tmp_path / "a.spool")
    spool.append([buffered(1)])
    with files_no_larger_than(100_000), pytest.raises(OSError, match=r"full|I/O"):
        spool.append([buffered(number, 50_000) for number in range(2, 10)])
    assert spool.oldest(100) == [buffered(1)]
    assert spool.append([buffered(2)]) == 1
    assert opened(copy_of(tmp_path / "a.spool", _made(tmp_path / "killed"))).oldest(100) == [buffered(1), buffered(2)]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_an_emptied_spool_returns_the_disk_space(tmp_path: Path) -> None:
    """An outage leaves no large file behind."""
    spool = opened(tmp_path / "a.spool")
    spool.append([buffered(number, 10_000) for number in range(100)])
    spool.drop(100)
    assert sum(part.stat().st_size for part in tmp_path.iterdir()) < 100_000


def test_two_processes_do_not_share_a_spool(tmp_path: Path) -> None:
    """The second fails with one line, and so does one whose folder cannot be created."""
    spool = opened(tmp_path / "a.spool")
    with pytest.raises(Misconfigured, match=r"a\.spool.*locked"):
        opened(tmp_path / "a.spool")
    spool.close()
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="file"):
        opened(tmp_path / "file" / "a.spool")


def test_a_file_that_is_no_spool_is_set_aside(tmp_path: Path) -> None:
    """It remains for inspection, and a new one is created."""
    (tmp_path / "a.spool").write_bytes(b"not what was written" * 1000)
    spool = Spool(tmp_path / "a.spool", MUCH)
    with pytest.raises(Damaged):
        spool.open()
    assert spool.set_aside().read_bytes().startswith(b"not what")
    assert spool.append([buffered(1)]) == 1
    assert spool.oldest(10) == [buffered(1)]
