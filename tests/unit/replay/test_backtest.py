"""Tests backtests: the order of messages, the output, and real recordings against their ground truth."""

import re
from pathlib import Path

import pytest

from streams.config.settings import Settings
from streams.detect.thresholds import ns
from streams.fabric.inventory import write_folder
from streams.replay.backtest import Recording, run
from streams.replay.driver import Driver, batches, event_time
from streams.replay.score import read_findings, read_truth, score
from streams.wire.errors import Misconfigured
from streams.wire.models import Control, ControlKind, EventKind, Message, Progress, Source, Status
from tests.recordings import DATA
from tests.worlds.measure_stage import UP
from tests.worlds.observations import GNMI, SNMP, at, down, event, samples
from tests.worlds.small_fabric import inventory as small_inventory
from tests.worlds.small_fabric import topology
from tests.worlds.small_world import SmallWorld, findings, play, stages, statuses

TIMESERIES = DATA / "timeseries"
RECORDINGS = ("clos-100g/recording", "clos-100g-flapper", "clos-100g-shut")


@pytest.mark.parametrize("name", RECORDINGS)
def test_real_recordings_have_full_precision_and_recall(name: str, tmp_path: Path) -> None:
    """Precision and recall are 1 on recordings of a real fabric."""
    folder = TIMESERIES / name
    if not folder.is_dir():
        pytest.skip(f"no recording in {folder}; set RAILSIGHT_DATA to their folder")
    source = Recording((folder / "samples.csv.gz",), (), None, None, None, folder / "inventory")
    out = tmp_path / "found.jsonl"
    summary = run(source, Settings(), out)
    truths = read_truth(folder / "truth.csv")
    result = score(read_findings(out), truths)
    assert (result.precision, result.recall) == (1.0, 1.0)
    assert summary.messages > 100
    assert (summary.rejected, summary.warnings) == ((), ())


def test_messages_are_ordered_by_time_device_and_source() -> None:
    """The findings do not depend on the order in which a recording is read."""
    world = SmallWorld(offline={"s1": [(100, 220)]}, boots={"s1": 220})
    messages: list[Message] = [*world.rounds(400), event("s1", 215, EventKind.DEVICE_REBOOT)]
    assert play(reversed(messages)) == play(messages)
    keys = [event_time(samples("a", 1, {UP: {"x": 1}}, source=s)) for s in (SNMP, GNMI)]
    assert keys == [(at(1), "a", Source.SOURCE_SNMP), (at(1), "a", Source.SOURCE_GNMI)]
    with pytest.raises(TypeError, match="Progress"):
        event_time(Progress("x", 0, 1, 5))
    assert event_time(Control("c", ControlKind.EXCLUDE)) == (0, "", 0)
    assert down("a/b", 1).by_event


def test_a_batch_has_the_messages_of_one_grain_or_one_control() -> None:
    """The grain starts at the batch's first message, so shifted times make the same batches."""
    for shift in (0, 0.05):
        messages: list[Message] = [event("s1", t + shift, EventKind.LOG) for t in (0, 0.09, 0.1, 0.11)]
        messages.insert(3, Control("c", ControlKind.EXCLUDE, at_ns=at(0.11 + shift)))
        assert [len(batch) for batch in batches(messages)] == [2, 1, 1, 1]


def test_batches_find_what_single_messages_find() -> None:
    """The size of batches changes no finding."""
    world = SmallWorld(offline={"s1": [(100, 220)]}, boots={"s1": 220}, down={"p1-l0/d1": [(100, 200)]})
    messages: list[Message] = [*world.rounds(400), *statuses(world, 400)]
    messages.sort(key=event_time)
    driver = Driver(stages(), topology())
    conclusions = [one for message in messages for one in driver.process([message])] + driver.end(ns(30))
    plain = [
        (f.id, f.subject.id, f.started_at_ns, f.resolved_at_ns, f.severity, f.parent_id) for f in findings(conclusions)
    ]
    assert plain == [
        (f.id, f.subject.id, f.started_at_ns, f.resolved_at_ns, f.severity, f.parent_id)
        for f in findings(play(messages))
    ]
    assert len(plain) > 3


@pytest.mark.parametrize(("ends_s", "status", "final"), [(1e9, Status.OPEN, False), (200, Status.RESOLVED, True)])
def test_a_finding_is_final_once_the_lateness_is_over_after_its_end(ends_s: float, status: Status, final: bool) -> None:
    """Event time ends at the last message plus the lateness; an open finding stays open."""
    world = SmallWorld(down={"p1-l0/d1": [(100, ends_s)]})
    (found,) = findings(play(world.rounds(300)))
    assert (found.status, found.final) == (status, final)


def test_a_recording_of_events_alone_is_finalized() -> None:
    """Without samples, event time advances to the last event plus the lateness."""
    messages = [
        event("p1-l0/d1", t, k) for t, k in ((0, EventKind.LINK_DOWN), (100, EventKind.LINK_UP), (300, EventKind.LOG))
    ]
    (found,) = findings(play(messages))
    assert (found.status, found.final) == (Status.RESOLVED, True)


@pytest.mark.parametrize("beside", [(), (Source.SOURCE_GNMI,), (Source.SOURCE_GNMI, Source.SOURCE_SNMP)])
def test_a_link_that_flaps_is_counted_once_by_each_source(beside: tuple[Source, ...]) -> None:
    """Lines of syslog alone show it, while it flaps; events and readings of other sources count nothing twice."""
    messages: list[Message] = [event("p1-l1", 2000, EventKind.LOG, Source.SOURCE_SYSLOG)]
    for source, delay in ((Source.SOURCE_SYSLOG, 0.0), *((one, 0.7) for one in beside)):
        for t in (100, 160, 220):
            messages += [event("p1-l0/d1", t + delay, EventKind.LINK_DOWN, source)]
            messages += [event("p1-l0/d1", t + delay + 4, EventKind.LINK_UP, source)]
    if beside:
        world = SmallWorld(down={"p1-l0/d1": [(t + 0.7, t + 4.7) for t in (100, 160, 220)]})
        messages += world.rounds(1000)
    found = findings(play(messages))
    assert {(one.condition.name, one.summary) for one in found} == {
        ("LINK_FLAP", "p1-h1/e0 -- p1-l0/d1 went down 3 times")
    }
    assert found[-1].final
    assert (found[-1].detected_at_ns or 0) < at(260)


def test_a_bad_row_of_an_inventory_is_left_out_by_name(tmp_path: Path) -> None:
    """Rows that cannot be read, that name such a device, or that contradict an earlier one."""
    folder = tmp_path / "inventory"
    write_folder(small_inventory(), folder)
    devices, links = folder / "devices.csv", folder / "links.csv"
    header, *rows = devices.read_text().splitlines()
    bad = [row.replace("switch", "swich") if row.startswith("s1,") else row for row in rows]
    devices.write_text("\n".join([header, *bad, rows[-1]]) + "\n")
    names, *lines = links.read_text().splitlines()
    links.write_text("\n".join([names, *lines, lines[-1]]) + "\n")
    source = tmp_path / "events.csv"
    source.write_text(
        "time,device,port,kind,code,detail\n"
        + "".join(f"{at(t)},p1-l0,d1,link_{k},,\n" for t in (0, 60, 120) for k, t in (("down", t), ("up", t + 5)))
    )
    summary = run(Recording((), (source,), None, None, None, folder), Settings(), tmp_path / "out")
    assert summary.findings == 1
    for expected in (
        rf"devices row {1 + rows.index(next(r for r in rows if r.startswith('s1,')))}, kind: 'swich'",
        f"devices rows {len(rows)}, {len(rows) + 1}: .* is listed 2 times",
        r"links row \d+: s1 is not ",
        f"links rows {len(lines)}, {len(lines) + 1}: .* is an end of 2 links",
    ):
        assert any(re.match(f"inventory: {expected}", line) for line in summary.rejected), expected
    devices.write_text(f"{header}\n{bad[0].replace('host', 'hst').replace('switch', 'swich')}\n")
    with pytest.raises(Misconfigured, match="devices row 1"):
        run(Recording((), (source,), None, None, None, folder), Settings(), tmp_path / "out")


def test_an_invalid_inventory_is_misconfigured(tmp_path: Path) -> None:
    """Every error has a line."""
    samples_file = tmp_path / "s.csv"
    samples_file.write_text("time,device,port,metric,index,value\n")
    with pytest.raises(Misconfigured, match="no devices"):
        run(Recording((samples_file,), (), None, None, None, tmp_path), Settings(), tmp_path / "out")


def test_an_invalid_file_of_findings_is_refused_with_its_line(tmp_path: Path) -> None:
    """The error names the file and the line."""
    file = tmp_path / "found.jsonl"
    file.write_text('{"type":"remediation","data":{}}\n{"type":"finding"}\n')
    with pytest.raises(Misconfigured, match=r"found\.jsonl line 2"):
        list(read_findings(file))
