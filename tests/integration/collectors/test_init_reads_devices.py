"""`railsight init` reads the switches of a simulation, and drafts the links from their neighbors by LLDP."""

import asyncio
from pathlib import Path

from collectors.core.clock import SystemClock
from lab.servers.gnmi_server import GnmiServers
from lab.world.demo_fabric import inventory
from streams.fabric.inventory import read_folder
from tests.e2e.processes import once
from tests.fixtures.command_lines import run
from tests.integration.collectors.fabric import SMALL, world_of


async def test_the_first_inventory_has_the_links_that_switches_report(tmp_path: Path) -> None:
    """A switch that does not answer is a line, and stays as it was given; the configuration is accepted."""
    async with GnmiServers(world_of(), SystemClock()) as face:
        given = [f"--gnmi={name}={address}" for name, address in face.addresses.items()]
        away = ["--gnmi=leaf99=127.0.0.1:1", "--no-tls", "--host=gpu-x", "--gpus=8"]
        done = await asyncio.to_thread(once, "init", str(tmp_path), *given, *away)
        config = str(tmp_path / "railsight.toml")
        tried = await asyncio.to_thread(once, "config", "check", "--config", config, "--connect")
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert "leaf99 is not read by gnmi: " in done.stderr and "complete" not in done.stdout
    found = read_folder(tmp_path / "inventory")
    world = inventory(SMALL, 1)
    ends = {frozenset({(one.a_device, one.a_port), (one.z_device, one.z_port)}) for one in found.links}
    assert ends == {frozenset({(one.a_device, one.a_port), (one.z_device, one.z_port)}) for one in world.links}
    kinds = {device.name: device.kind for device in found.devices}
    assert kinds == {"leaf99": "switch", "gpu-x": "host"} | {device.name: device.kind for device in world.devices}
    assert run("config", "check", "--config", config) == 0
    lines = [line.split(":")[0] for line in tried.stderr.splitlines()]
    assert (tried.returncode, set(lines)) == (1, {"FAILED  collect gnmi"}), "the log of a collector is not an answer"
