"""`railsight collect KIND`: one collector, until Ctrl-C or SIGTERM; or one reading of it, printed.

The collectors are those that are installed. A setting of one is `[collect.KIND]` in the configuration file, or
`--set key=value` over it (`shape.pods=4` for one inside another, JSON for lists).
"""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from streams.cli.collector_registry import installed_collectors, spec_of
from streams.cli.options import Bootstrap, Config
from streams.config.settings import Settings, load
from streams.wire.errors import Misconfigured


def collect(
    kind: Annotated[str, typer.Argument(help="Which collector, e.g. gnmi or sim.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    targets: Annotated[Path | None, typer.Option(help='JSON: a list of {"name", "address"}.')] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting as key=value; repeatable.")] = None,
    name: Annotated[str, typer.Option(help="The collector's name in what it writes.")] = "",
    acknowledged: Annotated[
        Path | None, typer.Option(help="File that gets, about once a second, what Kafka acknowledged.")
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Serve self-metrics on this port of loopback.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Take one reading and end.")] = False,
    print_it: Annotated[bool, typer.Option("--print", help="With --once: print it as JSON lines.")] = False,
) -> None:
    """Run one collector; it publishes nothing where neither --bootstrap nor the configuration says where Kafka is."""
    if once is not print_it:
        raise typer.BadParameter("--once and --print go together")
    spec = spec_of(kind)
    given = [*(settings or []), *([f"targets_file={targets}"] if targets else [])]
    environ = {**os.environ, **_said(kind, bootstrap, given)}
    read = settings_of_collector(kind, spec.Params, config, environ)
    params = read.collectors[kind]
    if once:
        if spec.once is None:
            raise Misconfigured(f"collect {kind}: it has no reading of its own to print")
        spec.print_once(params, typer.echo, collector=name)
        return
    kafka = read.kafka
    spec.start(
        params,
        client_options=kafka.client_options() if "bootstrap" in kafka.model_fields_set else None,
        partitions=kafka.partitions,
        collector=name,
        acknowledged_file=acknowledged,
        metrics_port=metrics_port,
        reload_settings=lambda: settings_of_collector(kind, spec.Params, config, environ).collectors[kind],
        configuration=() if config is None else (config,),
    )


def settings_of_collector(kind: str, params: type[BaseModel], config: Path | None, environ: dict[str, str]) -> Settings:
    """The settings with this collector's section, its defaults where nothing is said of it; raises Misconfigured."""
    others = installed_collectors().keys() - {kind}
    read = load(config, {kind: params}, environ, others)
    if kind not in read.collectors:
        # Said to be there, so that what it cannot do without is asked for by name.
        read = load(config, {kind: params}, {**environ, f"RAILSIGHT__COLLECT__{kind.upper()}": "{}"}, others)
    return read


def _said(kind: str, bootstrap: str | None, given: list[str]) -> dict[str, str]:
    """What the command line says, as the environment would say it, over which it goes."""
    said: dict[str, Any] = {} if bootstrap is None else {"RAILSIGHT__KAFKA__BOOTSTRAP": bootstrap}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals:
            raise Misconfigured(f"collect {kind}: --set {setting}: not of the form key=value")
        said[f"RAILSIGHT__COLLECT__{kind.upper()}__{key.replace('.', '__').upper()}"] = value
    return said
