"""Tests recordings: files become the messages that collectors would have sent; bad rows are counted by reason."""

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams.fabric.catalogue import Metric
from streams.replay.recording import RejectedRows, read_events, read_lines, stream_samples
from streams.wire import codec
from streams.wire.errors import Misconfigured
from streams.wire.models import ABSENT_COUNTER, Control, ControlKind, EventKind, RowKind, Samples, Source

HEAD = "time,device,port,metric,index,value"
S = 1_000_000_000


def _csv(path: Path, *rows: str, head: str = HEAD) -> Path:
    path.write_text("\n".join((head, *rows)) + "\n")
    return path


def _read(*paths: Path) -> tuple[list[Samples], list[str]]:
    rejected = RejectedRows()
    return list(stream_samples(paths, rejected)), rejected.lines()


def test_rows_of_one_time_and_device_are_one_message(tmp_path: Path) -> None:
    """A metric with index is a column, a port is a row; an absent value was not read."""
    (one,), rejected = _read(
        _csv(tmp_path / "s.csv", "5,l,e1,oper_up,,1", "5,l,e2,rx_bytes,,7", "5,l,e1,rx_power_dbm,2,-3.5")
    )
    assert (one.device, one.sampled_at_ns, one.received_at_ns, one.row, rejected) == ("l", 5, 5, ("e1", "e2"), [])
    assert (one.source, one.boot_id, one.row_kind) == (Source.SOURCE_GNMI, 0, RowKind.ROW_KIND_PORT)
    assert one.counters.values.tolist() == [[ABSENT_COUNTER, 7]]
    gauges = dict(
        zip(zip(one.gauges.metric, one.gauges.index, strict=True), one.gauges.values[:, 0].tolist(), strict=True)
    )
    assert gauges == {(Metric.OPER_UP, -1): 1.0, (Metric.RX_POWER_DBM, 2): -3.5}


def test_all_forms_of_a_recording_are_the_same_messages(tmp_path: Path) -> None:
    """The forms are CSV, gzip and Parquet, with integers or RFC 3339."""
    rows = ["1000000000,l,e1,rx_bytes,,7", "2000000000,l,e1,rx_bytes,,8"]
    plain = _csv(tmp_path / "a.csv", *rows)
    zipped = tmp_path / "a.csv.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    dated = _csv(
        tmp_path / "b.csv", *(r.replace(f"{n}000000000", f"1970-01-01T00:00:0{n}Z") for n, r in enumerate(rows, 1))
    )
    cells = [
        {"time": n * S, "device": "l", "port": "e1", "metric": "rx_bytes", "index": None, "value": 6 + n}
        for n in (1, 2)
    ]
    pq.write_table(pa.Table.from_pylist(cells), tmp_path / "a.parquet")
    read = [[codec.to_bytes(m) for m in _read(p)[0]] for p in (plain, zipped, dated, tmp_path / "a.parquet")]
    assert len(read[0]) == 2
    assert read[1:] == [read[0]] * 3


def test_messages_are_in_the_order_of_time_device_and_source(tmp_path: Path) -> None:
    """The order is that of all files together; another source or boot is another message."""
    head = f"{HEAD},source,boot_id"
    one = _csv(tmp_path / "a.csv", "2,b,e,oper_up,,1,gnmi,", "1,b,e,oper_up,,1,snmp,7", head=head)
    two = _csv(tmp_path / "b.csv", "1,a,e,oper_up,,1,nic,", "1,b,e,oper_up,,1,,18446744073709551615", head=head)
    read, rejected = _read(one, two)
    assert [(m.sampled_at_ns, m.device, m.source.name, m.boot_id) for m in read] == [
        (1, "a", "SOURCE_NIC", 0), (1, "b", "SOURCE_GNMI", 2**64 - 1), (1, "b", "SOURCE_SNMP", 7),
        (2, "b", "SOURCE_GNMI", 0),
    ]  # fmt: skip
    assert rejected == []


def test_chunks_and_several_files_are_one_stream(tmp_path: Path) -> None:
    """However rows are divided into chunks and files, the messages are those of one file that is read at once."""
    rng = random.Random(5)
    cells = [
        {"time": t, "device": f"d{d}", "port": f"e{p}", "metric": name, "index": None, "value": float(t * 10 + p)}
        for t in range(1, 13)
        for d in range(3)
        for p in range(2)
        for name in ("rx_bytes", "oper_up")
    ]
    whole = tmp_path / "whole.parquet"
    pq.write_table(pa.Table.from_pylist(cells), whole)
    messages = _read(whole)[0]
    expected = [codec.to_bytes(m) for m in messages]
    in_parts = [(m.device, m.sampled_at_ns, m.sequence, _values(m)) for m in messages]
    assert len(expected) == 36
    halves = [tmp_path / f"{n}.parquet" for n in range(2)]
    mixed = tmp_path / "mixed.parquet"
    for n, half in enumerate(halves):
        pq.write_table(pa.Table.from_pylist(cells[n::2]), half)
    shuffled = cells[:]
    rng.shuffle(shuffled)
    pq.write_table(pa.Table.from_pylist(shuffled), mixed)
    for rows in (1, 7, 64):
        assert [codec.to_bytes(m) for m in stream_samples([whole], RejectedRows(), rows)] == expected
        for paths in (halves, [mixed]):
            read = list(stream_samples(paths, RejectedRows(), rows))
            assert [(m.device, m.sampled_at_ns, m.sequence, _values(m)) for m in read] == in_parts


def _values(message: Samples) -> dict[tuple[str, str], float]:
    return {
        (row, metric.name): float(table.values[column, place])
        for table in (message.counters, message.gauges)
        for column, metric in enumerate(table.metric)
        for place, row in enumerate(message.row)
    }


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64(), pa.uint64(), pa.string()])
def test_a_value_is_the_same_in_any_column_type(tmp_path: Path, kind: pa.DataType) -> None:
    """Numbers and texts are converted alike; an absent value is not a number."""
    value = pa.array(["7", "1", None] if kind == pa.string() else [7, 1, None], kind)
    names = {"device": ["l"] * 3, "port": ["e"] * 3, "metric": ["rx_bytes", "oper_up", "tx_bytes"]}
    table = pa.table({"time": [1, 1, 1], **names, "index": pa.array([None] * 3, pa.int32()), "value": value})
    pq.write_table(table, tmp_path / "s.parquet")
    (one,), rejected = _read(tmp_path / "s.parquet")
    assert (one.counters.values.tolist(), one.gauges.values.tolist()) == ([[7]], [[1.0]])
    assert rejected == ["s.parquet: the value is not a number: 1 rows skipped"]


def test_counters_beyond_a_double_are_exact(tmp_path: Path) -> None:
    """2^53 + 1 is not 2^53."""
    (one,), _ = _read(_csv(tmp_path / "s.csv", f"1,l,a,rx_bytes,,{2**53 + 1}", f"1,l,b,rx_bytes,,{2**64 - 2}"))
    assert one.counters.values.tolist() == [[2**53 + 1, 2**64 - 2]]


BAD = ("1,l,e,warp_speed,,1", ",l,e,rx_bytes,,1", "1,l,e,rx_bytes,,many", "1,l,e,rx_bytes,x,1", "1,,e,rx_bytes,,1",
       "1,l,e,rx_bytes,,", "1,l,e,rx_bytes,,-1", f"1,l,e,rx_bytes,,{2**64}", "1,l,e,rx_bytes,,1e400",
       "1,l,e,rx_bytes,-7,1")  # fmt: skip


@pytest.mark.parametrize("row", BAD)
def test_a_bad_row_is_skipped_with_a_reason(tmp_path: Path, row: str) -> None:
    """The other rows are read; the line has the file, the reason and the number of rows."""
    read, rejected = _read(_csv(tmp_path / "s.csv", "1,l,e,tx_bytes,,5", row))
    assert [m.counters.values.tolist() for m in read] == [[[5]]]
    assert len(rejected) == 1
    assert rejected[0].startswith("s.csv: ") and rejected[0].endswith(": 1 rows skipped")


def test_a_device_without_ports_is_a_row_of_its_own(tmp_path: Path) -> None:
    """An empty port is the device itself."""
    (one,), _ = _read(_csv(tmp_path / "s.csv", "1,h,,oper_up,,1"))
    assert (one.row, one.row_kind) == (("",), RowKind.ROW_KIND_DEVICE)


@pytest.mark.parametrize("content", [b"", b"time,device\n1,l\n", b"\x1f\x8bjunk", b"a,b\n1,2,3\n"])
def test_an_invalid_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """A missing column, an empty and a corrupt file each give one line with the file's name."""
    for name in ("s.csv", "s.csv.gz", "s.parquet"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(Misconfigured, match=name):
            _read(tmp_path / name)
    with pytest.raises(Misconfigured, match="none"):
        _read(tmp_path / "none.csv")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    """The error names the columns and the file."""
    with pytest.raises(Misconfigured, match=r"s\.csv lacks the columns index, value"):
        _read(_csv(tmp_path / "s.csv", "1,l,e,oper_up", head="time,device,port,metric"))


def test_an_empty_recording_has_no_messages(tmp_path: Path) -> None:
    """A header alone is valid."""
    assert _read(_csv(tmp_path / "s.csv")) == ([], [])


def test_events_are_read_in_order(tmp_path: Path) -> None:
    """Kinds are read by name; events without known kind, time or device are skipped with a reason."""
    head = "time,device,port,kind,code,detail"
    file = _csv(
        tmp_path / "e.csv", "2,l,e1,link_down,,", "1,l,e1,ADMIN_DOWN,-79,by hand", "3,l,e1,exploded,,", head=head
    )
    rejected = RejectedRows()
    read = read_events([file], rejected)
    assert [(e.at_ns, e.kind, e.code, e.detail) for e in read] == [
        (1, EventKind.ADMIN_DOWN, -79, "by hand"), (2, EventKind.LINK_DOWN, 0, ""),
    ]  # fmt: skip
    assert rejected.lines() == ["e.csv: events without time, device or known kind: 1 rows skipped"]


def test_controls_are_read_from_json_lines(tmp_path: Path) -> None:
    """Each line is a message of the proto; a bad line is skipped with a reason."""
    file = tmp_path / "c.jsonl"
    file.write_text('{"id":"c","kind":"KILL_SWITCH"}\n\nnot json\n')
    rejected = RejectedRows()
    assert read_lines(Control, file, rejected) == [Control("c", ControlKind.KILL_SWITCH)]
    assert len(rejected.lines()) == 1
