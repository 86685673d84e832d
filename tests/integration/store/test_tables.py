"""Tests that every persisted topic is stored as rows, and that the tables match the schemas in the code."""

import asyncio
import dataclasses
from datetime import UTC, datetime
from typing import Any

import numpy as np

from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.store.persist.persisted_topics import PERSISTED_TOPICS
from streams.store.rows import inventory_rows, symptom_rows, table_schemas
from streams.store.rows.native_format import NumericColumn, encode_block
from streams.store.rows.row_builder import TableSchema
from streams.store.rows.sample_layout import column_name, has_extremes, is_scalar
from streams.wire import models, topics
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import Endpoint, Finding, Message, Subject
from streams.wire.symptoms import PortChange, PortTransition
from streams.wire.topics import Record, Topic
from tests.integration.store.rig import NS, Database, Rig, producing, until

SUBJECT = Subject("link:h/p--s/q", Endpoint("h", "p"), Endpoint("s", "q"), "host-link", rail=3, pod="pod1")
FINDING = Finding(
    "finding-1",
    7,
    False,
    models.Condition.LINK_FLAP,
    models.Status.RESOLVED,
    models.Severity.WARNING,
    SUBJECT,
    NS,
    NS + 5,
    resolved_at_ns=NS + 9,
    summary="a port that flaps",
    evidence=(models.Evidence("went down 4 times"),),
    blast_radius=models.BlastRadius(("h",), ("train",), 8, 0.125),
)
INVENTORY = Inventory(
    devices=(Device(name="h", kind="host", tier="host", pod="pod1"), Device(name="s", kind="switch", tier="T0")),
    links=(Link(a_device="s", a_port="q", z_device="h", z_port="p", role="host-link", rail=3),),
    jobs=(Job(job="train", device="h", start=datetime(2026, 1, 1, tzinfo=UTC)),),
)
MESSAGES: tuple[tuple[Topic, Message], ...] = (
    (
        topics.EVENTS,
        models.Event("s", "q", models.EventKind.LINK_DOWN, NS, NS, models.Source.SOURCE_GNMI, "c", 5, 1, "down", 3),
    ),
    (
        topics.FACTS,
        models.Facts(
            "s",
            NS,
            models.Source.SOURCE_GNMI,
            components=(models.Component("q", "nic", alias=("a", "b"), limit={"x": 1.5}), models.Component("r")),
            neighbors=(models.Neighbor("q", "h", "p"),),
        ),
    ),
    (topics.COLLECTOR_STATUS, models.CollectorStatus("c", 5, models.Source.SOURCE_GNMI, "s", NS, True)),
    (topics.FINDINGS, FINDING),
    # The older revision is sent later, and twice.
    (topics.FINDINGS, dataclasses.replace(FINDING, revision=2, status=models.Status.OPEN, resolved_at_ns=None)),
    (topics.FINDINGS, dataclasses.replace(FINDING, revision=2, status=models.Status.OPEN, resolved_at_ns=None)),
    (topics.EPISODES, models.Episode(FINDING, (NS, NS + 1))),
    (
        topics.REMEDIATIONS,
        models.Remediation(
            "r",
            1,
            ("finding-1",),
            models.Action.DRAIN_LINK,
            models.Verdict.SHADOW,
            SUBJECT,
            cause=models.Cause.OPTIC,
            part_number="PN1",
            repair_step=models.RepairStep.REPLACE_CABLE,
            repair_outcome=models.RepairOutcome.RELAPSED,
            outcome_step=models.RepairStep.CLEAN_RESEAT,
        ),
    ),
    (topics.LEMONS, models.Lemon(models.LemonKind.PART, "PN1", 1, NS, 5, 2, 1, 5, 50, 20, 10_000, 50.0, 14.6)),
    (topics.REMEDIATION_RESULTS, models.RemediationResult("r", models.Outcome.DONE, NS, "robot")),
    (topics.CONTROLS, models.Control("k", models.ControlKind.ACKNOWLEDGE, "finding-1", NS)),
    (topics.PROGRESS, models.Progress("measure", 0, 1, models.IDLE_NS)),
    (topics.SYMPTOMS, models.Symptom("s", "q", PortTransition(PortChange.WENT_DOWN), NS)),
    (topics.JOBS, models.Job("train", "h", NS)),
    *((topics.INVENTORY, chunk) for chunk in to_chunks(INVENTORY, NS)),
)
EXPECTED = {
    "events": 1, "facts": 1, "collector_status": 1, "findings": 2, "findings_latest": 1, "episodes": 1,
    "remediations": 1, "remediations_latest": 1, "remediation_results": 1, "controls": 1, "progress": 1,
    "symptoms": 1, "jobs": 1, "inventory_devices": 2, "inventory_links": 1, "inventory_jobs": 1, "rejected": 2,
    "lemons": 1,
}  # fmt: skip


async def test_every_persisted_topic_is_stored_as_rows(rig: Rig, database: Database) -> None:
    """The input is a message of each topic, a finding's revision out of order and repeated, and two invalid records."""
    await rig.send_all(MESSAGES)
    async with producing(rig.kafka.bootstrap) as producer:
        await rig.send(producer, Record(topics.CONTROLS, b"k", b"{not json"))
        await rig.send(producer, Record(topics.SAMPLES, b"s", b"\xff\xffnot samples"))
    await rig.produce(rounds=1, devices=2, pause_s=0)
    database.start_sink()
    found: dict[str, int] = {}

    def complete() -> bool:
        found.update({table: database.count(table) for table in EXPECTED})
        return found == EXPECTED and database.count("samples") > 0

    assert await until(complete), found
    await asyncio.to_thread(_values, database)
    tables = {table for persisted in PERSISTED_TOPICS for table in persisted.tables}
    assert tables == {*EXPECTED, "samples", "sample_lanes", "samples_1m", "sample_lanes_1m", "sample_messages"} - {
        "findings_latest",
        "remediations_latest",
    }


def _values(database: Database) -> None:
    """Assert that the stored values are those of the messages."""
    sql = (
        "SELECT revision, status, detector, rail, plane, a_device, z_port, hosts, gpus, evidence,"
        " toUnixTimestamp64Nano(resolved_at), JSONExtractString(json, 'summary') FROM findings_latest"
    )
    assert database.rows(sql) == [
        (7, "resolved", "link/flap", 3, None, "h", "q", ["h"], 8, ["went down 4 times"], NS + 9, FINDING.summary)
    ]
    assert database.rows("SELECT `components.name`, `components.alias` FROM facts") == [(["q", "r"], [["a", "b"], []])]
    repair = "SELECT cause, part_number, repair_step, repair_outcome FROM remediations_latest"
    assert database.rows(repair) == [("optic", "PN1", "replace_cable", "relapsed")]
    score = "SELECT kind, subject_id, events, fleet_exposure, ratio_low, ratio_high FROM lemons"
    assert database.rows(score) == [("part", "PN1", 5, 10_000, 14.6, None)]
    assert database.rows("SELECT watermark FROM progress") == [(None,)]
    assert database.rows("SELECT topic, stage, value FROM rejected WHERE topic LIKE '%controls%'") == [
        ("railsight.controls.v1", "persist", "{not json")
    ]
    absent = "SELECT count() FROM samples WHERE (oper_up IS NULL) != (row = 'Ethernet0') OR rx_packets IS NOT NULL"
    assert database.rows(absent) == [(0,)]


def _stored_columns(database: Database) -> set[str]:
    sql = "SELECT DISTINCT column FROM system.parts_columns WHERE active AND table = 'samples' AND database = '{}'"
    return {str(column) for (column,) in database.rows(sql.format(database.name))}


def test_a_metric_without_values_takes_no_space(rig: Rig, database: Database) -> None:
    """A column without values in a part has no file, and is NULL after merges and a restart of the server."""
    for metric in ("rx_bytes", "tx_bytes"):
        database.client.command(
            f"INSERT INTO samples (device, row, sampled_at, {metric}, arrived_at) SELECT 'leaf', 'Ethernet1', now(),"
            " number, toStartOfDay(now()) FROM numbers(10)"
        )
    seen = "SELECT count(), sum(rx_bytes), count(tx_bytes), countIf(oper_up IS NULL), count(cnp_sent) FROM samples"
    assert database.rows(seen) == [(20, 45, 10, 20, 0)]
    database.client.command("OPTIMIZE TABLE samples FINAL")
    assert {"rx_bytes", "tx_bytes"} <= _stored_columns(database)
    assert not {"oper_up", "cnp_sent"} & _stored_columns(database)
    rig.clickhouse.kill()
    rig.clickhouse.start()
    assert database.rows(seen) == [(20, 45, 10, 20, 0)]


def test_narrowed_columns_are_stored_with_their_values(database: Database) -> None:
    """The server widens a counter's column to its own type, with and without a mask, up to the largest numbers."""
    count = 5000
    columns: list[NumericColumn] = [
        NumericColumn("kafka_offset", "Int64", np.arange(count)),
        NumericColumn("arrived_at", "DateTime64(3, 'UTC')", np.full(count, int(datetime.now(UTC).timestamp() * 1000))),
    ]
    wide = {"rx_bytes": 2**63, "tx_bytes": 2**32 - 1, "rx_packets": 65_535, "tx_packets": 255}
    for name, most in wide.items():
        values = np.full(count, most, np.uint64)
        values[0] = 0
        absent = np.arange(count) == 1 if name in ("rx_bytes", "tx_packets") else None
        columns.append(NumericColumn(name, "UInt64", values, absent))
    database.client.insert("samples", [column.name for column in columns], encode_block(columns), "narrow")
    for name, most in wide.items():
        nulls = int(name in ("rx_bytes", "tx_packets"))
        found = database.rows(
            f"SELECT countIf({name} = {most}), countIf({name} = 0), countIf({name} IS NULL) FROM samples"
        )
        assert found == [(count - 1 - nulls, 1, nulls)], name


def test_small_parts_are_merged_together(database: Database) -> None:
    """Small inserts are merged 32 at once, not a few at a time with the large part repeatedly."""
    for number in range(40):
        database.client.command(
            f"INSERT INTO collector_status (device, at, arrived_at) VALUES ('leaf', {number}, toStartOfDay(now()))"
        )
    sizes = database.rows(
        "SELECT rows FROM system.parts WHERE active AND table = 'collector_status'"
        f" AND database = '{database.name}' ORDER BY rows"
    )
    assert sum(int(rows) for (rows,) in sizes) == 40
    assert not [rows for (rows,) in sizes if 1 < int(rows) < 32], sizes


def _declared(database: Database, table: str) -> dict[str, str]:
    sql = f"SELECT name, type FROM system.columns WHERE database = '{database.name}' AND table = '{table}'"
    return {str(name): str(type_) for name, type_ in database.rows(sql)}


def test_the_tables_have_the_columns_of_the_schemas(database: Database) -> None:
    """Each schema has the columns of its table without the origin; the server need not convert any of them."""
    origin = {"kafka_partition", "kafka_offset", "arrived_at"}
    schemas = [schema for schema in vars(table_schemas).values() if isinstance(schema, TableSchema)]
    schemas += [schema for schema in vars(inventory_rows).values() if isinstance(schema, TableSchema)]
    schemas.append(symptom_rows.SYMPTOMS)
    assert len(schemas) == 16
    for schema in schemas:
        declared: dict[str, Any] = _declared(database, schema.table)
        assert {field.name: field.type for field in schema.columns} == {
            name: type_ for name, type_ in declared.items() if name not in origin
        }, schema.table


def test_extremes_are_stored_but_those_of_bools(database: Database) -> None:
    """A bool's are computed from its average."""
    for table in ("samples_1m", "samples_1h"):
        stored = {
            str(name): kind != "ALIAS"
            for name, kind in database.rows(
                "SELECT name, default_kind FROM system.columns"
                f" WHERE database = '{database.name}' AND table = '{table}'"
            )
        }
        for metric in Metric:
            if is_scalar(metric) and not metric.counter:
                found = {stored[f"{column_name(metric)}_{extreme}"] for extreme in ("min", "max")}
                assert found == {has_extremes(metric)}, metric
