"""Defines `railsight inventory`: generates, drafts, imports, exports, checks, compares and publishes inventories."""

import asyncio
import csv
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
import typer

from streams.cli.options import AsJson, Bootstrap, Config, settings_of
from streams.cli.printing import Output, OutputForm, echo, form_of, print_rows, print_text, progress
from streams.fabric.checks import Problem, Tables, find_problems
from streams.fabric.clos import GPUS_PER_JOB, GenerateParams, ImpossibleFabric
from streams.fabric.clos import generate as generate_clos
from streams.fabric.inventory import Inventory, RowChanges, compare, digest, filled, first_names, validate, write_folder
from streams.fabric.inventory_folder import table_files
from streams.runtime.inventory_reader import inventory_in_effect
from streams.runtime.topic_io import inventory_records, publish
from streams.wire.errors import Misconfigured
from streams.wire.topics import OPERATOR

if TYPE_CHECKING:
    from streams.report.inventory_draft import Draft

inventory = typer.Typer(no_args_is_help=True, help="Generate, draft, import, check or publish an inventory.")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with devices, links, optionally ports and jobs.")]


_SIZE = GenerateParams(gpus=1)


@inventory.command()
def generate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write devices, links and jobs to.")],
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the fabric.")],
    radix: Annotated[int, typer.Option(min=2, help="Ports of a switch.")] = _SIZE.radix,
    planes: Annotated[int, typer.Option(min=1, help="Planes: a NIC has a port in each.")] = _SIZE.planes,
    rails: Annotated[int, typer.Option(min=1, help="Rails: NICs of a host.")] = _SIZE.rails,
    gpus_per_host: Annotated[int, typer.Option(min=1, help="GPUs of a host.")] = _SIZE.gpus_per_host,
    jobs: Annotated[
        int | None, typer.Option(min=0, help=f"Jobs that share the hosts; default: one for each {GPUS_PER_JOB} GPUs.")
    ] = None,
    fabric: Annotated[
        Literal["ethernet", "infiniband"], typer.Option(help="The names of ports and the models of switches.")
    ] = _SIZE.fabric,
    form: Annotated[Literal["csv", "parquet"], typer.Option("--format", help="csv or parquet.")] = "csv",
    force: Annotated[bool, typer.Option("--force", help="Replace the inventory that the folder has.")] = False,
    as_json: AsJson = False,
) -> None:
    """Generate a rail-optimised Clos fabric with as few tiers as the radix allows.

    Example: `railsight inventory generate --gpus 1024 fabric`.
    """
    _refuse_existing(folder, force)
    params = GenerateParams(
        gpus=gpus, radix=radix, planes=planes, rails=rails, gpus_per_host=gpus_per_host, jobs=jobs, fabric=fabric
    )  # fmt: skip
    with progress("inventory generate") as bar:
        try:
            made = generate_clos(params)
        except ImpossibleFabric as error:
            raise Misconfigured(str(error)) from error
        bar.step(f"writing {len(made.devices)} devices and {len(made.links)} links")
        write_folder(made, folder, form)
    _print_summary(made, folder, "generated", as_json)


@inventory.command()
def check(folder: Folder, as_json: AsJson = False) -> None:
    """Check an inventory and print every error and contradiction in it; exit 1 if there are any.

    Example: `railsight inventory check fabric`.
    """
    examined = validate(folder, time.time_ns())
    if not examined.problems:
        _print_summary(examined.inventory, folder, "fine", as_json)
        return
    if as_json:
        echo(orjson.dumps({"inventory": str(folder), "is": "wrong", "problems": _plain(examined.problems)}))
    _print_problems(examined.problems)
    raise typer.Exit(1)


@inventory.command()
def apply(
    folder: Folder,
    config: Config = None,
    bootstrap: Bootstrap = None,
    effective: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M:%S%z"], help="Event time at which it takes effect; default: now."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and publish nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, also if devices or links are removed.")] = False,
    if_none: Annotated[bool, typer.Option("--if-none", help="Publish only if no version is in effect.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check an inventory and publish it as one version.

    An impossible inventory is refused. Contradictions, which may exist while a fabric is built, are printed, and so is
    what changes against the version in effect. Without --yes it asks before devices or links are removed.

    Examples: `railsight inventory apply fabric --dry-run`, `railsight inventory apply fabric --yes`.
    """
    kafka = settings_of(config, bootstrap, OPERATOR).kafka
    read = _read_valid(folder)
    now_ns = time.time_ns()
    at_ns = now_ns if effective is None else round(effective.timestamp() * 1e9)
    present = asyncio.run(inventory_in_effect(kafka, now_ns))
    if present is not None and effective is None and digest(present) == digest(read):
        _print_summary(read, folder, "in effect already", as_json)
        return
    changes = () if present is None else compare(present, read)
    for change in changes:
        print_text(str(change), err=True)
    if present is not None and if_none:
        _print_summary(read, folder, "not published, another version is in effect", as_json)
        return
    if dry_run:
        _print_summary(read, folder, "not published", as_json)
        return
    if any(change.removed for change in changes) and not yes:
        _confirm_removal()
    asyncio.run(publish(kafka, inventory_records(read, at_ns)))
    _print_summary(read, folder, "published", as_json)


@inventory.command()
def draft(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write the draft and doubts.csv to.")],
    facts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Facts as JSON lines, as of a recording; default: of Kafka.")
    ] = None,
    gpus_per_host: Annotated[int, typer.Option(min=0, help="GPUs of hosts that report none.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the inventory that the folder has.")] = False,
    config: Config = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Write a draft from the LLDP neighbors and identities that devices report; doubts.csv has what to check.

    The draft completes the inventory in effect: kinds, pods, rails and links that it has stay.

    Examples: `railsight inventory draft draft`, `railsight inventory draft draft --facts facts.jsonl`.
    """
    from streams.report.inventory_draft import draft_inventory
    from streams.report.records import facts_of_file, facts_on_kafka

    _refuse_existing(folder, force)
    known = None
    if facts is not None:
        reported, skipped = facts_of_file(facts)
        for line in skipped:
            print_text(f"railsight inventory: {line}", err=True)
    else:
        kafka = settings_of(config, bootstrap, OPERATOR).kafka
        reported = asyncio.run(facts_on_kafka(kafka))
        known = asyncio.run(inventory_in_effect(kafka, time.time_ns()))
    if not reported:
        raise Misconfigured("no device reported facts: let the collectors run first, or give --facts FILE")
    made = draft_inventory(reported, gpus_per_host, known)
    silent = sorted({device.name for device in made.inventory.devices} - {found.device for found in reported})
    if silent:
        names = first_names(silent)
        print_text(f"railsight inventory: {len(silent)} devices have reported nothing yet ({names})", err=True)
    write_draft(made, folder, "LLDP", as_json)


@inventory.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="JSON of devices, interfaces and cables.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write the draft and doubts.csv to.")],
    form: Annotated[Literal["netbox"], typer.Option("--format", help="netbox: its REST API's lists.")] = "netbox",
    gpus_per_host: Annotated[int, typer.Option(min=0, help="GPUs of hosts without a number.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the inventory that the folder has.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a draft from exports of NetBox; doubts.csv has what to check.

    Give the answers of /api/dcim/devices/, /api/dcim/interfaces/ and /api/dcim/cables/, with all their pages.

    Example: `railsight inventory import devices.json interfaces.json cables.json draft`.
    """
    from streams.report.netbox.objects import read_exports
    from streams.report.netbox.to_inventory import draft_from_netbox

    _refuse_existing(folder, force)
    made = draft_from_netbox(read_exports(files), gpus_per_host)
    write_draft(made, folder, form, as_json)


@inventory.command()
def export(
    folder: Folder,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for devices, interfaces and cables as JSON.")],
    form: Annotated[Literal["netbox"], typer.Option("--format", help="netbox: its REST API's lists.")] = "netbox",
    force: Annotated[bool, typer.Option("--force", help="Replace the files that OUT has.")] = False,
) -> None:
    """Write an inventory in the shape of NetBox's REST API, as `import` reads it.

    Example: `railsight inventory export fabric netbox`.
    """
    from streams.report.netbox.from_inventory import netbox_export

    made = netbox_export(_read_valid(folder))
    if (existing := [name for name in made.answers if (out / name).exists()]) and not force:
        raise Misconfigured(f"{out} has {', '.join(existing)}; choose another folder, or replace them with --force")
    out.mkdir(parents=True, exist_ok=True)
    for name, answer in made.answers.items():
        (out / name).write_bytes(orjson.dumps(answer, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    for line in made.lost:
        print_text(f"railsight inventory: not in the export: {line}", err=True)
    counts = ", ".join(f"{answer['count']} {Path(name).stem}" for name, answer in made.answers.items())
    print_text(f"{out}: exported for {form}; {counts}")


@inventory.command()
def diff(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the new inventory or draft.")],
    present: Annotated[
        Path | None, typer.Argument(metavar="PRESENT", help="Folder to compare with; default: the version in effect.")
    ] = None,
    config: Config = None,
    bootstrap: Bootstrap = None,
    output: OutputForm = Output.TABLE,
    as_json: AsJson = False,
) -> None:
    """Print what an inventory adds, removes and changes; a blank column of DIR is unknown, not a change.

    Exit 1 if there is a change.

    Examples: `railsight inventory diff draft`, `railsight inventory diff draft fabric -o wide`.
    """
    if present is not None:
        before = _read_valid(present)
    else:
        kafka = settings_of(config, bootstrap, OPERATOR).kafka
        before = asyncio.run(inventory_in_effect(kafka, time.time_ns())) or Inventory()
    changes = compare(before, filled(_read_valid(folder), before))
    _print_changes(changes, form_of(output, as_json))
    if any(change.added or change.removed or change.changed for change in changes):
        raise typer.Exit(1)


def _print_changes(changes: Sequence[RowChanges], form: Output) -> None:
    """Print a line for each table, or a row for each added, removed and changed row."""
    if form is Output.TABLE:
        for change in changes:
            print_text(str(change))
        return
    rows = [{"table": change.table, "change": what, "name": name} for change in changes for what, name in change.rows()]
    print_rows(form, rows, orjson.dumps, ["TABLE", "CHANGE", "NAME"], lambda row: list(row.values()))


def _refuse_existing(folder: Path, force: bool) -> None:
    """Raise Misconfigured for a folder that has an inventory, unless `force` is set."""
    if (existing := table_files(folder)) and not force:
        names = ", ".join(path.name for path in existing)
        raise Misconfigured(f"{folder} has an inventory ({names}); choose another folder, or replace it with --force")


def write_draft(made: "Draft", folder: Path, source: str, as_json: bool) -> None:
    """Write a draft and its doubts, and print the problems of the draft."""
    write_folder(made.inventory, folder)
    with (folder / "doubts.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("table", "row", "column", "reason"))
        writer.writerows(made.doubts)
    _print_problems(find_problems(Tables(made.inventory, time.time_ns())))
    _print_summary(made.inventory, folder, f"a draft from {source} with {len(made.doubts)} doubts", as_json)


def _confirm_removal() -> None:
    """Prompt before devices or links are removed; a process without a terminal needs --yes."""
    if not sys.stdin.isatty():
        raise Misconfigured("devices or links would be removed: publish with --yes, or look first with --dry-run")
    if not typer.confirm("Remove these devices and links?", err=True):
        raise typer.Exit(1)


def _read_valid(folder: Path) -> Inventory:
    examined = validate(folder, time.time_ns())
    _print_problems(examined.problems)
    if examined.errors:
        raise typer.Exit(1)
    return examined.inventory


def _print_problems(problems: Sequence[Problem]) -> None:
    for problem in problems:
        print_text(f"railsight inventory: {problem}", err=True)


def _plain(problems: Sequence[Problem]) -> list[dict[str, object]]:
    return [problem._asdict() for problem in problems]


def _print_summary(inventory: Inventory, folder: Path, what: str, as_json: bool) -> None:
    fields = {
        "inventory": str(folder),
        "digest": digest(inventory),
        "devices": len(inventory.devices),
        "links": len(inventory.links),
    }
    if as_json:
        echo(orjson.dumps(fields | {"is": what}))
    else:
        print_text(f"{folder}: {what}; {fields['devices']} devices, {fields['links']} links, digest {fields['digest']}")
