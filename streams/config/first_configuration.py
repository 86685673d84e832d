"""Writes the first configuration of a fabric: targets, a draft of the inventory, secrets, and the configuration file.

Every path in it is absolute, so that `railsight up --config FILE` works from any folder. Without `force`, no file is
replaced.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from streams.embedded.directories import refusing_disk_errors, write_private
from streams.fabric.inventory import Device, Inventory, Link, write_folder
from streams.wire.errors import Misconfigured

CONFIG = "railsight.toml"
_SPINE_WORDS = ("spine", "agg", "t1")
_LINK_COLUMNS = tuple(name for name in Link._fields if name not in ("id", "label"))
_CORE_WORDS = ("core", "superspine", "t2")


@dataclass(frozen=True, slots=True)
class FirstConfiguration:
    """The parts of a fabric to collect from; mappings have addresses by the device's name."""

    cluster: str = "local"
    gnmi: Mapping[str, str] | None = None
    gnmi_username: str = ""
    gnmi_password: str = ""
    gnmi_tls: bool = True
    snmp: Mapping[str, str] | None = None
    snmp_community: str = ""
    hosts: Mapping[str, str] | None = None
    """The hosts of the fabric: name -> address of the SNMP agent, empty without SNMP."""
    this_host: str = ""
    """The name of this machine if it is one of the hosts; the host's collectors then run here."""
    gpus: int = 0
    """GPUs of each host that reports none."""
    grafana: str = ""
    """The URL of Grafana, to which alerts link."""

    @property
    def by_snmp(self) -> Mapping[str, str]:
        """The switches and hosts that are read by SNMP."""
        return {**(self.snmp or {}), **{name: address for name, address in (self.hosts or {}).items() if address}}

    def problems(self) -> list[str]:
        """Return a line for each missing part."""
        found = []
        if not (self.gnmi or self.by_snmp or self.this_host):
            found.append("nothing to read: give --gnmi NAME=HOST:PORT, --snmp NAME=HOST or --this-host")
        if self.by_snmp and not self.snmp_community:
            found.append("SNMP needs a community: answer the question, or set RAILSIGHT_INIT_COMMUNITY")
        if bool(self.gnmi_username) != bool(self.gnmi_password):
            found.append("--gnmi-username needs a password: answer the question, or set RAILSIGHT_INIT_PASSWORD")
        twice = sorted({*(self.gnmi or {}), *(self.snmp or {})} & {*(self.hosts or {})})
        return [*found, *(f"{name} is a switch and a host: rename one" for name in twice)]


def write(folder: Path, first: FirstConfiguration, *, force: bool) -> list[Path]:
    """Write all files into the folder and return them; raises Misconfigured."""
    if problems := first.problems():
        raise Misconfigured("\n".join(problems))
    folder = folder.absolute()
    if (folder / CONFIG).exists() and not force:
        raise Misconfigured(f"{folder / CONFIG} exists; choose another folder, or replace it with --force")
    with refusing_disk_errors(folder, "folder"):
        (folder / "secrets").mkdir(parents=True, exist_ok=True, mode=0o700)
        written = [*_write_secrets(folder, first), *_write_targets(folder, first), *_write_inventory(folder, first)]
        write_private(folder / CONFIG, "\n".join(_lines(folder, first)) + "\n")
    return [*written, folder / CONFIG]


def _write_secrets(folder: Path, first: FirstConfiguration) -> list[Path]:
    secrets = {"snmp-community": first.snmp_community, "gnmi-password": first.gnmi_password}
    paths = []
    for name, secret in secrets.items():
        if secret:
            write_private(folder / "secrets" / name, f"{secret}\n")
            paths.append(folder / "secrets" / name)
    return paths


def _write_targets(folder: Path, first: FirstConfiguration) -> list[Path]:
    paths = []
    for name, targets in (("gnmi-targets.json", first.gnmi), ("snmp-targets.json", first.by_snmp)):
        if targets:
            rows = [{"name": device, "address": address} for device, address in targets.items()]
            (folder / name).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
            paths.append(folder / name)
    return paths


def _write_inventory(folder: Path, first: FirstConfiguration) -> list[Path]:
    """Write the devices, and an empty table of links that a person fills in or replaces by the site's own."""
    switches = {**(first.gnmi or {}), **(first.snmp or {})}
    hosts = dict.fromkeys([*(first.hosts or {}), *([first.this_host] if first.this_host else [])])
    devices = [Device(name, "switch", _tier(name), "pod1") for name in switches]
    devices += [Device(name, "host", "host", "pod1", gpus=first.gpus) for name in hosts]
    write_folder(Inventory(tuple(devices)), folder / "inventory", "csv")
    links = folder / "inventory" / "links.csv"
    # Writes the columns that a person fills in; the inventory's writer would write only the required ones.
    links.write_text(",".join(_LINK_COLUMNS) + "\n", encoding="utf-8")
    return [folder / "inventory" / "devices.csv", links]


def _tier(name: str) -> str:
    """Return the tier that a switch's name suggests."""
    lower = name.lower()
    if any(word in lower for word in _CORE_WORDS):
        return "T2"
    return "T1" if any(word in lower for word in _SPINE_WORDS) else "T0"


def _lines(folder: Path, first: FirstConfiguration) -> list[str]:
    quoted = json.dumps
    lines = [
        f"# Written by `railsight init`. Run it: railsight up --config {folder / CONFIG}",
        "# All settings with their defaults: railsight config show --defaults --config FILE",
        "[kafka]",
        f"cluster = {quoted(first.cluster)}",
        "",
        "[runtime]",
        f"data = {quoted(str(folder / 'data'))}",
        "# Without links in its links.csv, ends, rails and peers are unknown (docs/inventory.md).",
        f"inventory = {quoted(str(folder / 'inventory'))}",
    ]
    if first.grafana:
        lines += ["", "[notify]", f"dashboard_url = {quoted(first.grafana)}"]
    if first.gnmi:
        lines += ["", "[collect.gnmi]", f"targets_file = {quoted(str(folder / 'gnmi-targets.json'))}"]
        lines += [f"tls = {str(first.gnmi_tls).lower()}"]
        if first.gnmi_username:
            lines += [f"username = {quoted(first.gnmi_username)}"]
            lines += [f"password_file = {quoted(str(folder / 'secrets/gnmi-password'))}"]
            lines += [] if first.gnmi_tls else ["clear_text = true  # the password crosses the network without TLS"]
    if first.by_snmp:
        lines += ["", "[collect.snmp]", f"targets_file = {quoted(str(folder / 'snmp-targets.json'))}"]
        lines += [f"community_file = {quoted(str(folder / 'secrets/snmp-community'))}"]
    if first.this_host:
        for kind in ("nic", "host"):
            lines += ["", f"[collect.{kind}]", f"device = {quoted(first.this_host)}"]
        lines += [f"state_file = {quoted(str(folder / 'host-state.json'))}"]
    return lines
