"""Tests inventory versions as columns, compared with the topology that the pipeline builds from them."""

import dataclasses
from datetime import UTC, datetime

import pytest

from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.fabric.topology import Topology
from streams.store.rows.inventory_rows import InventoryBuilder
from streams.store.rows.native_format import NumericColumn, ObjectColumn
from streams.store.rows.row_builder import SourcedMessage, TableRows
from streams.wire.errors import Reject
from streams.wire.inventory_topic import to_chunks

NS = 1_750_000_000_000_000_000
INVENTORY = Inventory(
    devices=(
        Device(name="host-1", kind="host", tier="host", pod="pod-1", gpus=8),
        Device(name="leaf-1", kind="switch", tier="leaf", plane=3),
        Device(name="leaf-2", kind="switch", tier="leaf", pod="pod-2"),
    ),
    links=(
        Link(a_device="leaf-1", a_port="q1", z_device="host-1", z_port="mlx5_0", role="host-link", rail=1),
        Link(
            a_device="leaf-2",
            a_port="q9",
            z_device="leaf-1",
            z_port="q2",
            role="fabric-link",
            plane=1,
            speed_bps=400_000_000_000,
        ),
    ),
    jobs=(Job(job="train", device="host-1", start=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),),
)


def cells(rows: TableRows) -> list[dict[str, object]]:
    columns = {}
    for column in rows.columns:
        assert isinstance(column, ObjectColumn | NumericColumn)
        columns[column.name] = column.values if isinstance(column, ObjectColumn) else column.values.tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def add_version(builder: InventoryBuilder, inventory: Inventory, first: int = 0) -> int:
    """Add all records of a version; return the number of rows."""
    chunks = enumerate(to_chunks(inventory, NS), first)
    return sum(builder.add(SourcedMessage(0, offset, 1000 + offset, chunk)) for offset, chunk in chunks)


def test_links_are_those_of_the_topology() -> None:
    """The endpoint nearer to the hosts is first; plane and pod are those that the pipeline uses."""
    builder = InventoryBuilder()
    assert add_version(builder, INVENTORY) == 6
    tables = {rows.table: cells(rows) for rows in builder.finish()}
    expected = [
        (cable.id, *cable.lower, *cable.upper, cable.role, cable.rail, cable.plane, cable.pod, cable.speed_bps)
        for cable in Topology(INVENTORY).links.values()
    ]
    names = ("id", "a_device", "a_port", "z_device", "z_port", "role", "rail", "plane", "pod", "speed_bps")
    assert [tuple(link[name] for name in names) for link in tables["inventory_links"]] == expected
    assert [device["name"] for device in tables["inventory_devices"]] == ["host-1", "leaf-1", "leaf-2"]
    assert [(job["start"], job["end"]) for job in tables["inventory_jobs"]] == [(1_767_323_045_000_006_000, None)]


def test_a_version_makes_rows_once_and_a_table_without_rows_none() -> None:
    """The same digest and time are the same version; two versions in a block have each the origin of its own record."""
    builder = InventoryBuilder()
    bare = dataclasses.replace(INVENTORY, links=(), jobs=())
    assert (add_version(builder, INVENTORY), add_version(builder, INVENTORY, 1), add_version(builder, bare, 2)) == (
        6,
        0,
        3,
    )
    tables = {rows.table: cells(rows) for rows in builder.finish()}
    assert [row["kafka_offset"] for row in tables["inventory_devices"]] == [0, 0, 0, 2, 2, 2]
    assert [row["kafka_offset"] for row in tables["inventory_links"]] == [0, 0]
    assert builder.finish() == []


def test_an_invalid_version_is_rejected() -> None:
    """A link names a missing device, or the digest does not match the data."""
    with pytest.raises(Reject, match="missing"):
        add_version(
            InventoryBuilder(), dataclasses.replace(INVENTORY, links=(INVENTORY.links[0]._replace(a_device="missing"),))
        )
    chunk = dataclasses.replace(next(iter(to_chunks(INVENTORY, NS))), digest="00")
    with pytest.raises(Reject, match="digest"):
        InventoryBuilder().add(SourcedMessage(0, 0, 0, chunk))
