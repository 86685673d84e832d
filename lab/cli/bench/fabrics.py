"""`railsight bench fabrics`: what was found on each fabric, over results of the detection benchmark."""

from pathlib import Path
from typing import Annotated

import typer


def fabrics(
    results: Annotated[list[Path], typer.Argument(help="Results of `railsight bench detection --json`.")],
) -> None:
    """Print as Markdown tables what detection trials found on each fabric, and what its sources cannot show.

    Example: `railsight bench fabrics planes-504.json nic-504.json`.
    """
    from lab.bench.detection.results import effects_line, found_table, read_results, reasons_table

    read = read_results(results)
    for line in (*found_table(read), "", effects_line(read), "", *reasons_table(read)):
        typer.echo(line)
