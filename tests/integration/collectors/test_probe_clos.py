"""Real packets over a Clos of namespaces: a lossy link and a lost flow are named, a host at fault is no network."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from collectors.core.context import CollectorContext
from collectors.probe.collector import ProbeAgent
from collectors.probe.params import Params
from lab.constants import params_of
from streams.fabric.inventory import write_folder
from streams.fabric.topology import Topology
from streams.wire.models import Condition, Finding, Message, ProbeReport, Status
from tests.fakes.publisher import RecordingPublisher
from tests.fixtures.namespace_clos import NamespaceClos, namespace_clos, reason_to_skip
from tests.worlds.live_stages import LiveStages

PATIENT = {"timeout_s": 2.0, "stall_s": 1.0, "traces_per_s": 5.0}
"""Settings for one process with all hosts on a busy machine: replies wait longer than the process stalls."""
PROBED = (Condition.PATH_LOSS, Condition.RAIL_UNREACHABLE)


class ProbedClos:
    """The probers and the stages; use as an asynchronous context."""

    def __init__(self, clos: NamespaceClos, folder: Path, **settings: object) -> None:
        inventory = clos.shape.inventory()
        write_folder(inventory, folder)
        self.clos, self._publisher = clos, RecordingPublisher()
        self.live = LiveStages(Topology(inventory))
        self._processed = 0
        self.agents: dict[str, ProbeAgent] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        for host in clos.shape.host_names:
            params = params_of(Params, {"device": host, "inventory": folder, **PATIENT, **settings})
            context = CollectorContext(self._publisher, f"probe@{host}")
            self.agents[host] = ProbeAgent(params, context, lambda host=host: clos.new_socket(host))  # type: ignore[misc]

    async def __aenter__(self) -> "ProbedClos":
        self._tasks = {host: asyncio.create_task(agent.run()) for host, agent in self.agents.items()}
        return self

    async def __aexit__(self, *_: object) -> None:
        for host in list(self._tasks):
            await self.stop(host)
        for agent in self.agents.values():
            agent.close()

    async def stop(self, host: str) -> None:
        """Stop a host's process: its sockets stay, and nothing reads them."""
        task = self._tasks.pop(host)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    @property
    def reports(self) -> list[ProbeReport]:
        """Return all reports so far."""
        return [one for one in self._publisher.messages if isinstance(one, ProbeReport)]

    def findings(self) -> list[Finding]:
        """Process what came since; return the last revisions of the findings of probes that were not retracted."""
        messages: list[Message] = list(self._publisher.messages)
        for message in messages[self._processed :]:
            self.live.process(message)
        self._processed = len(messages)
        newest = {one.id: one for one in self.live.published if isinstance(one, Finding)}
        return [one for one in newest.values() if one.condition in PROBED and one.status is not Status.RETRACTED]

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait for a condition, at most so long; return whether it holds."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + within_s
        while not condition():
            for task in self._tasks.values():
                if task.done():
                    task.result()
            if loop.time() > deadline_s:
                return False
            await asyncio.sleep(0.2)
        return True

    async def traced(self, within_s: float = 240) -> None:
        """Wait until each host has reported the paths of all of its flows."""

        def is_traced() -> bool:
            newest = {report.device: report for report in self.reports}
            return len(newest) == len(self.agents) and all(
                min(*report.flow_forward_hops, *report.flow_reverse_hops) > 0 and 0 not in report.hop
                for report in newest.values()
            )

        assert await self.until(is_traced, within_s), "not all paths are traced"

    async def windows(self, count: int, within_s: float) -> None:
        """Wait until each prober that runs has reported so many windows more."""
        begin = len(self.reports)
        wanted = count * len(self._tasks)
        assert await self.until(lambda: len(self.reports) - begin >= wanted, within_s), "too few reports"


if TYPE_CHECKING:
    from streams.fabric.ids import Port

SKIPPED = reason_to_skip()
pytestmark = [pytest.mark.skipif(bool(SKIPPED), reason=SKIPPED), pytest.mark.timeout(900)]
WITHIN_S = 60
BUSY_S = 60
"""For reports of a busy machine to arrive; what is asserted is the time of the finding, not of this process."""


async def test_a_link_that_drops_one_percent_is_named_within_a_minute_and_no_other(tmp_path: Path) -> None:
    """No finding before; then the link with its direction, by the time of the probes."""
    with namespace_clos() as clos:
        async with ProbedClos(clos, tmp_path / "inventory") as own:
            await own.traced()
            await own.windows(2, 20 + BUSY_S)
            assert own.findings() == []
            began_ns = max(report.end_ns for report in own.reports)
            clos.drop("p0-spine1", 'iifname "d2" numgen random mod 1000 < 10')
            assert await own.until(lambda: bool(own.findings()), WITHIN_S + BUSY_S)
            await own.windows(2, 20 + BUSY_S)
            named = {(one.condition, one.subject.id) for one in own.findings()}
            assert named == {(Condition.PATH_LOSS, "link:p0-leaf2/u1--p0-spine1/d2")}
            (found,) = own.findings()
            assert (found.detected_at_ns or 0) - began_ns <= (WITHIN_S + 10) * 10**9
            assert "into p0-spine1/d2" in found.evidence[0].statement


async def test_one_flow_that_is_dropped_is_named_with_its_place(tmp_path: Path) -> None:
    """The 5-tuple, and the link after the last hop that answers; all other flows are fine."""
    with namespace_clos() as clos:
        async with ProbedClos(clos, tmp_path / "inventory") as own:
            await own.traced()
            key = next(key for key in own.agents["h00"].prober.flow_keys if key.rail.leaf != key.target.leaf)
            report = next(report for report in reversed(own.reports) if report.device == "h00")
            flow = next(
                n
                for n, port in enumerate(report.flow_source_port)
                if port == key.source_port
                and report.address[report.flow_source[n]] == key.rail.address
                and report.address[report.flow_target[n]] == key.target.address
            )
            place = sum(report.flow_forward_hops[:flow]) + sum(report.flow_reverse_hops[:flow])
            ports = {wire.upper_address: wire.upper for wire in clos.shape.wires()}
            entered: Port = ports[report.address[report.hop[place + 1] - 1]]
            clos.drop(
                entered.device,
                f"ip saddr {key.rail.address} ip daddr {key.target.address} udp sport {key.source_port}"
                f" udp dport {own.agents['h00'].prober._params.port}",
            )
            assert await own.until(lambda: bool(own.findings()), WITHIN_S + BUSY_S)
            await own.windows(1, 10 + BUSY_S)
            (found,) = own.findings()
            assert found.condition is Condition.PATH_LOSS
            assert found.subject.z is not None
            assert (found.subject.z.device, found.subject.z.port) == entered
            statement = found.evidence[0].statement
            assert f"source port {key.source_port}, are lost" in statement
            assert f"into {entered.device}/{entered.port}" in statement


async def test_a_slow_and_a_stopped_host_are_not_blamed_on_the_network(tmp_path: Path) -> None:
    """Nothing is found with a host behind a slow queue, and with one that answers nothing."""
    with namespace_clos() as clos:
        async with ProbedClos(clos, tmp_path / "inventory") as own:
            await own.traced()
            for port in ("r0", "r1"):
                clos.delay("h03", port)
            await own.stop("h05")
            await own.windows(6, 60 + BUSY_S)
            assert own.findings() == []
