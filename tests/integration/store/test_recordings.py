"""`railsight export` and `record` write what ClickHouse holds as a recording, which a backtest reads."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from streams.fabric.inventory import digest
from streams.fabric.inventory_folder import read_folder
from streams.replay.recording import RejectedRows, stream_samples
from streams.runtime.topic_io import inventory_records, publish
from streams.wire import topics
from streams.wire.models import Samples
from tests.integration.runtime.commands import railsight
from tests.integration.store.rig import Database, Rig
from tests.worlds.observations import at
from tests.worlds.small_fabric import inventory
from tests.worlds.small_world import SmallWorld

WORLD_S = 60
MESSAGES = [message for message in SmallWorld(down={}).rounds(WORLD_S) if isinstance(message, Samples)]


@pytest.fixture(scope="module")
def config(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the configuration of a pipeline that stored a minute of the small fabric."""
    database: Database = rig.database()
    asyncio.run(publish(rig.settings, inventory_records(inventory(), at(0))))
    asyncio.run(database.hold(((topics.SAMPLES, one) for one in MESSAGES), {"sample_messages": len(MESSAGES)}))
    store, path = database.client.params, tmp_path_factory.mktemp("recordings") / "railsight.toml"
    password = path.with_name("password")
    password.write_text(store.secret())
    path.write_text(
        f'[kafka]\nbootstrap = "{rig.kafka.bootstrap}"\ntelemetry_partitions = 4\npod_partitions = 2\n'
        f'[store]\nurl = "{store.url}"\nuser = "{store.user}"\ndatabase = "{store.database}"\n'
        f'password_file = "{password}"\n'
    )
    yield path
    database.end()


def time_of(second: float) -> str:
    return datetime.fromtimestamp(at(second) / 1e9, UTC).isoformat().replace("+00:00", "+0000")


def test_an_export_has_the_samples_of_its_time_and_the_inventory(config: Path, tmp_path: Path) -> None:
    """All rows of the messages in [from, to), the inventory in effect; the folder is not written twice."""
    out = tmp_path / "recording"
    done = railsight("export", str(out), "--from", time_of(0), "--to", time_of(WORLD_S + 1), "--config", str(config))
    assert done.returncode == 0, done.stderr
    rejected = RejectedRows()
    written = list(stream_samples([out / "samples.csv.gz"], rejected))
    assert not list(rejected.lines())
    assert {(one.device, one.sampled_at_ns) for one in written} == {(one.device, one.sampled_at_ns) for one in MESSAGES}
    assert digest(read_folder(out / "inventory")) == digest(inventory())
    again = railsight("export", str(out), "--from", time_of(0), "--config", str(config))
    assert again.returncode == 2 and "has a recording; choose another folder" in again.stderr


def test_a_record_of_a_time_without_samples_is_an_error(config: Path, tmp_path: Path) -> None:
    """It waits for its duration, writes an empty recording, and names the next step; exit code 1."""
    done = railsight("record", str(tmp_path / "recording"), "--seconds", "1", "--config", str(config))
    assert done.returncode == 1
    assert "ClickHouse has no samples of that time; `railsight status` lists what is read" in done.stderr
