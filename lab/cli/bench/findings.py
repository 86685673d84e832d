"""`railsight bench findings`: pages, memory and ids of a noisy day while `decide` is killed."""

from typing import Annotated

import typer

from streams.cli.options import AsJson, Config
from streams.cli.progress import progress


def findings(
    findings: Annotated[int, typer.Option(min=1, help="Findings of the period.")] = 100_000,
    hours: Annotated[float, typer.Option(min=0.5, help="Simulated hours.")] = 24,
    gpus: Annotated[int, typer.Option(min=64, help="Size of the fabric in GPUs.")] = 2048,
    planes: Annotated[int, typer.Option(min=1, help="Planes of the fabric.")] = 2,
    times: Annotated[float, typer.Option(min=0, help="Health events a node, in noisiest published rates.")] = 10,
    kills: Annotated[int, typer.Option(min=0, help="Times that decide is killed.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the faults, the answers and the kills.")] = 1,
    pages: Annotated[bool, typer.Option(help="List the pages.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Run a noisy day through attribute, decide and the page logic of notify, and kill decide meanwhile.

    Exit 1 if there are too many pages, an outage does not page, an id is decided twice differently, a finding is lost,
    or the state of decide grows without a bound.

    Example: `railsight bench findings --findings 1000 --hours 1 --kills 5`.
    """
    import orjson

    from lab.bench.findings.report import as_dict, problems, table_lines
    from lab.bench.findings.session import Options, measure
    from streams.cli.options import settings_of
    from streams.wire.errors import Misconfigured

    options = Options(findings, hours, gpus, planes, times=times, kills=kills, seed=seed)
    try:
        with progress("bench findings") as bar:
            outcome = measure(options, settings_of(config), bar.step)
    except ValueError as error:
        raise Misconfigured(str(error)) from error
    if as_json:
        typer.echo(orjson.dumps(as_dict(outcome)))
    else:
        for line in table_lines(outcome):
            typer.echo(line)
        for page in outcome.pages if pages else ():
            typer.echo(f"page {page.at_ns / 1e9:.0f} {page.name} {page.subject_id} {page.about}")
    if problems(outcome):
        raise typer.Exit(1)
