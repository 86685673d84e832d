"""Tests backtests: the order of messages, the output, and real recordings against their ground truth."""

from pathlib import Path

import pytest

from streams.config.settings import Settings
from streams.detect.thresholds import ns
from streams.replay.backtest import Recording, run
from streams.replay.driver import Driver, batches, event_time
from streams.replay.score import read_findings, read_truth, score
from streams.wire.errors import Misconfigured
from streams.wire.models import Control, ControlKind, EventKind, Message, Progress, Source, Status
from tests.recordings import DATA
from tests.worlds.measure_stage import UP
from tests.worlds.observations import GNMI, SNMP, at, down, event, samples
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
