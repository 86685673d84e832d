"""`railsight bench NAME`: the group of all benchmarks; installed collectors add their own.

Each benchmark's module declares its options and imports what it measures only when it is called.
"""

import typer

from streams.cli.bench.backtest import backtest
from streams.cli.bench.baselines import baselines
from streams.cli.bench.calibration import calibration
from streams.cli.bench.collector_benchmarks import benches
from streams.cli.bench.corropt import corropt
from streams.cli.bench.decide import decide
from streams.cli.bench.detection import detection
from streams.cli.bench.fabrics import fabrics
from streams.cli.bench.findings import findings
from streams.cli.bench.growth import growth
from streams.cli.bench.locality import locality
from streams.cli.bench.pipeline import pipeline
from streams.cli.bench.queries import queries
from streams.cli.bench.sizing import sizing

bench = typer.Typer(no_args_is_help=True, help="Measure what the pipeline costs on this machine.")


@bench.callback()
def _bench() -> None:
    """Benchmarks are subcommands."""


bench.command()(pipeline)
bench.command()(backtest)
bench.command()(detection)
bench.command()(calibration)
bench.command()(fabrics)
bench.command()(growth)
bench.command()(baselines)
bench.command()(sizing)
bench.command()(corropt)
bench.command()(decide)
bench.command()(findings)
bench.command()(locality)
bench.command()(queries)
for _name, _command in benches().items():
    bench.command(_name)(_command)
