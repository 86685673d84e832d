"""docs/recordings.md and the code have one format: files, columns, their types and bounds, sources, kinds, metrics."""

import csv
import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from lab.bench import sample_recording
from lab.demo.player import find_recording
from streams.fabric.catalogue import BY_NAME
from streams.replay.recording import RejectedRows, read_events, stream_samples
from streams.replay.score import read_truth
from streams.wire.errors import Misconfigured
from streams.wire.models import Condition, EventKind, Source

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/recordings.md").read_text("utf-8")
GOOD = {
    "samples": {"time": "5", "device": "l", "port": "e1", "metric": "rx_bytes", "index": "", "value": "7",
                "source": "nic", "boot_id": "3"},
    "events": {"time": "5", "device": "l", "port": "e1", "kind": "link_down", "code": "4", "detail": "carrier",
               "source": "nic"},
    "truth": {"start": "5", "end": "6", "condition": "link_down", "device": "l", "port": "e1", "tolerance_s": "9"},
}  # fmt: skip
WRONG = {
    "time": "", "device": "", "metric": "no_such_metric", "index": "-2", "value": "x", "source": "rumor",
    "boot_id": "x", "kind": "no_such_kind", "code": "79x", "start": "", "end": "x", "condition": "no_such_condition",
    "tolerance_s": "x",
}  # fmt: skip
"""A cell outside of its column's type."""
BOUNDS = re.compile(r"integer (-?\d+) to 2\^(\d+)-1")
DATED = "1970-01-01T00:00:00.000000005Z"


class Column(NamedTuple):
    """A row of a table of the page."""

    file: str
    name: str
    type: str
    content: str

    @property
    def is_optional(self) -> bool:
        return self.type.endswith("optional")


def columns_of(file: str) -> list[Column]:
    """Return the rows of the table of one file."""
    section = re.search(rf"^### {file}\n(.*?)(?=^### |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert section is not None, file
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", section[1], re.MULTILINE)
    return [Column(file, *row) for row in rows]


COLUMNS = [column for file in GOOD for column in columns_of(file)]
every_column = pytest.mark.parametrize("column", COLUMNS, ids=lambda one: f"{one.file}-{one.name}")


def read(folder: Path, file: str, cells: dict[str, str]) -> list[Any]:
    """Return what the code reads of a file with one row; raises Misconfigured."""
    path = folder / f"{file}.csv"
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, cells)
        writer.writeheader()
        writer.writerow(cells)
    readers: dict[str, Callable[[], list[Any]]] = {
        "samples": lambda: list(stream_samples([path], RejectedRows())),
        "events": lambda: read_events([path], RejectedRows()),
        "truth": lambda: read_truth(path),
    }
    return readers[file]()


@pytest.mark.parametrize("file", GOOD)
def test_the_page_has_the_columns_of_the_code(file: str, tmp_path: Path) -> None:
    """A file with just the columns of the page is read; the order is that of written files."""
    assert [column.name for column in columns_of(file)] == list(GOOD[file])
    assert len(read(tmp_path, file, GOOD[file])) == 1


@every_column
def test_a_column_may_be_missing_if_the_page_has_it_as_optional(column: Column, tmp_path: Path) -> None:
    """A missing column that is not optional is refused by its name."""
    cells = {name: cell for name, cell in GOOD[column.file].items() if name != column.name}
    if column.is_optional:
        assert len(read(tmp_path, column.file, cells)) == 1
    else:
        with pytest.raises(Misconfigured, match=rf"\b{column.name}\b"):
            read(tmp_path, column.file, cells)


@every_column
def test_a_cell_may_be_empty_if_the_page_has_it_so(column: Column, tmp_path: Path) -> None:
    """An empty cell elsewhere is a row that is not read."""
    assert is_read(tmp_path, column, "") is ("empty" in column.type)


@pytest.mark.parametrize("column", [one for one in COLUMNS if one.name in WRONG], ids=lambda one: one.name)
def test_a_cell_outside_of_its_type_is_not_read(column: Column, tmp_path: Path) -> None:
    """An unknown name, or no number."""
    assert not is_read(tmp_path, column, WRONG[column.name])


@pytest.mark.parametrize("column", [one for one in COLUMNS if BOUNDS.search(one.type)], ids=lambda one: one.name)
def test_an_integer_has_the_bounds_of_the_page(column: Column, tmp_path: Path) -> None:
    """The first and the last value are read, those beside them are not."""
    bounds = BOUNDS.search(column.type)
    assert bounds is not None
    first, last = int(bounds[1]), 2 ** int(bounds[2]) - 1
    cells = (first - 1, first, last, last + 1)
    assert [cell for cell in cells if is_read(tmp_path, column, str(cell))] == [first, last]


@pytest.mark.parametrize("column", [one for one in COLUMNS if one.type.startswith("time")], ids=lambda one: one.name)
def test_a_time_is_nanoseconds_or_rfc_3339(column: Column, tmp_path: Path) -> None:
    """Both forms are one moment."""
    cells = GOOD[column.file]
    assert is_read(tmp_path, column, DATED)
    if column.file != "truth":  # whose times are read to the microsecond
        dated, plain = (read(tmp_path, column.file, cells | {column.name: cell}) for cell in (DATED, "5"))
        assert repr(dated) == repr(plain)


def test_a_gauge_is_a_number(tmp_path: Path) -> None:
    """Whole or not, negative too; a counter is neither."""
    cells = GOOD["samples"]
    for value, metric, is_number in (("-3.5", "rx_power_dbm", True), ("-3.5", "rx_bytes", False)):
        assert bool(read(tmp_path, "samples", cells | {"metric": metric, "value": value})) is is_number


def test_names_of_the_page_are_those_of_the_code() -> None:
    """All sources and kinds; metrics and conditions that are examples; files that a playback finds."""
    contents = {(column.file, column.name): set(re.findall(r"`(\w+)`", column.content)) for column in COLUMNS}
    assert contents["samples", "source"] == {source.label for source in Source if source}
    assert contents["events", "kind"] == {kind.name.lower() for kind in EventKind if kind}
    assert contents["samples", "metric"] and contents["samples", "metric"] <= set(BY_NAME)
    assert contents["truth", "condition"] <= {condition.name.lower() for condition in Condition}


def test_the_files_of_the_sample_are_those_of_the_page() -> None:
    """Their names and their columns, in this order."""
    folder = sample_recording.FOLDER
    listed = set(re.findall(r"`([\w.]+)/?`", TEXT.partition("## Files")[2].partition("Types:")[0]))
    for path in folder.iterdir():
        assert path.name in listed or path.name.partition(".")[0] in listed, path.name
    found = find_recording(folder, folder / "inventory")
    for file, paths in (("samples", found.samples), ("events", found.events)):
        (path,) = paths
        assert path.name.startswith(file)
        with gzip.open(path, "rt", newline="") as rows:
            assert next(csv.reader(rows)) == [column.name for column in columns_of(file)]


def is_read(folder: Path, column: Column, cell: str) -> bool:
    """Return whether a row with this cell is read."""
    try:
        return bool(read(folder, column.file, GOOD[column.file] | {column.name: cell}))
    except Misconfigured:
        return False
