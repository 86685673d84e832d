"""`railsight collect KIND`: one collector, until Ctrl-C or SIGTERM; or one reading of it, printed.

The collectors are those that are installed under the entry-point group `railsight.collectors`. Settings are given as
`--set key=value` (`tls.ca_file=…` for one inside another, JSON for lists), each over its default.
"""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pydantic import ValidationError

from streams.config.kafka import KafkaSettings
from streams.wire.errors import Misconfigured

GROUP = "railsight.collectors"


def collect(
    kind: Annotated[str, typer.Argument(help="Which collector, e.g. gnmi or sim.")],
    bootstrap: Annotated[str, typer.Option(help="Where Kafka is: host:port, several with commas.")] = "",
    targets: Annotated[Path | None, typer.Option(help='JSON: a list of {"name", "address"}.')] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting as key=value; repeatable.")] = None,
    name: Annotated[str, typer.Option(help="The collector's name in what it writes.")] = "",
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of the telemetry topics.")] = 8,
    acknowledged: Annotated[
        Path | None, typer.Option(help="File that gets, about once a second, what Kafka acknowledged.")
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Serve self-metrics on this port of loopback.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Take one reading and end.")] = False,
    print_it: Annotated[bool, typer.Option("--print", help="With --once: print it as JSON lines.")] = False,
) -> None:
    """Run one collector."""
    if once is not print_it:
        raise typer.BadParameter("--once and --print go together")
    spec = load(kind)
    params = validated(spec, settings or [], targets)
    if once:
        if spec.once is None:
            raise Misconfigured(f"collect {kind}: it has no reading of its own to print")
        spec.print_once(params, print, collector=name)
        return
    kafka = KafkaSettings.model_validate({"bootstrap": bootstrap, "telemetry_partitions": partitions})
    spec.start(
        params,
        client_options=kafka.client_options() if bootstrap else None,
        partitions=kafka.partitions,
        collector=name,
        acknowledged_file=acknowledged,
        metrics_port=metrics_port,
    )


def load(kind: str) -> Any:
    """The Spec of a collector; raises Misconfigured where none has the name."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if kind not in found:
        raise Misconfigured(f"collect: no collector {kind}; there are {', '.join(sorted(found)) or 'none'}")
    return found[kind].load()


def validated(spec: Any, settings: list[str], targets: Path | None) -> Any:
    """The collector's Params; raises Misconfigured with a line for each problem."""
    tree: dict[str, Any] = {}
    if targets is not None:
        tree["targets_file"] = str(targets)
    for given in settings:
        key, equals, value = given.partition("=")
        if not equals:
            raise Misconfigured(f"collect {spec.name}: --set {given}: not of the form key=value")
        *sections, last = key.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = _plain(value)
    try:
        return spec.Params.model_validate(tree)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        lines = [f"collect.{spec.name}.{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in problems]
        raise Misconfigured("\n".join(lines)) from error


def _plain(value: str) -> Any:
    """Lists and tables are JSON; all else is read by the setting's own type."""
    if value[:1] in ("[", "{"):
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError:
            return value
    return value
