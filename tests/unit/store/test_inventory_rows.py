"""Versions of the inventory as columns, compared with what the pipeline makes of them."""

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
OWN = Inventory(
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
    """The rows as dicts."""
    columns = {}
    for column in rows.columns:
        assert isinstance(column, ObjectColumn | NumericColumn)
        columns[column.name] = column.values if isinstance(column, ObjectColumn) else column.values.tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def added(builder: InventoryBuilder, own: Inventory, first: int = 0) -> int:
    """Give a builder all records of a version; answers the rows."""
    chunks = enumerate(to_chunks(own, NS), first)
    return sum(builder.add(SourcedMessage(0, offset, 1000 + offset, chunk)) for offset, chunk in chunks)


def test_links_are_those_of_the_topology() -> None:
    """The end nearer to the hosts first, the plane and the pod that the pipeline goes by."""
    builder = InventoryBuilder()
    assert added(builder, OWN) == 6
    tables = {rows.table: cells(rows) for rows in builder.finish()}
    wanted = [
        (cable.id, *cable.lower, *cable.upper, cable.role, cable.rail, cable.plane, cable.pod, cable.speed_bps)
        for cable in Topology(OWN).cables.values()
    ]
    names = ("id", "a_device", "a_port", "z_device", "z_port", "role", "rail", "plane", "pod", "speed_bps")
    assert [tuple(link[name] for name in names) for link in tables["inventory_links"]] == wanted
    assert [device["name"] for device in tables["inventory_devices"]] == ["host-1", "leaf-1", "leaf-2"]
    assert [(job["start"], job["end"]) for job in tables["inventory_jobs"]] == [(1_767_323_045_000_006_000, None)]


def test_a_version_makes_rows_once_and_a_table_without_rows_none() -> None:
    """The same digest and time again is the same version; two versions in a block have each its own record."""
    builder = InventoryBuilder()
    bare = dataclasses.replace(OWN, links=(), jobs=())
    assert (added(builder, OWN), added(builder, OWN, 1), added(builder, bare, 2)) == (6, 0, 3)
    tables = {rows.table: cells(rows) for rows in builder.finish()}
    assert [row["kafka_offset"] for row in tables["inventory_devices"]] == [0, 0, 0, 2, 2, 2]
    assert [row["kafka_offset"] for row in tables["inventory_links"]] == [0, 0]
    assert builder.finish() == []


def test_a_version_that_cannot_be_is_rejected() -> None:
    """A link of a device that is not there, and data that are not what the digest names."""
    with pytest.raises(Reject, match="nobody"):
        added(InventoryBuilder(), dataclasses.replace(OWN, links=(OWN.links[0]._replace(a_device="nobody"),)))
    chunk = dataclasses.replace(next(iter(to_chunks(OWN, NS))), digest="00")
    with pytest.raises(Reject, match="digest"):
        InventoryBuilder().add(SourcedMessage(0, 0, 0, chunk))
