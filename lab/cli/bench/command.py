"""`railsight bench NAME`: the group of all benchmarks.

Each benchmark's module declares its options and imports what it measures only when it is called.
"""

import typer

from lab.bench.gnmi.command import gnmi
from lab.bench.snmp.command import snmp
from lab.cli.bench.backtest import backtest
from lab.cli.bench.calibration import calibration
from lab.cli.bench.decide import decide
from lab.cli.bench.detection import detection
from lab.cli.bench.fabrics import fabrics
from lab.cli.bench.findings import findings
from lab.cli.bench.growth import growth
from lab.cli.bench.locality import locality
from lab.cli.bench.pipeline import pipeline
from lab.cli.bench.queries import queries
from lab.cli.bench.sizing import sizing

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
bench.command()(sizing)
bench.command()(decide)
bench.command()(findings)
bench.command()(locality)
bench.command()(queries)
bench.command()(gnmi)
bench.command()(snmp)
