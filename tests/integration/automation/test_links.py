"""Tests the automation of links against the simulator's gNMI servers: policies, traffic, repairs, and a crash."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from railsight_automation.gnmi_client import Access, GnmiClient
from railsight_automation.links import LinkParams, Links
from railsight_automation.plan import Parts

from collectors.core.clock import SystemClock
from lab.servers.gnmi_server import GnmiServers
from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_links import PortState
from lab.world.demo_world import DemoWorld
from lab.world.port_configuration import DRAIN_POLICY, INITIAL, Setting
from streams.fabric.ids import Port
from streams.fabric.inventory import Link
from tests.fixtures.automation import Fuse, RecordedAnswers, act, remediation
from tests.fixtures.certificates import certificate

SHAPE = DemoShape(pods=1, hosts=1, planes=1, spines=1, uplinks=2)
POLICIES = (Setting.EXPORT_POLICY, Setting.IMPORT_POLICY)


@dataclass
class Fabric:
    """A simulated fabric with its gNMI servers, and an automation whose next crash is at the fuse's step."""

    world: DemoWorld
    clock: SystemClock
    client: GnmiClient
    path: Path
    params: LinkParams
    face: GnmiServers
    sent: RecordedAnswers = field(default_factory=RecordedAnswers)

    @property
    def link(self) -> Link:
        """Return an uplink of the first leaf."""
        return next(link for link in self.world.inventory.links if link.role == "fabric-link")

    @property
    def other(self) -> Link:
        """Return the other uplink of the same leaf."""
        uplinks = [link for link in self.world.inventory.links if link.a_device == self.link.a_device]
        return next(link for link in uplinks if link != self.link)

    def target(self, **more: Any) -> dict[str, Any]:
        """Return the target of a remediation."""
        link = self.link
        ends = {end: {"device": port.device, "port": port.port} for end, port in (("a", link.a), ("z", link.z))}
        return {"id": "link:x", "role": "fabric-link"} | ends | more

    async def act(self, identity: str, action: str, fuse: Fuse | None = None, **more: Any) -> list[str]:
        """Carry out a remediation in a process of its own, as far as the fuse; return the outcomes."""
        order = remediation(identity, action, target=self.target(**more))
        parts = Parts([Links(self.client, self.params)])
        return await act(self.path / "journal.jsonl", parts, self.sent, order, fuse)

    def port(self, end: Port) -> PortState:
        """Return a port now."""
        return self.world.port(end.device, end.port, self.clock.now_ns())

    def policies(self) -> set[object]:
        """Return the policies of both ends now."""
        now_ns = self.clock.now_ns()
        return {
            self.world.configuration.value(end, name, now_ns) for end in (self.link.a, self.link.z) for name in POLICIES
        }

    async def rates(self) -> tuple[float, float]:
        """Return the bytes a second that the leaf sends on the link and on the other uplink."""
        loop = asyncio.get_running_loop()
        ends = (self.link.a, self.other.a)
        before, at = [self.port(end).tx_bytes for end in ends], loop.time()
        await asyncio.sleep(0.1)
        elapsed_s = loop.time() - at
        first, second = (
            (self.port(end).tx_bytes - tx_bytes) / elapsed_s for end, tx_bytes in zip(ends, before, strict=True)
        )
        return first, second


@asynccontextmanager
async def fabric(path: Path, *, with_tls: bool = False, **params: Any) -> AsyncIterator[Fabric]:
    """Run a fabric, with the automation's client."""
    clock = SystemClock()
    world = DemoWorld(demo_fabric.inventory(SHAPE, clock.now_ns()), (), 1, clock.now_ns())
    cert, key = certificate(path, "device")
    tls = grpc.ssl_server_credentials([(key.read_bytes(), cert.read_bytes())]) if with_tls else None
    access = Access(grpc.ssl_channel_credentials(cert.read_bytes()) if with_tls else None, timeout_s=5)
    async with GnmiServers(world, clock, tls=tls) as face:
        client = GnmiClient(face.addresses, access)
        try:
            yield Fabric(world, clock, client, path, LinkParams(**params), face)
        finally:
            await client.close()


@pytest.mark.parametrize("with_tls", [False, True])
async def test_a_drained_link_is_idle_and_up_and_carries_traffic_after_its_restore(
    tmp_path: Path, with_tls: bool
) -> None:
    """Traffic moves to the other uplink and back; all policies are as before."""
    async with fabric(tmp_path, with_tls=with_tls) as now:
        before = await now.rates()
        assert await now.act("r1", "DRAIN_LINK") == ["ACCEPTED", "DONE"]
        drained = await now.rates()
        assert drained[0] == 0 and drained[1] == pytest.approx(sum(before), rel=0.05)
        state = now.port(now.link.a)
        assert (state.admin_up, state.oper_up) == (True, True)
        assert now.policies() == {(DRAIN_POLICY, "FABRIC-IN"), (DRAIN_POLICY, "FABRIC-OUT")}
        assert await now.act("r2", "RESTORE_LINK") == ["ACCEPTED", "DONE"]
        assert await now.rates() == pytest.approx(before, rel=0.05)
        assert now.policies() == {INITIAL[name] for name in POLICIES}


async def test_a_repair_takes_the_port_down_after_it_is_idle_and_leaves_the_policy(tmp_path: Path) -> None:
    """The command runs while both ends are down, with the link and its ends as arguments."""
    record = tmp_path / "arguments"
    async with fabric(tmp_path, repair_command=("sh", "-c", f'echo "$@" > {record}; echo cleaned', "robot")) as now:
        assert await now.act("r1", "REPAIR_LINK") == ["ACCEPTED", "DONE"]
        assert now.sent.detail("r1") == "cleaned"
        ends = [f"{end.device}:{end.port}" for end in (now.link.a, now.link.z)]
        assert record.read_text().split() == ["link:x", *ends]
        state = now.port(now.link.a)
        assert (state.admin_up, state.oper_up, state.transitions) == (True, True, 2)
        assert (await now.rates())[0] == 0
        assert await now.act("r2", "RESTORE_LINK") == ["ACCEPTED", "DONE"]
        assert (await now.rates())[0] > 0


async def test_a_failed_repair_is_undone(tmp_path: Path) -> None:
    """The result has the end of the command's output."""
    async with fabric(tmp_path, repair_command=("sh", "-c", "echo no robot; exit 3")) as now:
        assert await now.act("r1", "REPAIR_LINK") == ["ACCEPTED", "FAILED"]
        assert now.sent.detail("r1") == "sh: exit status 3: no robot; every change was undone"
        assert now.port(now.link.a).oper_up and now.policies() == {INITIAL[name] for name in POLICIES}


async def test_a_link_that_stays_busy_is_not_taken_down(tmp_path: Path) -> None:
    """No other uplink remains, so that the policy moves no traffic: the repair fails with the rate."""
    async with fabric(tmp_path, repair_command=("true",), idle_s=0.3) as now:
        for name in POLICIES:
            now.world.configure(now.other.a, name, (DRAIN_POLICY,), now.clock.now_ns())
            now.world.configure(now.other.z, name, (DRAIN_POLICY,), now.clock.now_ns())
        assert await now.act("r1", "REPAIR_LINK") == ["ACCEPTED", "FAILED"]
        assert "still carries" in now.sent.detail("r1") and now.port(now.link.a).transitions == 0
        assert now.policies() == {INITIAL[name] for name in POLICIES}


async def test_an_unknown_port_or_policy_fails_with_the_devices_error(tmp_path: Path) -> None:
    """The first end is undone."""
    async with fabric(tmp_path, drain_policy="NOPE") as now:
        assert await now.act("r1", "DRAIN_LINK") == ["ACCEPTED", "FAILED"]
        assert "INVALID_ARGUMENT" in now.sent.detail() and "policy NOPE is not defined" in now.sent.detail()
    async with fabric(tmp_path) as now:
        far = {"device": now.link.z_device, "port": "Ethernet99/1"}
        assert await now.act("r2", "DRAIN_LINK", z=far) == ["ACCEPTED", "FAILED"]
        assert "NOT_FOUND" in now.sent.detail("r2") and "every change was undone" in now.sent.detail("r2")
        assert now.policies() == {INITIAL[name] for name in POLICIES}


async def test_an_unreachable_far_end_undoes_the_near_end(tmp_path: Path) -> None:
    """Both ends or none."""
    async with fabric(tmp_path) as now:
        await now.face.close(now.link.z_device)
        assert await now.act("r1", "DRAIN_LINK") == ["ACCEPTED", "FAILED"]
        assert "UNAVAILABLE" in now.sent.detail() and "every change was undone" in now.sent.detail()
        assert now.policies() == {INITIAL[name] for name in POLICIES}
