"""Tests the evidence tables of a finding: samples and events around its windows, revisions and remediations."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streams.cli.main import main
from streams.fabric.catalogue import Metric
from streams.report.explanation import evidence_tables, table_lines
from streams.wire import topics
from streams.wire.models import (
    Action,
    Component,
    Condition,
    Endpoint,
    Event,
    EventKind,
    Evidence,
    Facts,
    Finding,
    Message,
    Remediation,
    RowKind,
    Samples,
    Severity,
    Source,
    Status,
    Subject,
    Table,
    Verdict,
)
from tests.integration.store.rig import NS, Database, Rig

S = 1_000_000_000
ROOT = Path(__file__).parents[3]
LINK = Subject("link:h/nic1--leaf/e1", Endpoint("h", "nic1"), Endpoint("leaf", "e1"))


def _reading(at_s: int) -> Samples:
    """Return a counter that grows by 7 per reading from 100 s on, and optical power of two lanes, under an alias."""
    lost = np.array([[1000 + 7 * max(0, (at_s - 100) // 10)]], np.uint64)
    light = np.array([[-2.5], [-9.0 if at_s >= 100 else -2.0]])
    at_ns = NS + at_s * S
    return Samples(
        "h", Source.SOURCE_NIC, "t", 77, at_s, at_ns, at_ns, 1, RowKind.ROW_KIND_PORT, ("mlx5_1",), 1,
        Table((Metric.RX_FCS_ERRORS,), (-1,), lost),
        Table((Metric.RX_POWER_DBM, Metric.RX_POWER_DBM), (0, 1), light),
    )  # fmt: skip


def _evidence(metric: str) -> Evidence:
    return Evidence("as counted", metric, Endpoint("h", "nic1"), 140, 5, "threshold", None, NS + 100 * S, NS + 300 * S)


FINDING = Finding(
    "f00d", 1, False, Condition.LINK_DEGRADING, Status.OPEN, Severity.WARNING, LINK, NS + 100 * S, NS + 150 * S,
    summary="h/nic1 loses frames", evidence=(_evidence("rx_fcs_errors"), _evidence("rx_power_dbm"), _evidence("xid")),
)  # fmt: skip
LATER = replace(
    FINDING, revision=2, status=Status.RESOLVED, observed_at_ns=NS + 300 * S, resolved_at_ns=NS + 300 * S, final=True
)
CHILD = replace(FINDING, id="c41d", parent_id="f00d")
REMEDIATION = Remediation(
    "r", 1, ("f00d",), Action.DRAIN_LINK, Verdict.DENIED, LINK, constraint="capacity", decided_at_ns=NS + 160 * S
)


@pytest.fixture(scope="module")
def stored(rig: Rig) -> Iterator[Database]:
    """Yield the tables with ten minutes of one port."""
    database = rig.database()
    messages: list[tuple[topics.Topic, Message]] = [(topics.SAMPLES, _reading(t)) for t in range(0, 601, 10)]
    messages += [(topics.FINDINGS, finding) for finding in (FINDING, LATER, CHILD)] + [
        (topics.REMEDIATIONS, REMEDIATION)
    ]
    name = Component("nic1", "nic", alias=("mlx5_1",))
    messages.append((topics.FACTS, Facts("h", NS, Source.SOURCE_NIC, components=(name,))))
    down = Event(
        "h", "nic1", EventKind.LINK_DOWN, NS + 120 * S, NS + 120 * S, Source.SOURCE_HOST, "t", 77, 1, "carrier"
    )
    messages.append((topics.EVENTS, down))
    counts = {"sample_messages": 61, "findings": 3, "remediations": 1, "facts": 1, "events": 1}
    asyncio.run(database.hold(messages, counts))
    yield database
    database.end()


def test_the_samples_of_a_window_are_shown_with_those_around_it(stored: Database) -> None:
    """Each metric with readings has a table, per lane and with the growth of counters; others have none."""
    found = evidence_tables(stored.client, FINDING)
    assert [one.metric for one in found] == ["rx_fcs_errors", "", "rx_power_dbm"]
    first = found[0].readings
    assert [(r.at_ns - NS) // S for r in first[:4]] == [70, 80, 90, 100]
    assert [(r.at_ns - NS) // S for r in first[-3:]] == [300, 310, 320]
    text = list(table_lines(found))
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    shown = text[: text.index("  rx_power_dbm[0] of h/nic1, read by nic (* in the window)")]
    assert "".join(f"  {line}\n" for line in shown) in page, "\n".join(text)
    assert "  rx_fcs_errors of h/nic1, read by nic (* in the window)" in text
    assert "  rx_power_dbm[1] of h/nic1, read by nic (* in the window)" in text
    assert any(line.endswith("* 1,007  +7") for line in text)
    assert any("… 11 more" in line for line in text)


@pytest.mark.parametrize("bootstrap", ["", "127.0.0.1:1"])
def test_the_command_prints_the_same_with_and_without_kafka(
    stored: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bootstrap: str
) -> None:
    """Evidence, samples, remediations and revisions come from Kafka, or from ClickHouse if Kafka is unavailable."""
    stored.configure(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main(["explain", "f00", "--bootstrap", bootstrap or stored.rig.kafka.bootstrap])
    printed = capsys.readouterr()
    assert ended.value.code in (0, None), printed.err
    for part in (
        "h/nic1 loses frames",
        "explains     link/degrading",
        "DRAIN_LINK DENIED: capacity",
        "rx_fcs_errors of h/nic1, read by nic (* in the window)",
        "RESOLVED  WARNING, final",
    ):
        assert part in printed.out, printed.out
    page = (ROOT / "docs/operating.md").read_text(encoding="utf-8")
    assert printed.out[printed.out.index("  time line\n") :] in page, printed.out
