"""`railsight score`: compares findings with the ground truth."""

import json
from pathlib import Path
from typing import Annotated

import typer


def score(
    findings: Annotated[Path, typer.Option(help="Output of `backtest` or `demo --out`.")],
    truth: Annotated[Path, typer.Option(help="Ground truth, as CSV.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Print precision, recall and time to detect per condition; exit 1 unless precision and recall are 1.

    Example: `railsight score --findings findings.jsonl --truth truth.csv`.
    """
    from streams.replay.results import read_findings
    from streams.replay.score import read_truth
    from streams.replay.score import score as compare
    from streams.replay.score_report import as_dict, as_table

    outcome = compare(read_findings(findings), read_truth(truth))
    if as_json:
        typer.echo(json.dumps(as_dict(outcome)))
    else:
        typer.echo(as_table(outcome))
    if not outcome.perfect:
        raise typer.Exit(1)
