"""The health of every part but the sink, as supervisors ask for it while brokers come and go."""

import asyncio
import json
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.kafka_config import KafkaParams
from tests.fixtures.ports import free_port
from tests.integration.runtime.health_rig import running, running_automation
from tests.integration.runtime.rig import wait_until

pytestmark = pytest.mark.timeout(280)


def received(listening: socket.socket) -> set[str]:
    """Return all lines that systemd has received by now."""
    found: set[str] = set()
    while True:
        try:
            found |= set(listening.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return found


async def test_parts_that_start_before_their_brokers_wait_and_then_work(tmp_path: Path) -> None:
    """Without brokers a part is live and not ready, logs that it waits, and is ready soon after they are there.

    A broker that is killed makes them not ready, with the name of the check, and never not live. SIGTERM ends each
    without it as well; requests to brokers would time out after 40 s.
    """
    targets = tmp_path / "targets.json"
    targets.write_text(json.dumps([{"name": "leaf1", "address": "127.0.0.1:1"}]))
    kafka_port = free_port()
    kafka = KafkaParams(data=tmp_path / "kafka", port=kafka_port)
    at = ("--bootstrap", f"127.0.0.1:{kafka_port}")
    with ExitStack() as stack:
        systemd = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        systemd.bind(str(tmp_path / "notify"))
        systemd.setblocking(False)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "RAILSIGHT__RUNTIME__DATA": str(tmp_path)}
        stages = stack.enter_context(running(tmp_path / "stages.log", env, "process", *at))
        collector = stack.enter_context(
            running(tmp_path / "gnmi.log", {}, "collect", "gnmi", *at, "--targets", str(targets))
        )
        notifier = stack.enter_context(running(tmp_path / "notify.log", {}, "notify", *at))
        desk = {"RAILSIGHT__TICKETS__URL": "http://127.0.0.1:1"}
        tickets = stack.enter_context(running(tmp_path / "tickets.log", desk, "tickets", *at))
        automation = stack.enter_context(running_automation(tmp_path, kafka_port))
        assert await stages.until_not_ready("start") == "start: not complete"
        await notifier.until_not_ready("brokers: no answer yet")
        for waiting in (notifier, tickets):
            await waiting.until_logged("waiting: cannot connect to Kafka")
        await automation.until_not_ready("start: the remediations are not read to their end")
        await collector.until_not_ready("kafka: no record acknowledged")
        for part, line in ((stages, "waiting for Kafka"), (collector, "Kafka unreachable")):
            await part.until_logged(line)
        assert not {"READY=1"} & received(systemd)
        broker = EmbeddedKafka(kafka)
        stack.callback(broker.stop)
        await asyncio.to_thread(broker.start)
        await stages.until_ready()
        await collector.until_ready()
        await automation.until_ready()
        await tickets.until_ready()
        # Without an Alertmanager it cannot take over.
        await notifier.until_not_ready("election: ")
        assert stages.log.read_text().count("waiting for Kafka") == 1
        await wait_until(lambda: "READY=1" in received(systemd), 10, "READY=1")
        await asyncio.to_thread(broker.kill)
        began = time.monotonic()
        await stages.until_not_ready("brokers: no answer for")
        await collector.until_not_ready("kafka: no record acknowledged for")
        await wait_until(lambda: time.monotonic() > began + 8, 10, "longer than a stuck process has")
        assert stages.problem("/livez") == collector.problem("/livez") == ""
        await asyncio.to_thread(broker.restart)
        await stages.until_ready()
        await collector.until_ready()
        await asyncio.to_thread(broker.kill)
        await automation.until_not_ready("brokers: no answer for")
        received(systemd)
        await asyncio.to_thread(stages.terminate)
        assert "STOPPING=1" in received(systemd)
        for part in (collector, notifier, tickets, automation):
            await asyncio.to_thread(part.terminate)
