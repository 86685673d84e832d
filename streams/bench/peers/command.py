"""`railsight bench peers`: railsight beside what a user would otherwise run, on the same data in the same run."""

import logging
import time
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from streams.cli.options import AsJson

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from streams.bench.peers.environment import NotInstalled
    from streams.bench.peers.table import Line

SMALL = 500
"""Messages of the first run, whose price is taken off the second's."""
_NOTES = (
    "CPU s: user and system of the contender's process a million port-samples of 24 metrics; start-up taken off.",
    "railsight's holds a snapshot of everything; server: ClickHouse, with its merges and a last one of everything.",
    "All contenders decode with railsight's codec, and all but the object a port do the step with numpy.",
    "The answers of every line with a ratio were checked: each port that crossed a limit, once, and no other.",
)


def peers(
    messages: Annotated[int, typer.Option(min=1000, help="Messages in Kafka: 36.6 port-samples each.")] = 40_000,
    only: Annotated[
        list[str] | None, typer.Option(help="Of the contenders, only those whose program has this in its name.")
    ] = None,
    install: Annotated[
        bool, typer.Option(help="Make the environment of Quix Streams and Bytewax in the cache folder.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Compare with stock Faust, aiokafka, Quix Streams, Bytewax and gnmic's rows; each a ratio."""
    from streams.bench.peers import environment
    from streams.bench.peers.contenders import CONTENDERS
    from streams.bench.peers.contest import hold
    from streams.bench.peers.load import Load
    from streams.bench.peers.table import lines
    from streams.wire.errors import Misconfigured

    # A broker that has just begun says for a second that it leads no partition; what is sent then is sent again.
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    chosen = [one for one in CONTENDERS if not only or any(word in one.program for word in only)]
    if not chosen:
        raise Misconfigured(f"no contender is called so (there are {', '.join(one.program for one in CONTENDERS)})")
    python = _interpreter(install) if any(one.apart for one in chosen) else environment.NotInstalled("not needed")
    _, small = hold(Load(SMALL, time.time_ns()), chosen, python, _say)
    filled, whole = hold(Load(messages, time.time_ns()), chosen, python, _say)
    table = lines(chosen, small, whole, filled.port_samples)
    for told in [orjson.dumps(line.to_json()).decode() for line in table] if as_json else show(table):
        typer.echo(told)
    if any(line.said.startswith("WRONG") for line in table):
        raise typer.Exit(1)


def _interpreter(install: bool) -> "Path | NotInstalled":
    from streams.bench.peers import environment

    if (python := environment.made()) is not None:
        return python
    if not install:
        return environment.NotInstalled("run without --no-install, with a package index in reach")
    _say("installing Quix Streams and Bytewax into the cache folder")
    try:
        return environment.make()
    except environment.NotInstalled as error:
        return error


def _say(line: str) -> None:
    typer.echo(line, err=True)


def show(table: "Sequence[Line]") -> list[str]:
    """The table as lines for people."""
    shown = [f"{'':28}{'CPU s':>8}{'server':>8}{'ratio':>8}{'rows/s':>10}{'MiB':>7}{'bytes/row':>11}{'ratio':>7}"]
    for line in table:
        numbers = (
            f"{_number(line.cpu_s, 2):>8}{_number(line.server_cpu_s, 2):>8}{_number(line.ratio, 2):>8}"
            f"{_number(line.port_samples_per_s, 0):>10}{_number(line.peak_mib, 0):>7}"
            f"{_number(line.bytes_a_port_sample, 1):>11}{_number(line.bytes_ratio, 2):>7}"
        )
        shown.append(f"{line.name:28}{numbers}  {line.said or line.keeps}")
    return [*shown, *_NOTES]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
