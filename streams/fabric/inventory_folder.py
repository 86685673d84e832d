"""Reads and writes the folder of an inventory: its tables, each as CSV or as Parquet.

Reads whole tables by column, and reports every unreadable row with its table, its number and the reason. The readable
rows are still checked against each other. pyarrow reads Parquet; the pipeline requires it for its own tables, but a
host that only runs collectors does not have it.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice, repeat
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from streams.fabric.checks import Problem, Tables, find_problems
from streams.fabric.inventory_rows import ROW_OF, Inventory, Row, from_columns, from_rows
from streams.instrument.text import refusal

TABLES = tuple(ROW_OF)
_REQUIRED = ("devices", "links")
_FORMS = ("csv", "parquet")
_BLOCK = 10_000
"""The number of CSV lines that are split at once; the memory of their strings is freed after each block."""


class InvalidInventory(ValueError):
    """An invalid inventory: `problems` has one line for each error, `details` has them as Problems."""

    def __init__(self, found: Sequence[Problem]) -> None:
        self.details = list(found)
        self.problems = [str(problem) for problem in found]
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """The readable part of a folder, and all problems."""

    inventory: Inventory
    problems: list[Problem]
    row_numbers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The number of each readable row in its table, from 1."""

    @property
    def errors(self) -> list[Problem]:
        """Return the problems that make the inventory unusable for a pipeline."""
        return [problem for problem in self.problems if problem.is_error]


@dataclass(slots=True)
class _ReadTable:
    """The readable rows of a table, their numbers if rows are missing, and the names of the unreadable rows."""

    rows: Any = ()
    row_numbers: Sequence[int] | None = None
    unreadable: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class _InvalidTable(ValueError):
    """A file that does not contain the table."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def read_folder(folder: Path) -> Inventory:
    """Read the tables of an inventory folder; raises InvalidInventory with every error."""
    examined = validate(folder)
    if examined.errors:
        raise InvalidInventory(examined.errors)
    return examined.inventory


def read_usable(folder: Path) -> ValidationReport:
    """Read a folder without its bad rows, for a reader of the past; its errors name these rows.

    Of rows that contradict each other the first is used. Raises InvalidInventory for an error that names no row, and
    if no device is left.
    """
    examined = validate(folder)
    errors, found = examined.errors, examined.errors
    if fatal := [problem for problem in errors if not problem.rows]:
        raise InvalidInventory(fatal)
    inventory, numbers = examined.inventory, dict(examined.row_numbers)
    while found:
        bad = {(one.table, row) for one in found for row in (one.rows[1:] or one.rows)}
        for table in {one.table for one in found}:
            rows = getattr(inventory, table)
            used = [n for n, number in enumerate(numbers[table]) if (table, number) not in bad]
            inventory = replace(inventory, **{table: tuple(rows[n] for n in used)})
            numbers[table] = [numbers[table][n] for n in used]
        # A row may name a device whose row was left out.
        found = [one for one in find_problems(Tables(inventory, 0, numbers)) if one.is_error]
        errors += found
    if not inventory.devices:
        raise InvalidInventory(errors)
    return ValidationReport(inventory, errors, numbers)


def validate(folder: Path, now_ns: int = 0) -> ValidationReport:
    """Read a folder and report all problems; ignores maintenance that ends before `now_ns`."""
    if not folder.is_dir():
        return ValidationReport(Inventory(), [_file_problem(f"{folder}: no such folder")])
    problems: list[Problem] = []
    tables: dict[str, _ReadTable] = {}
    for table in TABLES:
        try:
            tables[table] = _read_table(folder, table)
        except _InvalidTable as error:
            problems += error.problems
        except (OSError, ValueError, csv.Error) as error:
            problems.append(_file_problem(f"{folder / table}: {error}"))
    for read in tables.values():
        problems += read.problems
    inventory = Inventory(**{table: read.rows for table, read in tables.items()})
    if "devices" in tables and not inventory.devices and not tables["devices"].unreadable:
        # Publishing it would remove every device of the live inventory.
        problems.append(Problem("devices", (), "no-devices", "no device is listed", is_error=True))
    if inventory.devices and "links" in tables and not inventory.links and not tables["links"].unreadable:
        message = "no link, so that ends, rails and peers are unknown; `railsight inventory draft` derives them"
        problems.append(Problem("links", (), "no-links", message))
    if "devices" in tables:  # otherwise every device would be unknown
        numbers = {table: read.row_numbers for table, read in tables.items() if read.row_numbers is not None}
        problems += find_problems(Tables(inventory, now_ns, numbers, frozenset(tables["devices"].unreadable)))
    every = {table: read.row_numbers or range(1, len(read.rows) + 1) for table, read in tables.items()}
    return ValidationReport(inventory, problems, every)


def table_files(folder: Path) -> list[Path]:
    """Return the table files of a folder; an absent folder has none."""
    return [path for table in TABLES for form in _FORMS if (path := folder / f"{table}.{form}").exists()]


def _file_problem(message: str) -> Problem:
    return Problem("", (), "unreadable", message, is_error=True)


def _read_table(folder: Path, table: str) -> _ReadTable:
    """Read the readable rows of a table; raises OSError, ValueError or csv.Error on an unreadable file."""
    as_csv, as_parquet = folder / f"{table}.csv", folder / f"{table}.parquet"
    if as_csv.exists():
        if as_parquet.exists():
            raise _InvalidTable(_file_problem(f"{folder}: both {table}.csv and {table}.parquet exist; remove one"))
        return _read_csv(as_csv, table)
    if as_parquet.exists():
        return _read_parquet(as_parquet, table)
    if table in _REQUIRED:
        raise _InvalidTable(_file_problem(f"{folder}: no {table}.csv or {table}.parquet"))
    return _ReadTable()


def _read_csv(path: Path, table: str) -> _ReadTable:
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, strict=True)
        header = next(lines, [])
        if wrong := _wrong_columns(table, header):
            raise _InvalidTable(*wrong)
        columns = _columns(header, lines)
        rows = None if columns is None else from_columns(table, columns)
        if rows is not None:
            return _ReadTable(rows)
        file.seek(0)
        return _read_rows(table, csv.DictReader(file, strict=True))


def _wrong_columns(table: str, header: Sequence[str]) -> list[Problem]:
    """Report unknown, missing and repeated columns, once for the table."""
    row = ROW_OF[table]
    known = ", ".join(row._fields)
    messages = [
        f"{name or 'a blank'} is not a column of this table; its columns are {known}"
        for name in header
        if name not in row._fields
    ]
    messages += [f"no column {name}" for name in row._fields if name not in row._field_defaults and name not in header]
    messages += [f"column {name} occurs {header.count(name)} times" for name in dict.fromkeys(header)
             if header.count(name) > 1]  # fmt: skip
    return [Problem(table, (), "wrong-columns", message, is_error=True) for message in messages]


def _columns(header: Sequence[str], lines: Iterable[list[str]]) -> dict[str, list[str]] | None:
    """Split the lines of a table into columns; None if a line and the header differ in their number of fields."""
    lines = iter(lines)
    columns: list[list[str]] = [[] for _ in header]
    interned: dict[str, str] = {}
    while block := list(islice(lines, _BLOCK)):
        if any(len(line) != len(header) for line in block):
            return None
        for column, values in zip(columns, zip(*block, strict=True), strict=True):
            column.extend(map(interned.setdefault, values, values))
    return dict(zip(header, columns, strict=True))


def _read_rows(table: str, rows: Iterable[Mapping[Any, Any]]) -> _ReadTable:
    """Read the readable rows, and report a problem for each unreadable row."""
    all_rows = list(rows)
    read = _ReadTable()
    unreadable: set[int] = set()
    for number, row in enumerate(all_rows):
        if None in row or None in row.values():
            unreadable.add(number)
            fields = "more" if None in row else "fewer"
            read.problems.append(_row_problem(table, number, f"has {fields} fields than the header"))
    readable = [number for number in range(len(all_rows)) if number not in unreadable]
    try:
        read.rows = from_rows(table, map(all_rows.__getitem__, readable))
    except ValidationError as error:
        for detail in error.errors():
            place, *column = detail["loc"]
            assert isinstance(place, int)
            unreadable.add(readable[place])
            message = refusal(detail) if not column else f"{detail['input']!r:.40} {refusal(detail)}"
            read.problems.append(_row_problem(table, readable[place], message, ".".join(map(str, column))))
        readable = [number for number in readable if number not in unreadable]
        read.rows = from_rows(table, map(all_rows.__getitem__, readable))
    read.problems.sort(key=lambda problem: problem.rows)
    read.row_numbers = [number + 1 for number in readable]
    read.unreadable = [str(all_rows[number].get("name")) for number in unreadable]
    return read


def _row_problem(table: str, index: int, message: str, column: str = "") -> Problem:
    return Problem(table, (index + 1,), "unreadable-row", message, is_error=True, column=column)


def _read_parquet(path: Path, table: str) -> _ReadTable:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise _InvalidTable(
            _file_problem(f"{path}: cannot read Parquet without pyarrow; install railsight[pipeline]")
        ) from error
    try:
        read = pq.read_table(path)
        if wrong := _wrong_columns(table, read.column_names):
            raise _InvalidTable(*wrong)
        columns = {name: _values(read[name]) for name in read.column_names}
        rows = from_columns(table, columns, none_is_absent=True)
        if rows is not None:
            return _ReadTable(rows)
        return _read_rows(table, ({k: v for k, v in row.items() if v is not None} for row in read.to_pylist()))
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def _values(column: Any) -> list[Any]:
    """Convert a column of Parquet to Python values; each distinct value is converted once."""
    import pyarrow as pa

    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return list(column.to_pylist())
    encoded = column.combine_chunks().dictionary_encode()
    values = [*encoded.dictionary.to_pylist(), None]
    return list(map(values.__getitem__, encoded.indices.fill_null(len(values) - 1).to_pylist()))


def write_folder(inventory: Inventory, folder: Path, form: Literal["csv", "parquet"] = "csv") -> None:
    """Write every table that has rows, as files for `read_folder`; omits columns without values."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        rows: tuple[Row, ...] = getattr(inventory, table)
        stale = folder / f"{table}.{'parquet' if form == 'csv' else 'csv'}"
        stale.unlink(missing_ok=True)
        path = folder / f"{table}.{form}"
        if not rows and table not in _REQUIRED:
            path.unlink(missing_ok=True)
            continue
        columns = _used_columns(table, rows)
        if form == "csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows(zip(*map(_as_text, columns.values()), strict=True))
        else:
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table(columns), path)


def _used_columns(table: str, rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    """Return the required columns, and the optional columns in which any row has a value."""
    row = ROW_OF[table]
    defaults = row._field_defaults
    columns = zip(*rows, strict=True) if rows else repeat(())
    return {
        name: values
        for name, values in zip(row._fields, columns, strict=False)
        if name not in defaults or any(value != defaults[name] for value in set(values))
    }


def _as_text(values: Sequence[Any]) -> Iterable[Any]:
    """Format a column for CSV: times in RFC 3339, all others as `csv` formats them."""
    return (v.isoformat() if isinstance(v, datetime) else v for v in values)
