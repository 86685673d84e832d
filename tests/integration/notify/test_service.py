"""Tests the notifier as a service: from findings in Kafka to a page, with takeovers and Alertmanager restarts."""

import asyncio
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from collectors.core.clock import SystemClock
from streams.notify.alertmanager import Alertmanager
from streams.notify.params import NotifyParams
from streams.notify.service import NotifyService
from streams.wire.errors import Retry
from streams.wire.models import Control, ControlKind, Progress, Rejected, Status
from streams.wire.topics import CONTROLS, FINDINGS_OPEN, PROGRESS, REJECTED, Record, encode
from tests.fixtures.ports import free_port
from tests.fixtures.running_task import run_beside
from tests.integration.notify.conftest import (
    Receivers,
    Server,
    fresh,
    messages,
    publish,
    running,
    running_by,
    running_command,
    send,
    until,
)

pytestmark = pytest.mark.peer("prometheus-alertmanager")


@dataclass(frozen=True)
class WrongClock:
    """The clock of a host, ahead by `ahead_s`."""

    ahead_s: float

    def now_ns(self) -> int:
        return time.time_ns() + round(self.ahead_s * 1e9)


@pytest.mark.parametrize("ahead_s", [-3600.0, 365 * 86_400.0])
async def test_a_wrong_clock_of_its_host_changes_no_page(
    ahead_s: float, bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, receivers: Receivers
) -> None:
    """Once the stages send Progress, holds and ends of alerts are by the brokers' time; before that nothing is sent."""

    async def progress() -> None:
        while True:
            await send(producer, encode(PROGRESS, Progress("decide", 0, 1, time.time_ns())))
            await asyncio.sleep(0.3)

    async with run_beside(progress()):
        await publish(producer, fresh())
        began = time.monotonic()
        async with running_by(WrongClock(ahead_s), bootstrap, alertmanager, hold_s=3):
            await until(lambda: receivers.to("on-call"), 30)
            assert time.monotonic() - began >= 3
            await publish(producer, fresh(revision=2, status=Status.RESOLVED, resolved_at_ns=time.time_ns()))
            await until(lambda: receivers.to("on-call", "resolved"), 30)
    assert [one["status"] for one in receivers.to("on-call")] == ["firing", "resolved"]


async def test_a_stop_resolves_nothing_and_a_restart_pages_nothing(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, receivers: Receivers
) -> None:
    """One of two findings ends while no notifier runs: its page is resolved after the start, the other is unchanged."""
    await publish(producer, fresh())
    await publish(producer, fresh(id="f2"))
    async with running(bootstrap, alertmanager):
        await until(lambda: len(receivers.to("on-call")) == 2, 30)
    await publish(producer, fresh(id="f2", revision=2, status=Status.RESOLVED, resolved_at_ns=time.time_ns()))
    # With a hold of an hour, a successor that held again would end the page.
    async with running(bootstrap, alertmanager, hold_s=3600):
        await until(lambda: receivers.to("on-call", "resolved"), 30)
        await publish(producer, fresh(id="f3"))
        await until(lambda: any("f3" in str(notification) for notification in receivers.to("noc")), 30)
    received = [
        (notification["status"], notification["groupLabels"]["finding_id"]) for notification in receivers.to("on-call")
    ]
    assert sorted(received[:2]) == [("firing", "f1"), ("firing", "f2")]
    assert received[2:] == [("resolved", "f2")]


async def test_a_start_reads_controls_from_the_beginning_and_passes_over_an_invalid_record(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, receivers: Receivers
) -> None:
    """An acknowledged finding does not page; an invalid one goes to the rejected topic with its origin."""
    await send(producer, encode(CONTROLS, Control("c1", ControlKind.ACKNOWLEDGE, "f1")))
    await send(producer, Record(FINDINGS_OPEN, b"poison", b"not json"))
    await publish(producer, fresh())
    await publish(producer, fresh(id="f2"))
    async with running(bootstrap, alertmanager):
        await until(lambda: receivers.to("on-call"), 30)
        await until(lambda: any("f1" in str(notification) for notification in receivers.to("noc")), 30)
    assert [notification["groupLabels"]["finding_id"] for notification in receivers.to("on-call")] == ["f2"]
    (rejected,) = await messages(bootstrap, REJECTED)
    assert isinstance(rejected, Rejected)
    origin = rejected.topic, rejected.offset, rejected.stage, rejected.value
    assert origin == (FINDINGS_OPEN.name, 0, "notify", b"not json")


def written(folder: Path, bootstrap: str, alertmanager: Server, cluster: str) -> Path:
    """Return a configuration file with these servers."""
    (folder / "railsight.toml").write_text(
        f'[kafka]\nbootstrap = "{bootstrap}"\ncluster = "{cluster}"\n'
        f'[notify]\nalertmanagers = ["{alertmanager.url}"]\nhold_s = 0.5\n'
    )
    return folder / "railsight.toml"


CONSTANTS = {"notify.resend_s": 1}


async def test_a_notifier_that_was_stopped_does_not_page_for_what_is_over(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, receivers: Receivers, tmp_path: Path
) -> None:
    """Its page ended by another notifier while it was stopped; after it continues, nothing is posted again."""
    config = written(tmp_path, bootstrap, alertmanager, "test")
    await publish(producer, fresh())
    async with running_command(CONSTANTS, "notify", config) as stopped:
        await until(lambda: receivers.to("on-call"), 60)
        stopped.send_signal(signal.SIGSTOP)
        async with running(bootstrap, alertmanager):
            await publish(producer, fresh(revision=2, status=Status.RESOLVED, resolved_at_ns=time.time_ns()))
            await until(lambda: receivers.to("on-call", "resolved"), 60)
        await publish(producer, fresh(id="f2"))
        stopped.send_signal(signal.SIGCONT)
        active: set[str] = set()
        async with Alertmanager(NotifyParams(cluster="test", alertmanagers=(alertmanager.url,))) as client:
            async with asyncio.timeout(60):
                while "f2" not in active:
                    active |= {alert.labels["finding_id"] for alert in await client.active_alerts()}
    assert active == {"f2"}
    assert "stopped for longer than half the session, taking over again" in config.with_suffix(".log").read_text()


async def test_the_command_pages_and_a_stop_leaves_the_page_active(
    bootstrap: str, producer: AIOKafkaProducer, alertmanager: Server, receivers: Receivers, tmp_path: Path
) -> None:
    """`railsight notify` pages with a configuration file; SIGTERM ends it with 0 and resolves nothing."""
    config = written(tmp_path, bootstrap, alertmanager, "ams")
    await publish(producer, fresh())
    async with running_command(CONSTANTS, "notify", config) as process:
        await until(lambda: receivers.to("on-call"), 60)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 20) == 0
    assert [alert["labels"]["cluster"] for alert in receivers.to("on-call")[0]["alerts"]] == ["ams"]
    async with Alertmanager(NotifyParams(cluster="ams", alertmanagers=(alertmanager.url,))) as client:
        assert sorted(alert.labels["kind"] for alert in await client.active_alerts()) == ["finding", "page"]


async def test_what_is_missing_at_the_start_is_one_clear_line(broker: str, alertmanager: Server) -> None:
    """Neither a new cluster without topics nor an address without a broker is waited for."""
    params = NotifyParams(alertmanagers=(alertmanager.url,))
    for bootstrap, line in (
        (broker, r"railsight\.findings\.v1.*: create them with `railsight topics`"),
        (f"127.0.0.1:{free_port()}", "cannot connect to Kafka"),
    ):
        with pytest.raises(Retry, match=line):
            await asyncio.wait_for(NotifyService(params, {"bootstrap_servers": bootstrap}, SystemClock()).run(), 30)
