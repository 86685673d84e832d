"""Tests targets that are added and removed while the collector runs, over real gRPC."""

import asyncio
import json
from pathlib import Path

from collectors.gnmi.params import Params
from streams.wire.models import Samples
from tests.integration.collectors.fabric import collecting, running


def write(path: Path, addresses: dict[str, str]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([{"name": name, "address": address} for name, address in addresses.items()]))
    fresh.replace(path)


async def test_a_changed_targets_file_changes_the_targets(tmp_path: Path) -> None:
    """One is added, one is removed, and the third keeps its connection; a broken file changes nothing."""
    path = tmp_path / "targets.json"
    async with running(cadence_s=0.5) as fabric:
        stays, goes, comes = list(fabric.face.addresses)[:3]
        address = fabric.face.addresses
        write(path, {stays: address[stays], goes: address[goes]})
        async with collecting(Params(targets_file=path, cadence_s=0.5)) as (retained, metrics):
            await retained.until(lambda: all(retained.of(Samples, name) for name in (stays, goes)))
            await asyncio.to_thread(path.write_text, "[{")
            await retained.until(lambda: metrics.value("reload_refused") == 1)
            write(path, {stays: address[stays], comes: address[comes]})
            await retained.until(lambda: bool(retained.of(Samples, comes)))
            gone, before = len(retained.of(Samples, goes)), len(retained.of(Samples, stays))
            await retained.until(lambda: len(retained.of(Samples, stays)) >= before + 3)
            assert len(retained.of(Samples, goes)) == gone
            assert metrics.value("reconnects", stays) == 0
            numbers = [samples.sequence for samples in retained.of(Samples, stays)]
            assert numbers == list(range(1, len(numbers) + 1))
