"""`railsight collect KIND`: runs one collector until Ctrl-C or SIGTERM, or prints one reading of it.

The collectors are those that are installed. Their settings are in `[collect.KIND]` of the configuration file;
`--set key=value` overrides them (`shape.pods=4` for a nested setting, JSON for lists).
"""

import os
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel

from streams.cli.collector_registry import installed_collectors, spec_of
from streams.cli.options import Bootstrap, Config, load_with_login
from streams.cli.printing import echo
from streams.config.settings import Settings, load
from streams.wire.errors import Misconfigured


def collect(
    kind: Annotated[str, typer.Argument(help="Name of the collector, e.g. gnmi or sim.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    targets: Annotated[Path | None, typer.Option(help='JSON: a list of {"name", "address"}.')] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting as key=value; repeatable.")] = None,
    name: Annotated[str, typer.Option(help="Name of the collector in its messages.")] = "",
    acknowledged: Annotated[
        Path | None, typer.Option(help="File to count acknowledged messages in, about once a second.")
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Serve self-metrics and health on this port.")] = None,
    metrics_host: Annotated[str, typer.Option(help="Address of the self-metrics.")] = "127.0.0.1",
    once: Annotated[bool, typer.Option("--once", help="Take one reading and end.")] = False,
    print_it: Annotated[bool, typer.Option("--print", help="With --once: print it as JSON lines.")] = False,
) -> None:
    """Run one collector; it publishes nothing unless --bootstrap or the configuration has the address of Kafka.

    Examples: `railsight collect gnmi --targets targets.json --once --print`, `railsight collect nic --once --print`,
    `railsight collect snmp --config railsight.toml`. docs/configuration.md has the settings of each collector.
    """
    if once is not print_it:
        raise typer.BadParameter("--once and --print go together")
    spec = spec_of(kind)
    given = [*(settings or []), *([f"targets_file={targets}"] if targets else [])]
    environ = {**os.environ, **_as_environment(kind, given)}
    read = load_with_login(
        bootstrap, environ, lambda environ: settings_of_collector(kind, spec.Params, config, environ)
    )
    params = read.collectors[kind]
    if once:
        if spec.read_once is None:
            raise Misconfigured(f"collect {kind}: it has no single reading to print")
        spec.print_once(params, echo, collector=name)
        return
    kafka = read.kafka.of_part(spec.part)
    spec.start(
        params,
        client_options=kafka.client_options() if "bootstrap" in kafka.model_fields_set else None,
        partitions=kafka.partitions,
        collector=name,
        acknowledged_file=acknowledged,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
        health=read.health,
        reload_settings=lambda: settings_of_collector(kind, spec.Params, config, environ).collectors[kind],
        configuration=() if config is None else (config,),
    )


def settings_of_collector(kind: str, params: type[BaseModel], config: Path | None, environ: dict[str, str]) -> Settings:
    """Return the settings with this collector's section, by default with its defaults; raise Misconfigured."""
    others = installed_collectors().keys() - {kind}
    read = load(config, {kind: params}, environ, others)
    if kind not in read.collectors:
        # An empty section, so that a missing required setting is reported by name.
        read = load(config, {kind: params}, {**environ, f"RAILSIGHT__COLLECT__{kind.upper()}": "{}"}, others)
    return read


def _as_environment(kind: str, given: list[str]) -> dict[str, str]:
    """Return the settings of the command line as environment variables, which it overrides."""
    variables: dict[str, str] = {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals:
            raise Misconfigured(f"collect {kind}: --set {setting}: not of the form key=value")
        variables[f"RAILSIGHT__COLLECT__{kind.upper()}__{key.replace('.', '__').upper()}"] = value
    return variables
