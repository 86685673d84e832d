"""Tests the inventory folder: it is read whole, or refused with all its problems."""

from collections.abc import Sequence
from pathlib import Path

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from streams.fabric.inventory import InvalidInventory, Inventory, digest, pack, read_folder, unpack
from streams.fabric.inventory_rows import from_rows
from tests.worlds.small_fabric import inventory, job

DEVICES = "name,kind,tier,pod,plane,vendor,model,gpus"
LINKS = "a_device,a_port,z_device,z_port,role,rail,plane,speed_bps"
GOOD_DEVICES = ("l1,switch,T0,p1,0,v,m,", "h1,host,host,p1,,v,m,8")
GOOD_LINKS = ("l1,e1,h1,e0,host-link,0,0,400000000000",)


def _folder(
    path: Path, devices: Sequence[str] = GOOD_DEVICES, links: Sequence[str] = GOOD_LINKS, **tables: str
) -> Path:
    path.mkdir(exist_ok=True)
    (path / "devices.csv").write_text("\n".join((DEVICES, *devices)) + "\n")
    (path / "links.csv").write_text("\n".join((LINKS, *links)) + "\n")
    for table, text in tables.items():
        (path / f"{table}.csv").write_text(text)
    return path


def _problems(path: Path) -> list[str]:
    with pytest.raises(InvalidInventory) as caught:
        read_folder(path)
    assert str(caught.value) == "; ".join(caught.value.problems)
    return caught.value.problems


def test_a_folder_of_csv_is_read(tmp_path: Path) -> None:
    """Blank optional columns are absent, numbers are numbers, the optional tables may be missing."""
    read = read_folder(_folder(tmp_path, ports="device,port,alias\nh1,e0,mlx5_0\n"))
    assert [(d.name, d.plane, d.gpus) for d in read.devices] == [("l1", 0, 0), ("h1", None, 8)]
    assert read.links[0].speed_bps == 400_000_000_000
    assert (read.ports[0].alias, read.jobs) == ("mlx5_0", ())


def test_parquet_and_csv_are_the_same_inventory(tmp_path: Path) -> None:
    """The same rows in Parquet are the same version, with times and absent values."""
    own = inventory(jobs=[job("j", "p1-h1", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:01.5+00:00")])
    for table in ("devices", "links", "jobs"):
        rows = [row._asdict() for row in getattr(own, table)]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{table}.parquet")
    assert read_folder(tmp_path) == own


def test_all_problems_of_rows_are_reported_at_once(tmp_path: Path) -> None:
    """Every invalid row is reported with its table, its number, its column and the reason."""
    problems = _problems(
        _folder(
            tmp_path,
            (*GOOD_DEVICES, "x,router,T0,,,,,", ",switch,T0,,one,,,"),
            ("l1,e1,h1,e0,cable,0,0,1",),
            jobs="job,device,start\nj,h1,2026-01-01T00:00:00\n",
        )
    )
    assert [p.split(":")[0] for p in problems] == [
        "devices row 3, kind", "devices row 4, name", "devices row 4, plane", "links row 1, role", "jobs row 1, start",
    ]  # fmt: skip
    assert "needs a time zone" in problems[-1]


def test_a_row_longer_than_its_header_is_refused(tmp_path: Path) -> None:
    """A row with an extra comma is reported and not ignored."""
    assert _problems(_folder(tmp_path, ("l1,switch,T0,p1,0,v,m,0,extra", GOOD_DEVICES[1])))[0].startswith(
        "devices row 1"
    )


def test_a_missing_table_or_folder_is_reported(tmp_path: Path) -> None:
    """Devices and links are required; a missing folder is reported by name."""
    (tmp_path / "jobs.csv").write_text("job,device,start\n")
    assert _problems(tmp_path) == [f"{tmp_path}: no {table}.csv or {table}.parquet" for table in ("devices", "links")]
    assert _problems(tmp_path / "none") == [f"{tmp_path / 'none'}: no such folder"]


def test_a_file_without_a_table_is_reported(tmp_path: Path) -> None:
    """Bytes that are neither CSV nor Parquet are a problem of that file, beside those of the others."""
    folder = _folder(tmp_path, ("x,y",))
    (folder / "links.csv").write_bytes(b"\xff\xfe\x00")
    (folder / "jobs.parquet").write_bytes(b"no parquet")
    text = "\n".join(_problems(folder))
    assert "devices row 1" in text and "links: " in text and "jobs: " in text


def test_a_version_is_unpacked_as_it_was_packed() -> None:
    """The digest identifies the content: equal inventories have equal digests, others have not."""
    own = inventory(
        jobs=[job("j", "p1-h1", "2026-01-01T00:00:00+00:00")], maintenance=["s1"], until="2026-01-01T00:00:00Z"
    )
    named, data = pack(own)
    assert unpack(data) == own
    assert named == digest(unpack(data)) != digest(inventory())
    assert unpack(pack(Inventory())[1]) == Inventory()


def test_a_fabric_declares_its_load_balancing() -> None:
    """A version without the column keeps its digest; an unknown way is refused."""
    rows = [{"name": "l1", "kind": "switch", "tier": "T0", "load_balancing": "sprayed"}]
    (leaf,) = from_rows("devices", rows)
    data = pack(Inventory(devices=(leaf,)))[1]
    assert unpack(data).devices == (leaf,) and leaf.is_sprayed
    assert (
        b"load_balancing" not in cramjam.zstd.decompress(pack(Inventory((leaf._replace(load_balancing=""),)))[1]).read()
    )
    with pytest.raises(ValidationError, match="load_balancing"):
        from_rows("devices", [rows[0] | {"load_balancing": "random"}])
