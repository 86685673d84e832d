"""`railsight topology export`: writes the groups of hosts as schedulers read them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.locality_source import InventoryFolder, locality_from
from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.printing import print_text
from streams.locality.export.write import FORMATS, Format, Plugin, export_text
from streams.wire.errors import Misconfigured

topology = typer.Typer(no_args_is_help=True, help="Write the topology for schedulers.")


@topology.callback()
def _topology() -> None:
    """Make `export` a subcommand, also while it is the only one."""


@topology.command()
def export(
    form: Annotated[Format, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")],
    plugin: Annotated[Plugin, typer.Option(help="Slurm's plugin; of slurm-yaml the default topology.")] = "tree",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write this file; default: standard output.")] = None,
    nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only these hosts, one a line; default: those of the inventory.")
    ] = None,
    inventory: InventoryFolder = None,
    config: Config = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Write topology.conf, topology.yaml, labels of nodes, or JSON; nothing is written if the result is not valid.

    Example: `railsight topology export --format slurm --out topology.conf`.
    """
    locality = locality_from(inventory, config, bootstrap)
    params = settings_of(config, bootstrap).locality
    text, without = export_text(locality.state, form, plugin, params, None if nodes is None else _read(nodes))
    if without:
        print_text(f"railsight topology: without a leaf, left out: {', '.join(without)}", err=True)
    if out is None:
        sys.stdout.write(text)
        return
    try:
        # A reader of the file sees the former or the new content, never a part.
        part = out.with_name(f".{out.name}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(out)
    except OSError as error:
        raise Misconfigured(f"{out}: {error.strerror}") from error


def _read(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    # `kubectl get nodes -o name` has a prefix.
    return [line.strip().removeprefix("node/") for line in lines if line.strip()]
