"""`railsight status` and `up` list what is read, and what is not."""

from dataclasses import replace

from streams.cli.status import awaited, no_rows_text, waiting_text
from streams.fabric.inventory import Device, Inventory, Link
from streams.report.source_status import (
    SourceState,
    are_due,
    blind_lines,
    changes,
    newest_readings,
    source_rows,
    unknown_devices,
    unknown_lines,
)
from streams.wire.models import CollectorStatus, Source

S = 1_000_000_000
NOW = 1_000 * S
LEAF = CollectorStatus("gnmi@a", 1, Source.SOURCE_GNMI, "leaf1", NOW - 5 * S, True, "", NOW - 6 * S, 0, 10 * S)
INVENTORY = Inventory((Device("leaf1", "switch", "T0"), Device("leaf2", "switch", "T0"), Device("h1", "host", "host")))


class Stored:
    """A ClickHouse with one newest reading."""

    def query(self, sql: str, parameters: dict[str, object] | None = None) -> list[tuple[object, ...]]:
        return [("leaf1", "gnmi", NOW - 2 * S)]


def test_a_source_has_its_last_reading_cadence_lag_and_error() -> None:
    """The stored time is newer than that of the status."""
    (row,) = source_rows([LEAF], None, NOW, newest_readings(Stored(), NOW))
    assert (row.device, row.source, row.state, row.cadence_ns) == ("leaf1", "gnmi", SourceState.UP, 10 * S)
    assert row.lag_ns(NOW) == 2 * S


def test_a_target_that_is_not_reached_is_blind_with_its_error() -> None:
    """The line has the device, the source and the error; of two collectors, one that reads it is enough."""
    lost = replace(LEAF, collector="gnmi@b", reachable=False, error="no route to host")
    assert [row.state for row in source_rows([lost, LEAF], None, NOW)] == [SourceState.UP]
    rows = source_rows([lost], INVENTORY, NOW)
    assert next(blind_lines(rows, INVENTORY)) == "leaf1 is unreachable by gnmi: no route to host"


def test_a_source_that_reads_in_part_and_jobs_on_unknown_hosts_are_listed() -> None:
    """A host agent without a kernel log is up; a job on a host that the inventory lacks has no guard."""
    part = replace(LEAF, device="h1", source=Source.SOURCE_HOST, error="kernel log: /dev/kmsg: Permission denied")
    rows = source_rows([part], INVENTORY, NOW)
    assert [row.device for row in rows if row.has_problem and row.state is SourceState.UP] == ["h1"]
    lines = list(blind_lines(rows, INVENTORY, {f"slinky-{n}" for n in range(7)}))
    assert lines[0] == "h1 is up by host: kernel log: /dev/kmsg: Permission denied"
    assert any("jobs run on 7 hosts that the inventory lacks (slinky-0, " in line for line in lines)


def test_a_dead_collector_is_silent_until_readings_prove_otherwise() -> None:
    """Statuses come every minute while samples arrive, so an older one alone is no silence for 90 s."""
    assert source_rows([replace(LEAF, at_ns=NOW - 80 * S)], None, NOW)[0].state is SourceState.UP
    old = replace(LEAF, at_ns=NOW - 100 * S, last_sample_at_ns=NOW - 100 * S)
    assert source_rows([old], None, NOW)[0].state is SourceState.SILENT
    assert source_rows([old], None, NOW, {("leaf1", "gnmi"): NOW - S})[0].state is SourceState.UP


def test_devices_without_a_collector_are_listed_with_the_next_step() -> None:
    """By kind; a source that ended in order does not count as one."""
    rows = source_rows([LEAF, replace(LEAF, device="leaf2", ended=True, reachable=False)], INVENTORY, NOW)
    assert [row.device for row in rows if row.state is SourceState.NO_COLLECTOR] == ["h1", "leaf2"]
    lines = list(blind_lines(rows, INVENTORY))
    assert any("kind switch (leaf2): add it to the targets" in line for line in lines)
    assert any("kind host (h1): run `railsight collect nic`" in line for line in lines)
    assert "no inventory is published" in next(blind_lines([], None))


def test_an_inventory_without_links_is_named_with_the_next_step() -> None:
    """As `railsight init` writes it; one with a link, or with a single device, needs none."""
    link = Link("h1", "nic0", "leaf1", "e1", "host-link")
    for inventory, is_named in ((INVENTORY, True), (replace(INVENTORY, links=(link,)), False)):
        assert any("railsight inventory draft" in line for line in blind_lines([], inventory)) is is_named
    assert not any("no links" in line for line in blind_lines([], replace(INVENTORY, devices=INVENTORY.devices[:1])))


def test_a_device_counts_as_blind_once_its_first_reading_is_due() -> None:
    """Collectors spread first readings over their cadence; a pipeline that reads everything is ready before."""
    some, none = source_rows([LEAF], INVENTORY, NOW), source_rows([], INVENTORY, NOW)
    assert [are_due(rows, INVENTORY, 20.0, 30.0) for rows in (some, none, [])] == [False, False, False]
    assert [are_due(rows, INVENTORY, 50.0, 30.0) for rows in (some, none, [])] == [True, True, True]
    one = replace(INVENTORY, devices=INVENTORY.devices[:1])
    assert are_due(source_rows([LEAF], one, NOW), one, 1.0, 30.0)
    assert not are_due(source_rows([LEAF], None, NOW), None, 1.0, 30.0)


def test_a_running_pipeline_prints_only_changes() -> None:
    """The first time everything, then new lines, and once more how much is read when a problem ends."""
    rows = source_rows([LEAF], INVENTORY, NOW)
    assert changes(None, ["a"], rows) == ["blind: a", "reading 1 of 3 sources; `railsight status` lists them"]
    assert changes(frozenset(["a"]), ["a"], rows) == []
    assert changes(frozenset(["a"]), ["a", "b"], rows)[0] == "blind: b"
    assert changes(frozenset(["a"]), [], rows) == ["reading 1 of 3 sources; `railsight status` lists them"]


def test_devices_with_lines_that_no_table_knows_are_named_worst_first_without_a_problem() -> None:
    """At most 16, the rest is counted. Of two collectors that may receive the same lines the higher count is shown."""
    syslog = replace(LEAF, source=Source.SOURCE_SYSLOG, collector="syslog@a")
    few = [replace(syslog, device=f"spine{n}", unknown_lines=n) for n in range(20)]
    both = [replace(syslog, unknown_lines=70), replace(syslog, collector="syslog@b", at_ns=NOW, unknown_lines=9)]
    for order in (both, both[::-1]):
        rows = source_rows([LEAF, *order, *few, replace(few[0], device="old", unknown_lines=99, ended=True)], None, NOW)
        assert unknown_devices(rows)[:2] == [("leaf1", 70), ("spine19", 19)]
        (line,) = unknown_lines(rows)
        assert line.startswith("no table knows syslog lines of 20 devices (leaf1: 70, spine19: 19, ")
        assert "spine5: 5 and 4 more): " in line and "spine4" not in line and "old" not in line
        assert not any(row.has_problem for row in rows)
    assert list(unknown_lines(source_rows([LEAF, few[0]], None, NOW))) == []


def test_status_without_a_problem_does_not_claim_that_nothing_is_read() -> None:
    """`status --problems` of a pipeline that reads everything has no row, as one that reads nothing."""
    assert no_rows_text(source_rows([LEAF], None, NOW)) == "sources: 1, none with a problem"
    assert "no collector has published a status" in no_rows_text([])
    assert waiting_text(12.4).startswith("waiting: the pipeline has run for 12 s, and the first readings")


def test_a_device_that_had_no_time_for_a_first_reading_is_waited_for() -> None:
    """Nothing shows yet that no collector reads it; what its collector reports is shown at once."""
    away = replace(LEAF, reachable=False, error="refused")
    read = source_rows([away], INVENTORY, NOW)
    assert awaited(read, 30.0) == read
    rows = awaited(read, 29.0)
    assert [(row.device, row.state) for row in rows] == [
        ("h1", SourceState.WAITING), ("leaf1", SourceState.UNREACHABLE), ("leaf2", SourceState.WAITING),
    ]  # fmt: skip
    assert all(row.has_problem for row in rows)
