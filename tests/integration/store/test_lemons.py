"""Tests lemon scores over what the sink stored, and their way over the topic back into ClickHouse."""

import asyncio
from dataclasses import replace

from streams.fabric.inventory_rows import Device, Inventory, Link
from streams.report.lemons.history import publish_lemons, query_lemons
from streams.report.lemons.score import is_lemon
from streams.runtime.topic_io import read_to_end
from streams.wire import topics
from streams.wire.inventory_topic import to_chunks
from streams.wire.models import (
    Action,
    Component,
    Condition,
    Endpoint,
    Facts,
    Finding,
    LemonKind,
    Message,
    Remediation,
    RepairOutcome,
    RepairStep,
    Severity,
    Source,
    Status,
    Subject,
    Verdict,
)
from tests.integration.store.rig import NS, Database, Rig, until

HOSTS = tuple(f"lemon-h{number}" for number in range(20))
LEAF = "lemon-leaf"
INVENTORY = Inventory(
    (Device(LEAF, "switch", "t0", "p"), *(Device(host, "host", "host", "p", gpus=8) for host in HOSTS)),
    tuple(Link(host, "e0", LEAF, f"d{number}", "host-link") for number, host in enumerate(HOSTS)),
)
_HOUR_NS = 3600 * 10**9


def link(number: int) -> Subject:
    host = HOSTS[number]
    return Subject(f"link:{host}/e0--{LEAF}/d{number}", Endpoint(host, "e0"), Endpoint(LEAF, f"d{number}"), "host-link")


def finding(number: int, identity: str, **changes: object) -> Finding:
    at_ns = NS + _HOUR_NS
    opened = Finding(
        identity, 1, True, Condition.LINK_FLAP, Status.RESOLVED, Severity.WARNING, link(number), at_ns, at_ns,
        at_ns + 1,
    )  # fmt: skip
    return replace(opened, **changes)  # type: ignore[arg-type]


def facts(at_ns: int, bad: int) -> Facts:
    """Return the modules of the leaf, of which the first `bad` have the part BAD."""
    modules = tuple(
        Component(
            f"module {number}", "transceiver", "BAD" if number < bad else "GOOD", firmware="1", alias=(f"d{number}",)
        )
        for number in range(len(HOSTS))
    )  # fmt: skip
    return Facts(LEAF, at_ns, Source.SOURCE_GNMI, components=modules)


def outcome(revision: int, result: RepairOutcome) -> Remediation:
    return Remediation(
        "lemon-r", revision, ("lemon-0",), Action.DRAIN_LINK, Verdict.APPROVED, link(0),
        decided_at_ns=NS + 2 * _HOUR_NS, repair_outcome=result, outcome_step=RepairStep.CLEAN_RESEAT,
    )  # fmt: skip


async def test_scores_of_what_is_stored_are_published_and_stored(rig: Rig, database: Database) -> None:
    """Children, retracted and informative findings count nothing; an outcome with two revisions counts once.

    The part of a fault is that of its time: link 0 had BAD, and has GOOD by the newest Facts.
    """
    sent: list[tuple[topics.Topic, Message]] = [(topics.INVENTORY, chunk) for chunk in to_chunks(INVENTORY, NS)]
    sent += [(topics.FACTS, facts(NS, 1)), (topics.FACTS, facts(NS + 3 * _HOUR_NS, 0))]
    findings = [finding(0, f"lemon-{number}") for number in range(6)]
    findings += [
        finding(1, "lemon-child", parent_id="lemon-0"),
        finding(2, "lemon-retracted", status=Status.RETRACTED),
        finding(3, "lemon-info", severity=Severity.INFO),
        finding(4, "lemon-late", started_at_ns=NS + 100 * _HOUR_NS),
        finding(5, "lemon-other"),
    ]
    sent += [(topics.FINDINGS, one) for one in findings]
    sent += [(topics.REMEDIATIONS, outcome(revision, RepairOutcome.RELAPSED)) for revision in (1, 2)]
    counts = {"findings": len(findings), "facts": 2, "remediations": 2, "inventory_links": len(HOSTS)}
    await database.hold(sent, counts)
    found = await asyncio.to_thread(query_lemons, database.client, NS, NS + 10 * _HOUR_NS)
    own = {lemon.subject_id: lemon for lemon in found if LEAF in lemon.subject_id or lemon.kind is LemonKind.PART}
    first = own[link(0).id]
    assert (first.findings, first.failed_repairs, first.relapses, first.events) == (6, 0, 1, 7)
    assert (first.fleet_events, first.fleet_exposure, is_lemon(first)) == (1, 19, True)
    assert {subject for subject in own if subject.startswith("link:")} == {link(0).id, link(5).id}
    assert (own["BAD"].events, own["BAD"].exposure, own["BAD"].fleet_exposure) == (1, 1, 19)
    assert own["BAD"].relapses == 1
    await publish_lemons(rig.settings, found)
    assert await until(lambda: database.count("lemons") == len(found))
    assert database.rows("SELECT relapses, fleet_exposure FROM lemons WHERE subject_id = 'BAD'") == [(1, 19)]
    await publish_lemons(rig.settings, [first])
    newest = {record.key: record.value async for record in read_to_end(rig.settings, topics.LEMONS)}
    assert [key for key, value in newest.items() if value is not None] == [f"link/{link(0).id}".encode()]
