"""`railsight bench NAME`: the group of all benchmarks.

Each benchmark's module declares its options, and imports the measured modules only when it is called.
"""

import typer

from lab.cli.bench.costs import decide, findings, gnmi, locality, queries, snmp
from lab.cli.bench.detection import calibration, detection, fabrics, night
from lab.cli.bench.pipeline import backtest, growth, pipeline, sizing

bench = typer.Typer(no_args_is_help=True, help="Measure what the pipeline costs on this machine.")


@bench.callback()
def _bench() -> None:
    """Benchmarks are subcommands."""


for command in (
    pipeline, backtest, detection, calibration, fabrics, night, growth, sizing, decide, findings, locality, queries,
    gnmi, snmp,
):  # fmt: skip
    bench.command()(command)
