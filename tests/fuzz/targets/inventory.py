"""The inventory: as one packed version on its topic, and as tables of a folder."""

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import orjson

from streams.fabric.inventory import TABLES, decompressed, pack, validate
from streams.fabric.inventory_rows import Link, coded_columns
from streams.wire import codec
from streams.wire.errors import Reject
from streams.wire.inventory_topic import Assembler, to_chunks, topology_of
from streams.wire.models import InventoryChunk
from tests.fuzz.target import Target, framed, frames, scratch_folder
from tests.worlds.small_fabric import inventory


def _parse_packed(data: bytes) -> None:
    """Read a version with a right digest, so that the digest does not protect the parser."""
    try:
        digest = hashlib.sha256(decompressed(data)).hexdigest()
    except ValueError as error:
        raise Reject(str(error)) from error
    topology_of(digest, data)


def _parse_json(data: bytes) -> None:
    """Read the same from its JSON, which a fuzzer changes with more effect than what is compressed."""
    import cramjam

    topology_of(hashlib.sha256(data).hexdigest(), bytes(cramjam.zstd.compress(data)))


def _packed() -> bytes:
    return pack(inventory())[1]


def _coded_json() -> bytes:
    """Return the JSON with the distinct values and the codes of each column of the links, as of many links."""
    tables = orjson.loads(decompressed(_packed()))
    for name, (values, codes) in zip(Link._fields, coded_columns(inventory().links), strict=True):
        tables["links"][name] = {"values": values, "codes": base64.b64encode(codes.tobytes()).decode()}
    return orjson.dumps(tables)


def _parse_chunks(data: bytes) -> None:
    assembler = Assembler(1 << 16)
    for record in frames(data):
        try:
            assembler.add(codec.from_bytes(InventoryChunk, record))
        except Reject:
            continue


@cache
def _folder() -> Path:
    return scratch_folder("inventory")


def _parse_csv(data: bytes) -> None:
    """Read a folder of tables; every problem is one line of the report."""
    folder = _folder()
    for table, content in zip(TABLES, [*frames(data), b"", b"", b"", b""], strict=False):
        (folder / f"{table}.csv").write_bytes(content)
    report = validate(folder, 1_764_000_000 * 10**9)
    [str(problem) for problem in report.problems]


def _csv_seeds() -> Iterator[bytes]:
    from streams.fabric.inventory import write_folder

    folder = _folder()
    write_folder(inventory(), folder)
    yield framed(*((folder / f"{table}.csv").read_bytes() if (folder / f"{table}.csv").exists() else b"" for table in TABLES))  # fmt: skip


TARGETS = (
    # Its JSON, of at most 128 MiB, is decompressed for the digest and for the tables.
    Target("inventory-packed", _parse_packed, (Reject,), lambda: (_packed(),), max_growth_bytes=400 << 20),
    Target("inventory-json", _parse_json, (Reject,), lambda: (decompressed(_packed()), _coded_json())),
    Target(
        "inventory-chunks",
        _parse_chunks,
        (),
        lambda: (framed(*(codec.to_bytes(chunk) for chunk in to_chunks(inventory(), 7))),),
    ),
    Target("inventory-tables", _parse_csv, (), _csv_seeds),
)
