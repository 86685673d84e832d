"""`railsight ack ID`: acknowledges a finding, so that it does not page."""

from typing import Annotated

import typer

from streams.cli.options import Bootstrap, Config, settings_of
from streams.cli.printing import echo
from streams.report.acknowledge import acknowledge
from streams.wire.access import OPERATOR


def ack(
    identity: Annotated[str, typer.Argument(metavar="ID", help="Id of an open finding, or a prefix of it.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    reason: Annotated[str, typer.Option(help="Reason, for the record.")] = "",
    hours: Annotated[float | None, typer.Option(min=0, help="Duration; default: until it is resolved.")] = None,
) -> None:
    """Acknowledge one open finding; exit 1 if no open finding, or more than one, has this id.

    Acknowledgements that have no effect any more are removed from their topic.

    Example: `railsight ack 17f22e --reason 'cable is ordered' --hours 24`.
    """
    echo(acknowledge(settings_of(config, bootstrap, OPERATOR).kafka, identity, reason, hours))
