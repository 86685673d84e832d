"""`railsight broker`: runs the embedded Kafka alone, until Ctrl-C, SIGTERM or the end of a broker."""

import json
import signal
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.options import Config, settings_of
from streams.embedded.kafka import EmbeddedKafka
from streams.runtime.foreground import foreground
from streams.wire.errors import Misconfigured


def broker(
    data: Annotated[Path | None, typer.Option(help="Data folder; default: in the user's data folder.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65533, help="Port of the first broker; default: a free one, then the same.")
    ] = None,
    brokers: Annotated[int | None, typer.Option(help="Number of brokers: 1 or 3; default: 1.")] = None,
    jars: Annotated[
        Path | None, typer.Option(help="Folder of the broker's jars, for a machine without a network.")
    ] = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one line of JSON.")] = False,
) -> None:
    """Run Apache Kafka on this machine, on loopback, and print its bootstrap address once it accepts requests."""
    if brokers not in (None, 1, 3):
        raise typer.BadParameter("1 or 3", param_hint="--brokers")
    given = {"data": data, "port": port, "brokers": brokers, "jars": jars}
    params = settings_of(config).embedded.kafka
    kafka = EmbeddedKafka(params.model_copy(update={name: value for name, value in given.items() if value is not None}))
    ended: list[int] = []
    try:
        with foreground(kafka.stop):
            kafka.start()
            print(_address(kafka, as_json), flush=True)  # noqa: T201 — the output of the command
            while not (ended := kafka.ended()):
                signal.sigtimedwait((), 1.0)
    except Misconfigured as error:
        typer.echo(f"railsight broker: {error}", err=True)
        raise typer.Exit(2) from error
    if ended:
        typer.echo(
            f"railsight broker: broker {ended[0]} ended on its own; see {kafka.data}/node-{ended[0]}/server.log",
            err=True,
        )
        raise typer.Exit(1)


def _address(kafka: EmbeddedKafka, as_json: bool) -> str:
    return json.dumps({"bootstrap": kafka.bootstrap, "data": str(kafka.data)}) if as_json else kafka.bootstrap
