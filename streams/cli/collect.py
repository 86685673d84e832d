"""Defines `railsight collect KIND`, which runs one collector until Ctrl-C or SIGTERM, or prints one reading.

KIND is an installed collector. Its settings are in `[collect.KIND]` of the configuration file; `--set key=value`
overrides them (`shape.pods=4` for a nested setting, JSON for lists).
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel
from typer.core import TyperCommand

from streams.cli.options import Bootstrap, Config, installed_collectors, load_with_login, spec_of
from streams.cli.printing import echo
from streams.config.setting_meanings import meanings, section_of
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
        key_file=read.identity.key_file,
        otlp=read.otlp,
        cluster=read.kafka.cluster,
        reload_settings=lambda: settings_of_collector(kind, spec.Params, config, environ).collectors[kind],
        configuration=() if config is None else (config,),
    )


def settings_of_collector(kind: str, params: type[BaseModel], config: Path | None, environ: dict[str, str]) -> Settings:
    """Return the settings with this collector's section, which has its defaults if missing; raises Misconfigured."""
    others = installed_collectors().keys() - {kind}
    read = load(config, {kind: params}, environ, others)
    if kind not in read.collectors:
        # With an empty section, a missing required setting is reported by name.
        read = load(config, {kind: params}, {**environ, f"RAILSIGHT__COLLECT__{kind.upper()}": "{}"}, others)
    return read


def _as_environment(kind: str, given: list[str]) -> dict[str, str]:
    """Return the settings of the command line as environment variables, so that they override the environment."""
    variables: dict[str, str] = {}
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals:
            raise Misconfigured(f"collect {kind}: --set {setting}: not of the form key=value")
        variables[f"RAILSIGHT__COLLECT__{kind.upper()}__{key.replace('.', '__').upper()}"] = value
    return variables


_HELP = ("-h", "--help")


class CollectCommand(TyperCommand):
    """The command `collect`, whose help is the help of the named collector."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the arguments and find the collector before `--help` prints."""
        kind = next((word for word in args if word in installed_collectors()), None)
        if kind is not None and any(word in _HELP for word in args):
            self.help = collector_help(kind)
        return super().parse_args(ctx, args)


def collector_help(kind: str) -> str:
    """Return the help of one installed collector, in the paragraphs that typer prints."""
    spec = spec_of(kind)
    return "\n\n".join(
        [
            f"Run the collector {kind}; without --bootstrap or kafka.bootstrap it publishes nothing.",
            f"Example: `railsight collect {kind} {spec.example}`.",
            # A backspace stops typer from joining the lines of a paragraph.
            "\b\n"
            + "\n".join([f"Settings, under collect.{kind} in the file or as --set key=value:", *_lines(spec.Params)]),
        ]
    )


def _lines(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Yield a line for each setting in the spelling of `--set`, nested settings last."""
    inner = {name: found for name in model.model_fields if (found := section_of(model, name)) is not None}
    for name, info in model.model_fields.items():
        if name not in inner:
            default = "required" if info.is_required() else _text(info.get_default(call_default_factory=True))
            yield f"  {path}{name} ({default}): {meanings(model).get(name, '')}".replace("[", r"\[")
    for name, section in inner.items():
        yield from _lines(section, f"{path}{name}.")


def _text(value: object) -> str:
    if type(value).__name__ == "SecretStr" or value in (None, "", (), {}):
        return "none"
    return json.dumps(value, default=str, ensure_ascii=False)
