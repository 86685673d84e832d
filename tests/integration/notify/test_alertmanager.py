"""Tests our alerts with Debian's Alertmanager and the shipped configuration."""

import asyncio
import time
from dataclasses import replace

import pytest

from streams.notify.alert import Alert
from streams.notify.alertmanager import Alertmanager
from streams.notify.notifier import Notifier
from streams.notify.params import NotifyParams
from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.models import BlastRadius, Endpoint, Finding, Severity, Status, Subject
from tests.fixtures.notify_examples import finding
from tests.fixtures.ports import free_port
from tests.integration.notify.conftest import Receivers, Server, until

pytestmark = pytest.mark.peer("prometheus-alertmanager")

HOLD_S = 0.5
SECOND = 1_000_000_000


def params_for(server: Server) -> NotifyParams:
    return NotifyParams(cluster="test", alertmanagers=(server.url,), hold_s=HOLD_S)


def now_finding(**changes: object) -> Finding:
    started = time.time_ns() - 40_000_000_000
    return finding(**{"started_at_ns": started, "observed_at_ns": started, **changes})


async def post_due(notifier: Notifier, client: Alertmanager, for_s: float = 0) -> None:
    """Post the due alerts, repeatedly for this time."""
    give_up = time.monotonic() + for_s
    while True:
        now_ns = time.time_ns()
        due = notifier.due(now_ns)
        await client.post(due)
        notifier.posted(due, now_ns)
        if time.monotonic() >= give_up:
            return
        await asyncio.sleep(0.05)


async def test_one_cause_pages_once_and_is_resolved_once(alertmanager: Server, receivers: Receivers) -> None:
    """A finding opens, is held, updated and resolved, with children: the pager gets two notifications of one alert."""
    params = params_for(alertmanager)
    notifier = Notifier(params)
    opened = now_finding()
    async with Alertmanager(params) as client:
        notifier.process(opened, time.time_ns())
        for i in range(4):
            child = now_finding(id=f"c{i}", parent_id="f1", subject=Subject(f"link:{i}", pod="pod-1"))
            notifier.process(child, time.time_ns())
        await post_due(notifier, client, HOLD_S + 0.3)
        await until(lambda: receivers.to("on-call"))
        notifier.process(now_finding(revision=2, status=Status.UPDATED, summary="still down"), time.time_ns())
        await post_due(notifier, client, 2)  # a group interval passes, in which a repetition would arrive
        assert [len(notification["alerts"]) for notification in receivers.to("on-call", "firing")] == [1]
        notifier.process(now_finding(revision=3, status=Status.RESOLVED, resolved_at_ns=time.time_ns()), time.time_ns())
        await post_due(notifier, client)
        await until(lambda: receivers.to("on-call", "resolved"))
    assert [notification["status"] for notification in receivers.to("on-call")] == ["firing", "resolved"]
    (page,) = receivers.to("on-call", "firing")
    assert page["groupLabels"] == {"cluster": "test", "finding_id": "f1", "kind": "page", "alertname": "LinkDown"}
    assert page["alerts"][0]["labels"]["page"] == "true"
    assert page["alerts"][0]["annotations"]["summary"] == "host-1 rail 4 has no link"


@pytest.mark.parametrize("is_first", [True, False], ids=["the cause opens first", "its children open first"])
async def test_a_cause_is_notified_once_without_its_children(
    alertmanager: Server, receivers: Receivers, is_first: bool
) -> None:
    """Children are inhibited while their cause is active; the wait of the NOC's group covers the time until then."""
    params = params_for(alertmanager)
    notifier = Notifier(params)

    def process(number: int, parent: str, revision: int = 1) -> None:
        child = now_finding(id=f"c{number}", revision=revision, parent_id=parent, subject=Subject(f"link:{number}"))
        notifier.process(child, time.time_ns())

    async with Alertmanager(params) as client:
        if not is_first:
            for number in range(8):
                process(number, "")
            await post_due(notifier, client)
        notifier.process(now_finding(subject=Subject("device:leaf-2")), time.time_ns())
        if is_first:
            # Alertmanager processes the alerts of a post one by one; the test's short group_wait may end in between.
            await post_due(notifier, client)
            await until(lambda: receivers.to("noc"))
        for number in range(8):
            process(number, "f1", 2)
        await post_due(notifier, client, 2)
        assert len(await client.active_alerts()) == 18
    for receiver in ("noc", "on-call"):
        assert [alert["labels"]["finding_id"] for n in receivers.to(receiver) for alert in n["alerts"]] == ["f1"]
    assert not receivers.to("none", "resolved")


async def test_on_call_is_notified_again_when_the_extent_doubles(alertmanager: Server, receivers: Receivers) -> None:
    """Another message of the same group, which is the same incident, has the new extent; other changes are none."""
    params = params_for(alertmanager)
    notifier = Notifier(params)
    async with Alertmanager(params) as client:
        notifier.process(now_finding(blast_radius=BlastRadius(("h1",), ("j1",))), time.time_ns())
        await post_due(notifier, client, HOLD_S + 0.3)
        await until(lambda: receivers.to("on-call"))
        for revision, hosts in ((2, ("h1",)), (3, ("h1", "h2", "h3"))):
            changed = now_finding(revision=revision, summary=f"{revision}", blast_radius=BlastRadius(hosts, ("j1",)))
            notifier.process(changed, time.time_ns())
            await post_due(notifier, client, 2)
        await until(lambda: len(receivers.to("on-call")) > 1)
        notifier.process(now_finding(revision=4, status=Status.RESOLVED, resolved_at_ns=time.time_ns()), time.time_ns())
        await post_due(notifier, client)
        await until(lambda: receivers.to("on-call", "resolved"))
    assert [one["status"] for one in receivers.to("on-call")] == ["firing", "firing", "resolved"]
    first, second = receivers.to("on-call", "firing")
    assert first["groupKey"] == second["groupKey"]
    assert "hosts h1, h2, h3" in second["commonAnnotations"]["page"]


async def test_a_change_of_severity_ends_the_page_and_repeats_nothing_else(
    alertmanager: Server, receivers: Receivers
) -> None:
    """No message has the finding twice, firing and resolved: the NOC sees it once, on-call sees the page's end."""
    params = params_for(alertmanager)
    notifier = Notifier(params)
    async with Alertmanager(params) as client:
        notifier.process(now_finding(), time.time_ns())
        await post_due(notifier, client, HOLD_S + 0.2)
        await until(lambda: receivers.to("on-call") and receivers.to("noc"))
        assert sorted(a.labels["kind"] for a in await client.active_alerts()) == ["finding", "page"]
        notifier.process(now_finding(revision=2, severity=Severity.WARNING), time.time_ns())
        await post_due(notifier, client, 2)
        (left,) = await client.active_alerts()
        assert (left.labels["kind"], left.annotations["severity"]) == ("finding", "warning")
    assert [notification["status"] for notification in receivers.to("on-call")] == ["firing", "resolved"]
    assert [notification["status"] for notification in receivers.to("noc")] == ["firing"]
    assert all(len(notification["alerts"]) == 1 for _, notification in receivers.received)


async def test_an_invalid_alert_is_rejected_and_the_valid_ones_are_accepted(alertmanager: Server) -> None:
    """A label name that Alertmanager refuses raises Reject with its message."""
    params = params_for(alertmanager)
    notifier = Notifier(params)
    notifier.process(now_finding(), time.time_ns())
    good = notifier.due(time.time_ns())
    bad = Alert({"not a name": "x"}, {}, good[0].starts_at_ns, good[0].ends_at_ns)
    async with Alertmanager(params) as client:
        with pytest.raises(Reject, match="400"):
            await client.post([bad, *good])
        assert [a.labels["finding_id"] for a in await client.active_alerts()] == ["f1"]


async def test_one_member_of_a_cluster_is_enough(alertmanager: Server) -> None:
    """An unavailable member delays nothing; if all are unavailable, Retry is raised."""
    unavailable = f"http://127.0.0.1:{free_port()}"
    params = params_for(alertmanager).model_copy(update={"alertmanagers": (unavailable, alertmanager.url)})
    notifier = Notifier(params)
    now_ns = time.time_ns()
    notifier.process(now_finding(), now_ns)
    async with Alertmanager(params) as client:
        await client.post(notifier.due(now_ns))
        assert len(await client.active_alerts()) == 1
    async with Alertmanager(params.model_copy(update={"alertmanagers": (unavailable,)})) as client:
        with pytest.raises(Retry):
            await client.active_alerts()


async def test_an_address_that_is_no_alertmanager_is_misconfigured(alertmanager: Server) -> None:
    """A wrong path is not retried."""
    params = params_for(alertmanager).model_copy(update={"alertmanagers": (f"{alertmanager.url}/elsewhere",)})
    async with Alertmanager(params) as client:
        with pytest.raises(Misconfigured, match="404"):
            await client.active_alerts()


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "unreachable"])
async def test_an_hour_without_alertmanager_loses_and_doubles_nothing(
    alertmanager: Server, receivers: Receivers, is_stopped: bool
) -> None:
    """The notifier's clock begins an hour ago and no post succeeds until now; then each change is seen once."""
    params = NotifyParams(cluster="test", alertmanagers=(alertmanager.url,))
    notifier = Notifier(params)
    began_ns = time.time_ns() - 3600 * SECOND

    def change(minute: int, identity: str, revision: int = 1, status: Status = Status.OPEN) -> None:
        at_ns = began_ns + minute * 60 * SECOND
        resolved_ns = at_ns if status is Status.RESOLVED else None
        own = finding(id=identity, subject=Subject(f"device:{identity}", Endpoint(identity)), started_at_ns=at_ns)
        one = replace(own, revision=revision, status=status, resolved_at_ns=resolved_ns)
        notifier.process(one, at_ns)

    async with Alertmanager(params) as client:
        for identity in ("stays", "ends"):
            change(0, identity)
        for second in (1, 20):
            due = notifier.due(began_ns + second * SECOND)
            await client.post(due)
            notifier.posted(due, began_ns + second * SECOND)
        await until(lambda: len(receivers.to("on-call")) == 2 and len(receivers.to("noc")) == 2)
        if is_stopped:
            alertmanager.stop()
        change(10, "short")
        change(20, "short", 2, Status.RESOLVED)
        change(30, "ends", 2, Status.RESOLVED)
        change(40, "opens")
        for minute in range(60):
            notifier.due(began_ns + minute * 60 * SECOND)  # and no post succeeds
    if is_stopped:
        alertmanager.start()
    async with Alertmanager(params) as client:
        await post_due(notifier, client, 3)
        await until(lambda: len(receivers.to("on-call")) == 4 and len(receivers.to("noc")) == 4)
        active = {(a.labels["finding_id"], a.labels["kind"]) for a in await client.active_alerts()}
    assert active == {(identity, kind) for identity in ("stays", "opens") for kind in ("finding", "page")}
    for receiver in ("on-call", "noc"):
        received = [(n["groupLabels"]["finding_id"], n["status"]) for n in receivers.to(receiver)]
        assert sorted(received) == [
            ("ends", "firing"), ("ends", "resolved"), ("opens", "firing"), ("stays", "firing"),
        ]  # fmt: skip
