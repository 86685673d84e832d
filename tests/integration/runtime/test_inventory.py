"""Publishes versions of an inventory: the changes are printed, and nothing is removed unasked."""

import subprocess
from dataclasses import replace
from pathlib import Path

from streams.config.kafka import KafkaSettings
from streams.fabric.inventory import Inventory, digest, write_folder
from streams.runtime.inventory_reader import inventory_in_effect
from tests.integration.runtime.commands import railsight
from tests.worlds.small_fabric import inventory

FAR_NS = 4_000_000_000_000_000_000


async def test_removals_need_a_yes(bootstrap: str, tmp_path: Path) -> None:
    """The first version is published unasked; one without a host is shown, refused, and published with --yes."""
    kafka = KafkaSettings.model_validate({"bootstrap": bootstrap})

    async def in_effect() -> str:
        published = await inventory_in_effect(kafka, FAR_NS)
        return "" if published is None else digest(published)

    def apply(own: Inventory, *options: str) -> subprocess.CompletedProcess[str]:
        write_folder(own, tmp_path / "inventory")
        return railsight("inventory", "apply", str(tmp_path / "inventory"), "--bootstrap", bootstrap, *options)

    own = inventory()
    assert await in_effect() == ""
    assert apply(own, "--dry-run").stdout.startswith(f"{tmp_path / 'inventory'}: not published; 12 devices")
    assert await in_effect() == ""
    assert apply(own).returncode == 0
    assert await in_effect() == digest(own)

    links = tuple(link for link in own.links if link.z_device != "p1-h1")
    smaller = replace(own, devices=tuple(one for one in own.devices if one.name != "p1-h1"), links=links)
    refused = apply(smaller)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.splitlines() == [
        "devices: 1 removed (p1-h1)",
        "links: 2 removed (p1-h1/e0 -- p1-l0/d1, p1-h1/e1 -- p1-l1/d1)",
        "railsight: devices or links would be removed: publish with --yes, or look first with --dry-run",
    ]
    assert await in_effect() == digest(own)
    second = apply(smaller, "--if-none")
    assert second.returncode == 0 and "not published, another version is in effect; 11 devices" in second.stdout
    assert await in_effect() == digest(own)
    assert apply(smaller, "--yes").returncode == 0
    assert await in_effect() == digest(smaller)
    assert apply(own).stderr.splitlines()[0] == "devices: 1 added (p1-h1)", "what only adds is published unasked"
    assert await in_effect() == digest(own)
