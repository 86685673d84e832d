"""`railsight bench decide`, `findings`, `locality`, `queries`, `gnmi` and `snmp` measure the cost of single parts."""

from typing import Annotated

import typer

from lab.cli.bench import measured, print_result, require
from streams.cli.options import AsJson, Config


def decide(
    gpus: Annotated[int, typer.Option(min=1, help="Size of the fabric in GPUs.")] = 131_072,
    decisions: Annotated[int, typer.Option(min=1, help="Decisions of each kind.")] = 300,
    down: Annotated[float, typer.Option(min=0, max=1, help="Share of the links that are down.")] = 0.001,
    unobserved: Annotated[float, typer.Option(min=0, max=1, help="Share of the devices without observation.")] = 0.001,
    isolated: Annotated[int, typer.Option(min=0, help="Links that earlier decisions isolated.")] = 10,
    approvals: Annotated[int, typer.Option(min=0, help="Approvals that are open when a control arrives.")] = 300,
    as_json: AsJson = False,
) -> None:
    """Time decisions on links and hosts, with all guards; exit 1 if one costs more than 10 ms (99th percentile), or one
    control with 300 open approvals more than 100 ms.

    Example: `railsight bench decide --gpus 2048`.
    """
    from lab.bench.decide_cost import Options, measure, table_lines
    from lab.bench.processes import machine_info

    with measured("bench decide", gpus * 1e-4 + decisions * 0.01) as run:
        cost = measure(Options(gpus, decisions, down, unobserved, isolated, approvals))
    lines = [machine_info(), *table_lines(cost, run.speed.load_s)]
    print_result(cost, lines, as_json=as_json, is_passed=cost.is_passed, speed=run.speed)


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
    from lab.bench.findings.session import Options, as_dict, measure, problems, table_lines
    from streams.cli.options import settings_of
    from streams.wire.errors import Misconfigured

    options = Options(findings, hours, gpus, planes, times=times, kills=kills, seed=seed)
    try:
        with measured("bench findings", findings * 9e-3 + hours * 10) as run:
            outcome = measure(options, settings_of(config), run.step)
    except ValueError as error:
        raise Misconfigured(str(error)) from error
    listed = outcome.pages if pages else ()
    page_lines = (f"page {page.at_ns / 1e9:.0f} {page.name} {page.subject_id} {page.about}" for page in listed)
    print_result(
        as_dict(outcome), [*table_lines(outcome), *page_lines], as_json=as_json, is_passed=not problems(outcome),
        speed=run.speed,
    )  # fmt: skip


def locality(
    gpus: Annotated[int, typer.Option(min=64, help="Size of the fabric in GPUs.")] = 131_072,
    placed_gpus: Annotated[int, typer.Option(min=1, help="GPUs of the job to place.")] = 1024,
    queries: Annotated[int, typer.Option(min=1, help="Distances to time.")] = 1000,
    impaired: Annotated[float, typer.Option(min=0, max=1, help="Share of links and hosts with a finding.")] = 0.001,
    as_json: AsJson = False,
) -> None:
    """Time the locality; exit 1 if a distance takes more than 1 ms, a placement 1 s, or an export 10 s.

    Example: `railsight bench locality --gpus 2048 --placed-gpus 256`.
    """
    from lab.bench.locality_cost import Options, measure, table_lines
    from lab.bench.processes import machine_info

    require("yaml")
    with measured("bench locality", 4 + gpus * 8e-5) as run:
        cost = measure(Options(gpus, placed_gpus, queries, impaired))
    lines = [machine_info(), *table_lines(cost, run.speed.load_s)]
    print_result(cost, lines, as_json=as_json, is_passed=cost.is_passed, speed=run.speed)


def queries(
    gpus: Annotated[int, typer.Option(min=8, help="Size of the fabric of the day in GPUs.")] = 2048,
    share: Annotated[
        float, typer.Option(min=0.001, max=1, help="Share of the largest fabric's ports in the week.")
    ] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Fill rollups and time queries; exit 1 if one takes longer than 1 s over the day or 2 s over the week.

    Example: `railsight bench queries --gpus 256 --share 0.05`.
    """
    from lab.bench.processes import machine_info
    from lab.bench.query_times import measure, table_lines

    require("clickhouse_connect", "chdb")
    with measured("bench queries", 30 + gpus * 0.02 + share * 300) as run:
        found = measure(gpus, share)
    lines = [machine_info(), *table_lines(found, run.speed.load_s)]
    print_result(found, lines, as_json=as_json, is_passed=found.is_passed, speed=run.speed)


def gnmi(
    updates: Annotated[int, typer.Option(min=50_000, help="The number of updates that each client reads.")] = 500_000,
    times: Annotated[int, typer.Option(min=1, max=20, help="The number of runs; a client's cheapest counts.")] = 3,
    bootstrap: Annotated[str, typer.Option(help="Kafka to write to; default: a broker of its own.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the CPU of reading a switch by gNMI, from the socket to Kafka, beside a client that walks paths.

    Example: `railsight bench gnmi --updates 100000`.
    """
    from lab.bench.collector_costs import as_dict, lines
    from lab.bench.gnmi_clients import compare

    with measured("bench gnmi", 10 + updates * times * 2e-5) as run:
        costs = compare(updates, times, bootstrap)
    table = lines(costs, 1_000_000, "updates", run.speed.load_s)
    print_result(as_dict(costs, 1_000_000, "updates"), table, as_json=as_json, speed=run.speed)


def snmp(
    ports: Annotated[int, typer.Option(min=1, max=4096, help="The number of the switch's ports.")] = 64,
    polls: Annotated[int, typer.Option(min=1, help="The number of times that each client reads both tables.")] = 20,
    at_once: Annotated[int, typer.Option(min=1, max=1000, help="The number of values per request.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure the CPU of reading a switch by SNMP, v2c and v3 authPriv, beside plain pysnmp and snmpbulkwalk.

    Example: `railsight bench snmp --ports 64 --polls 5`.
    """
    from lab.bench.collector_costs import as_dict, lines
    from lab.bench.snmp_clients import compare

    with measured("bench snmp", 10 + ports * polls * 0.02) as run:
        costs = compare(ports, polls, at_once)
    table = lines(costs, 100_000, "values", run.speed.load_s)
    print_result(as_dict(costs, 100_000, "values"), table, as_json=as_json, speed=run.speed)
