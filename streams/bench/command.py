"""`railsight bench NAME`: which benchmarks there are; the collectors' own are added where they are installed.

Each benchmark's own module declares its options and imports what it measures only when it is called.
"""

import typer

from streams.bench.backtest import backtest
from streams.bench.collectors import benches
from streams.bench.detection.command import detection
from streams.bench.growth import growth
from streams.bench.peers.command import peers
from streams.bench.pipeline import pipeline
from streams.bench.sizing import sizing

bench = typer.Typer(no_args_is_help=True, help="Measure what the pipeline costs on this machine.")


@bench.callback()
def _bench() -> None:
    """Benchmarks are subcommands."""


bench.command()(pipeline)
bench.command()(backtest)
bench.command()(detection)
bench.command()(growth)
bench.command()(peers)
bench.command()(sizing)
for _name, _collectors_own in benches().items():
    bench.command(_name)(_collectors_own)
