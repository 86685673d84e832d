"""Tests that a backtest over ClickHouse equals one over the messages, and compares configurations."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.config.settings import Settings
from streams.fabric.inventory_folder import write_folder
from streams.replay.backtest import run_history
from streams.replay.score import read_findings
from streams.report import render_backtest
from streams.wire import topics
from streams.wire.models import CollectorStatus, Finding, Samples, Severity
from tests.integration.store.rig import Database, Rig
from tests.worlds.observations import at
from tests.worlds.small_fabric import inventory
from tests.worlds.small_world import SmallWorld, findings, play, statuses

ROOT = Path(__file__).parents[3]
ROUNDS_S = 600
WORLD = SmallWorld(down={"p1-l0/d1": [(100, 200)], "p2-l1/u0": [(300, 1e9)]})


def _messages() -> list[Samples | CollectorStatus]:
    return [*WORLD.rounds(ROUNDS_S), *statuses(WORLD, ROUNDS_S)]


@pytest.fixture(scope="module")
def stored(rig: Rig) -> Iterator[Database]:
    """Yield the tables with ten minutes of the small fabric."""
    database, messages = rig.database(), _messages()
    counts = {
        "sample_messages": sum(isinstance(m, Samples) for m in messages),
        "collector_status": sum(isinstance(m, CollectorStatus) for m in messages),
    }
    sent = ((topics.SAMPLES if isinstance(m, Samples) else topics.COLLECTOR_STATUS, m) for m in messages)
    asyncio.run(database.hold(sent, counts))
    yield database
    database.end()


def _settings(database: Database, **detect: object) -> Settings:
    return Settings.model_validate({"store": database.client.params.model_dump(), "detect": detect})


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.id, finding.subject.id, finding.started_at_ns, finding.resolved_at_ns, finding.severity


def test_a_backtest_of_history_equals_one_of_the_messages(stored: Database, tmp_path: Path) -> None:
    """The same stages give the same findings with the same ids."""
    write_folder(inventory(), tmp_path / "inventory")
    out = tmp_path / "found.jsonl"
    messages = _messages()
    summary = run_history(at(0), at(ROUNDS_S) + 1, tmp_path / "inventory", _settings(stored), out)
    assert summary.messages == len(messages)
    expected = findings(play(messages))
    assert len(expected) >= 2
    assert [_identity(f) for f in findings(read_findings(out))] == [_identity(f) for f in expected]


def test_another_configuration_is_compared_over_the_same_history(stored: Database, tmp_path: Path) -> None:
    """With a longer wait for a link down, the short finding disappears and the long one is detected later."""
    write_folder(inventory(), tmp_path / "inventory")
    slow = _settings(stored, down={"open_after_s": 150})
    out = tmp_path / "found.jsonl"
    summary = run_history(at(0), at(ROUNDS_S) + 1, tmp_path / "inventory", slow, out, _settings(stored))
    differences = summary.differences
    assert differences is not None
    assert [f.subject.id for f in differences.disappeared] == ["link:p1-h1/e0--p1-l0/d1"]
    assert differences.appeared == ()
    (changed,) = differences.changed
    assert changed.fields["detected after"] == ("30s", "150s")
    text = "\n".join(render_backtest.difference_lines(differences))
    assert f"```text\n{text}\n```" in (ROOT / "docs/recordings.md").read_text(encoding="utf-8"), text
    assert all(f.severity >= Severity.INFO for f in read_findings(out))
