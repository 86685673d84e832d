"""Defines `railsight init`, which writes the first configuration of a fabric from options or from a terminal."""

import os
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.printing import echo, print_text
from streams.config.first_configuration import CONFIG, FirstConfiguration, write
from streams.wire.errors import Misconfigured

Targets = Annotated[list[str] | None, typer.Option(metavar="NAME=ADDRESS", help="A switch by gNMI; repeatable.")]


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the configuration and its files.")],
    gnmi: Targets = None,
    gnmi_username: Annotated[str, typer.Option(help="User of gNMI; the password is asked for.")] = "",
    gnmi_tls: Annotated[bool, typer.Option("--tls/--no-tls", help="gNMI with TLS.")] = True,
    snmp: Annotated[
        list[str] | None, typer.Option(metavar="NAME=ADDRESS", help="A switch by SNMP v2c; repeatable.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=ADDRESS]", help="A host; with an address it is read by SNMP; repeatable."),
    ] = None,
    this_host: Annotated[
        bool, typer.Option("--this-host", help="Also read this machine's NICs and kernel log.")
    ] = False,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of each host that reports none.")] = 0,
    grafana: Annotated[str, typer.Option(metavar="URL", help="Grafana, to which alerts link.")] = "",
    read: Annotated[bool, typer.Option(help="Read the devices now, and complete the inventory by LLDP.")] = True,
    cluster: Annotated[str, typer.Option(help="Name of the fabric.")] = "local",
    force: Annotated[bool, typer.Option("--force", help="Replace the configuration of the folder.")] = False,
    start: Annotated[bool, typer.Option("--up", help="Run the pipeline at once, as `railsight up` does.")] = False,
) -> None:
    """Write a configuration, lists of targets, secrets that only you can read, and the inventory that the devices show.

    Without options it asks. Passwords are asked for, or come from RAILSIGHT_INIT_PASSWORD and RAILSIGHT_INIT_COMMUNITY.

    Example: `railsight init site --snmp leaf1=10.0.0.1 --snmp leaf2=10.0.0.2 --host gpu1 --host gpu2 --up`.
    """
    name = socket.gethostname() if this_host else ""
    hosts = _hosts(host)
    if gnmi or snmp or this_host or any(hosts.values()):
        by_gnmi, by_snmp = _targets(gnmi), _targets(snmp)
        password = _secret("RAILSIGHT_INIT_PASSWORD", f"Password of {gnmi_username} by gNMI") if gnmi_username else ""
        community = _secret("RAILSIGHT_INIT_COMMUNITY", "SNMP community") if by_snmp or any(hosts.values()) else ""
        first = FirstConfiguration(
            cluster, by_gnmi, gnmi_username, password, gnmi_tls, by_snmp, community, hosts, name, gpus, grafana
        )
    else:
        first = _asked(cluster)
    for path in write(folder, first, force=force):
        echo(f"wrote {path}")
    config = folder.absolute() / CONFIG
    has_links = read and _read_devices(folder.absolute(), first)
    if start:
        from streams.cli.pipeline import up

        up(config)
        return
    todo = "" if has_links else f" complete {folder.absolute() / 'inventory/links.csv'} (docs/inventory.md), then"
    print_text(f"next:{todo}")
    echo(f"  railsight config check --config {config} --connect")
    echo(f"  railsight up --config {config}")


def _asked(cluster: str) -> FirstConfiguration:
    """Return the configuration from a person's answers; raises Misconfigured without a terminal."""
    if not sys.stdin.isatty():
        raise Misconfigured(
            "give --gnmi NAME=HOST:PORT, --snmp NAME=HOST or --this-host; without a terminal, init cannot ask"
        )
    cluster = typer.prompt("Name of the fabric", default=cluster)
    print_text("Several names are separated by spaces; an empty answer means none.")
    gnmi = _targets(_words("Switches by gNMI, as NAME=HOST:PORT"))
    username = typer.prompt("User by gNMI (empty: none)", default="", show_default=False) if gnmi else ""
    password = typer.prompt("Its password", hide_input=True) if username else ""
    tls = typer.confirm("Do these switches have TLS for gNMI?", default=True) if gnmi else True
    snmp = _targets(_words("Switches by SNMP v2c, as NAME=HOST"))
    hosts = _hosts(_words("Hosts, as NAME, or NAME=HOST to read it by SNMP"))
    community = typer.prompt("SNMP community", hide_input=True) if snmp or any(hosts.values()) else ""
    here = socket.gethostname()
    this_host = here if typer.confirm(f"Is this machine ({here}) one of the hosts?", default=False) else ""
    gpus = typer.prompt("GPUs of each host that reports none", default=8, type=int) if hosts or this_host else 0
    grafana = typer.prompt("URL of Grafana, for links in alerts (empty: none)", default="", show_default=False)
    return FirstConfiguration(cluster, gnmi, username, password, tls, snmp, community, hosts, this_host, gpus, grafana)


READ_S = 45.0
"""The limit for the facts of one collector's devices (choice): SNMP gives a device up after 6 s."""
_NAMES = 5


def _read_devices(folder: Path, first: FirstConfiguration) -> bool:
    """Read the devices once and complete the inventory by what they report; return whether it has links.

    A device that does not answer, or a collector that cannot run, is a line: the configuration stays.
    """
    from streams.cli.inventory import write_draft
    from streams.cli.options import collector_params, only_errors, spec_of
    from streams.config.settings import load
    from streams.fabric.inventory import read_folder
    from streams.report.inventory_draft import draft_inventory
    from streams.wire.errors import Retry

    only_errors()
    known, facts = read_folder(folder / "inventory"), []
    devices_of = {"gnmi": list(first.gnmi or ()), "snmp": list(first.by_snmp)}
    for name, params in load(folder / CONFIG, collector_params()).collectors.items():
        devices = devices_of.get(name, [first.this_host])
        print_text(f"reading {len(devices)} device{'s' if len(devices) != 1 else ''} by {name}")
        try:
            found, silent = spec_of(name).read_facts(params, devices, READ_S)
        except (Misconfigured, Retry) as error:
            print_text(f"railsight init: {name}: {error}", err=True)
            continue
        facts += found
        for device, reason in list(silent.items())[:_NAMES]:
            print_text(f"railsight init: {device} is not read by {name}: {reason}", err=True)
        if len(silent) > _NAMES:
            print_text(f"railsight init: {len(silent) - _NAMES} more are not read by {name}", err=True)
    made = draft_inventory(facts, first.gpus, known)
    if not made.inventory.links:
        print_text("no device reports a neighbor by LLDP: the links are not known")
        return False
    write_draft(made, folder / "inventory", "LLDP", False)
    if made.doubts:
        print_text(f"check {folder / 'inventory/doubts.csv'}: {len(made.doubts)} values are guessed or missing")
    return True


def _words(question: str) -> list[str]:
    return str(typer.prompt(question, default="", show_default=False)).split()


def _targets(given: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given or ():
        name, equals, address = one.partition("=")
        if not (name and equals and address):
            raise Misconfigured(f"{one}: not of the form NAME=ADDRESS, as leaf1=10.0.0.1")
        if name in found:
            raise Misconfigured(f"{name} is given twice; give each switch once")
        found[name] = address
    return found


def _hosts(given: list[str] | None) -> dict[str, str]:
    """Return the address of each host, which may be empty."""
    plain = {one: "" for one in given or () if "=" not in one}
    return plain | _targets([one for one in given or () if "=" in one])


def _secret(variable: str, question: str) -> str:
    """Return a secret from the environment or a prompt; empty without both."""
    if variable in os.environ:
        return os.environ[variable]
    return str(typer.prompt(question, hide_input=True)) if sys.stdin.isatty() else ""
