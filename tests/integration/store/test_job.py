"""Tests the verdict on a job: from messages in Kafka and ClickHouse to the command's output and exit code."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from streams.cli.main import main
from streams.detect.detectors.telemetry_stale import StaleParams
from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Device, Inventory, Job, Link
from streams.report.job import MIN_COVERAGE
from streams.report.job.render_verdict import verdict_lines
from streams.report.job.verdict import Verdict, job_verdict
from streams.wire import topics
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import (
    BlastRadius,
    Condition,
    Endpoint,
    Event,
    EventKind,
    Evidence,
    Finding,
    Message,
    RowKind,
    Samples,
    Severity,
    Source,
    Status,
    Subject,
    Table,
)
from streams.wire.topics import Topic
from tests.integration.store.rig import Database, Rig

S = 1_000_000_000
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[3]
T0 = int(BEGIN.timestamp()) * S
INVENTORY = Inventory(
    devices=(
        *(Device(name=f"h{n}", kind="host", tier="host", pod="p1", gpus=8) for n in range(3)),
        Device(name="leaf", kind="switch", tier="T0", pod="p1"),
    ),
    links=tuple(
        Link(a_device=f"h{n}", a_port=f"nic{r}", z_device="leaf", z_port=f"e{n}-{r}", role="host-link", rail=r)
        for n in range(3)
        for r in range(2)
    ),
    jobs=(
        Job(job="train", device="h0", start=BEGIN),
        Job(job="train", device="h1", start=BEGIN),
        Job(job="other", device="h2", start=BEGIN),
    ),
)


def _reading(device: str, source: Source, at_s: float, rows: tuple[str, ...]) -> Samples:
    at_ns = T0 + round(at_s * S)
    return Samples(
        device, source, "t", 1, round(at_s), at_ns, at_ns, 1, RowKind.ROW_KIND_PORT, rows, 1,
        Table((Metric.RX_BYTES,), (-1,), np.full((1, len(rows)), round(at_s), np.uint64)),
        Table((Metric.OPER_UP,), (-1,), np.ones((1, len(rows)))),
    )  # fmt: skip


def _finding(identity: str, host: str, begin: float, end: float, **fields: object) -> Finding:
    subject = Subject(f"link:{host}/nic1--leaf/e{host[1]}-1", Endpoint(host, "nic1"), Endpoint("leaf", f"e{host[1]}-1"))
    job = "other" if host == "h2" else "train"
    plain = Finding(
        identity, 1, True, Condition.LINK_FLAP, Status.RESOLVED, Severity.WARNING, subject, T0 + round(begin * S),
        T0 + round(end * S), T0 + round(end * S), T0 + round(begin * S), f"{host}/nic1 keeps coming back",
        evidence=(Evidence("went down 4 times"),), blast_radius=BlastRadius((host,), (job,), 8, 0.5),
    )  # fmt: skip
    return replace(plain, **fields)  # type: ignore[arg-type]


def _messages() -> list[tuple[Topic, Message]]:
    """Return ten minutes of messages: h0 is read at both ends all the time, h1 is not read from 200 to 300 s."""
    messages: list[tuple[Topic, Message]] = []
    for t in range(0, 601, 10):
        messages.append((topics.SAMPLES, _reading("h0", Source.SOURCE_NIC, t, ("nic0", "nic1"))))
        messages.append((topics.SAMPLES, _reading("leaf", Source.SOURCE_GNMI, t, ("e0-0", "e0-1"))))
        if not 200 < t < 300:
            messages.append((topics.SAMPLES, _reading("h1", Source.SOURCE_NIC, t, ("nic0", "nic1"))))
    nccl = Event(
        "h2", "nic1", EventKind.NCCL, T0 + 300 * S, T0 + 300 * S, Source.SOURCE_HOST, "t", 1, 1, "status=12", 12
    )
    messages += [
        (topics.EVENTS, nccl),
        (topics.FINDINGS, _finding("worse", "h1", 350, 400, severity=Severity.CRITICAL)),
        (topics.FINDINGS, _finding("bad", "h0", 100, 150)),
        (topics.FINDINGS, _finding("child", "h0", 100, 140, parent_id="bad")),
        (topics.FINDINGS, _finding("elsewhere", "h2", 100, 150)),
        (topics.FINDINGS, _finding("before", "h0", -500, -400)),
        (topics.FINDINGS, _finding("untrue", "h0", 100, 150, status=Status.RETRACTED)),
        (
            topics.FINDINGS,
            _finding("silent", "h1", 200, 300, condition=Condition.TELEMETRY_STALE, summary="h1 is silent"),
        ),
    ]
    return messages


@pytest.fixture(scope="module")
def stored(rig: Rig) -> Iterator[Database]:
    """Yield the tables with these messages."""
    database = rig.database()
    counts = {"sample_messages": 61 + 61 + 52, "findings": 7, "events": 1, "inventory_jobs": 3}
    chunks = [(topics.INVENTORY, chunk) for chunk in to_chunks(INVENTORY, T0)]
    asyncio.run(database.hold([*chunks, *_messages()], counts))
    yield database
    database.end()


def _verdict(
    database: Database, job: str, begin_s: float, end_s: float, silent: StaleParams | None = None
) -> Verdict | None:
    interval = T0 + round(begin_s * S), T0 + round(end_s * S)
    return job_verdict(database.client, silent or StaleParams(), job, interval, MIN_COVERAGE)


def test_a_verdict_has_impacts_coverage_and_gaps(stored: Database) -> None:
    """The worst impact is first, children are below parents, findings of others are absent; gaps are named."""
    verdict = _verdict(stored, "train", 0, 600)
    assert verdict is not None
    assert [(harm.finding.id, harm.hosts) for harm in verdict.impacts] == [("worse", ("h1",)), ("bad", ("h0",))]
    assert [child.finding.id for child in verdict.impacts[1].children] == ["child"]
    assert [finding.id for finding in verdict.stale] == ["silent"]
    assert not verdict.is_clean
    seen = {(port.link.lower, port.link.lower_port): port for port in verdict.coverage.ports}
    assert len(seen) == 4
    assert seen["h0", "nic0"].share == 1.0
    assert [(by.source, by.device) for by in seen["h0", "nic0"].sources] == [("nic", "h0"), ("gnmi", "leaf")]
    assert seen["h1", "nic1"].gaps == ((T0 + 200 * S, T0 + 300 * S),)
    assert seen["h1", "nic1"].share == pytest.approx(5 / 6)
    assert not verdict.is_covered
    text = "\n".join(verdict_lines(verdict))
    assert f"```text\n{text}\n```" in (ROOT / "docs/operating.md").read_text(encoding="utf-8"), text
    for part in ("NOT CLEAN (network): 2 findings", "CRITICAL  link/flap", "for 50s", "h1 nic0 (rail 0)",
                 "no reading 2026-03-01 00:03:20Z for 1m40s", "nic at the host: 4 ports"):  # fmt: skip
        assert part in text, f"{part}\n{text}"


@pytest.mark.parametrize("silent", [StaleParams(cadences=10), StaleParams(at_least_s=100)])
def test_the_limit_of_silence_is_that_of_telemetry_stale(stored: Database, silent: StaleParams) -> None:
    """For sources read each ten seconds, a pause of 100 s is no gap where the settings allow it."""
    verdict = _verdict(stored, "train", 0, 600, silent)
    assert verdict is not None
    assert [port.gaps for port in verdict.coverage.ports] == [()] * 4


def test_an_interval_without_readings_is_unknown(stored: Database) -> None:
    """Without findings and without readings, the verdict is unknown."""
    verdict = _verdict(stored, "other", 200, 600)
    assert verdict is not None
    assert (verdict.is_clean, verdict.is_covered, verdict.coverage.share) == (True, False, 0.0)
    assert "NOT KNOWN" in "\n".join(verdict_lines(verdict))
    assert [(one.host, one.rail, one.code) for one in verdict.witness_reports] == [("h2", 1, 12)]
    assert verdict.as_dict()["coverage"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("train", "--from", "2026-03-01T00:07:30Z", "--to", "2026-03-01T00:10:00Z"),
            0,
            "CLEAN, as far as observed: 100 %",
        ),
        (("train", "--to", "2026-03-01T00:10:00Z", "--json"), 1, '"clean":false'),
        (("other", "--from", "2026-03-01T00:03:20Z", "--to", "2026-03-01T00:10:00"), 1, "NOT KNOWN"),
        (("absent",), 1, "has no job absent"),
        (("train", "--from", "2026-03-02", "--to", "2026-03-01"), 2, "--to must be later"),
    ],
)
def test_the_command_exits_with_0_only_for_a_clean_covered_interval(
    stored: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    message: str,
) -> None:
    """The exit code is 1 for impacts or missing coverage, and 2 for invalid arguments."""
    stored.configure(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main(["job", *arguments])
    assert int(ended.value.code or 0) == code
    printed = capsys.readouterr()
    assert message in printed.out + printed.err
