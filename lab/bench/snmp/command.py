"""`railsight bench snmp`: the collector, plain pysnmp and net-snmp's snmpbulkwalk on the same switch, in one run."""

from typing import Annotated

import typer

_MANY, _WHAT = 100_000, "values"


def snmp(
    ports: Annotated[int, typer.Option(min=1, max=4096, help="The number of the switch's ports.")] = 64,
    polls: Annotated[int, typer.Option(min=1, help="The number of times that each client reads both tables.")] = 20,
    at_once: Annotated[int, typer.Option(min=1, max=1000, help="The number of values per request.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the CPU of reading a switch by SNMP, v2c and v3 authPriv, beside plain pysnmp and snmpbulkwalk.

    Example: `railsight bench snmp --ports 64 --polls 5`.
    """
    import orjson

    from lab.bench.collector_costs import as_dict, lines
    from lab.bench.snmp.compare import compare

    costs = compare(ports, polls, at_once)
    if as_json:
        typer.echo(orjson.dumps(as_dict(costs, _MANY, _WHAT)))
        return
    for line in lines(costs, _MANY, _WHAT):
        typer.echo(line)
