"""Renders the reports of runs: one report as text, several as lines and curves of `railsight bench growth`."""

import logging
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from lab.bench.load.group import METRICS
from lab.bench.reference_load import MachineSpeed
from lab.bench.report import Report
from lab.bench.statistics import Spread
from streams.wire.errors import Misconfigured

_MIB = 1 << 20
_NAMED = 10


def report_lines(report: Report, load_s: float = 1.0) -> Iterator[str]:
    """Yield the lines of the whole report; `/load` is a cost divided by the seconds of the reference load."""
    load = report.load
    yield (
        f"{report.gpus:,} GPUs: {load.devices:,} devices, {load.ports:,} ports, {load.links:,} links, {METRICS} metrics"
        f" every {report.cadence_s:g} s; {report.partitions} partitions, {report.workers} workers, {report.compression}"
    )
    yield (
        f"measured {report.seconds:.1f} s after a start of {report.start_s:.0f} s and a warm-up of"
        f" {report.warm_up_s:g} s, which are not in the figures"
    )
    yield f"on {report.machine}"
    yield (
        f"load: {load.messages_per_s:,.0f} messages/s, {load.port_samples_per_s:,.0f} port-samples/s,"
        f" {load.port_samples_per_s * METRICS:,.0f} values/s, {load.bytes_per_port_sample:.0f} bytes per port-sample;"
        f" its own cost {load.cpu_s / report.port_samples:.2f} CPU s per million (not counted below), lateness p99"
        f" {load.late_p99_s * 1000:.0f} ms, worst {load.late_max_s * 1000:.0f} ms"
    )
    yield (
        f"assumed: {load.senders} producers send for all devices, {load.messages_per_batch:.1f} messages per batch;"
        " a sender per host or switch sends single messages, which cost broker and readers more (--senders)"
    )
    yield ""
    yield from _parts(report, load_s)
    if not report.is_sustained:
        yield (
            f"the pipeline did not keep up ({report.stored_in_window:.0%} of what was sent was stored in the window):"
            " these are not the costs of this load"
        )
    yield ""
    yield from _stages(report)
    yield f"at the end of the window all was concluded on up to {report.behind_s:.1f} s before it"
    yield from (f"reported by the pipeline: {delay}" for delay in report.delays)
    yield ""
    yield _spread("sample to row in ClickHouse, as sampled each second (quick: 5 s)", report.sample_to_row_s)
    yield _spread("third link-down event to finding", report.flap_to_finding_s)
    yield _spread("  of which from its record in Kafka", report.flap_in_kafka_to_finding_s)
    yield _spread("link down for 30 s to finding", report.down_to_finding_s)
    yield ""
    yield from _sizes(report)
    yield from _kills(report)
    yield ""
    for verdict in report.verdicts:
        yield f"{'yes' if verdict.holds else 'NO ':<4}{verdict.statement}"
    yield from _some("missed", report.faults.missed)
    yield from _some("not read yet", report.faults.undecided)
    yield from _some("invented", report.faults.invented)
    yield from (f"problem: {problem}" for problem in report.problems)


def _some(what: str, names: Sequence[str]) -> Iterator[str]:
    yield from (f"{what}: {name}" for name in names[:_NAMED])
    if len(names) > _NAMED:
        yield f"{what}: {len(names) - _NAMED} more (--json names all)"


def _parts(report: Report, load_s: float) -> Iterator[str]:
    yield (
        f"{'process':<14}{'CPU s':>9}{'cores':>8}{'s/M port-samples':>18}{'/load':>9}{'s/M values':>12}{'peak MiB':>10}"
        f"{'MiB/min':>9}"
    )
    for part in report.parts:
        per = part.cpu_s / report.port_samples
        yield (
            f"{part.part:<14}{part.cpu_s:>9.2f}{part.cpu_s / report.seconds:>8.3f}{per:>18.3f}{per / load_s:>9.3f}"
            f"{per / METRICS:>12.4f}{part.peak_bytes / _MIB:>10.0f}{part.growth_bytes_per_s * 60 / _MIB:>+9.1f}"
        )
    yield (
        f"{'all':<14}{report.cpu_s:>9.2f}{report.cpu_s / report.seconds:>8.3f}{report.cpu_s_per_million:>18.3f}"
        f"{report.cpu_s_per_million / load_s:>9.3f}{report.cpu_s_per_million_values:>12.4f}"
        f"   {report.machine_used:.0%} of the machine; besides, {report.bench_cpu_s:.1f} s of the benchmark itself"
    )


def _stages(report: Report) -> Iterator[str]:
    yield f"{'stage':<14}{'records/s':>11}{'lag p50':>10}{'worst':>9}{'at end':>9}"
    for stage in report.stages:
        rate = f"{stage.records_per_s:,.0f}" if stage.records_per_s else "-"
        yield (
            f"{stage.stage:<14}{rate:>11}{stage.lag_p50:>10,.0f}{stage.lag_worst:>9,.0f}{stage.lag_end:>9,.0f}"
            f"{'   grows' if stage.grows else ''}"
        )


def _spread(what: str, spread: Spread) -> str:
    if spread.p50 is None or spread.p99 is None or spread.worst is None:
        return f"{what}: none"
    p50, p99, worst = (f"{value * 1000:,.0f} ms" for value in (spread.p50, spread.p99, spread.worst))
    return f"{what}: p50 {p50}, p99 {p99}, worst {worst} ({spread.count:,})"


def _sizes(report: Report) -> Iterator[str]:
    sent = max(1, report.load.port_samples_sent)
    kafka = sorted(report.stored.kafka_bytes.items(), key=lambda item: -item[1])
    for topic, size in kafka[:6]:
        yield f"Kafka {topic:<34}{size / _MIB:>10.1f} MiB{size / sent:>9.1f} bytes per port-sample"
    for table in report.stored.tables[:6]:
        yield (
            f"ClickHouse {table.table:<29}{table.bytes / _MIB:>10.1f} MiB{table.bytes / table.rows:>9.1f} bytes"
            f" per row, {table.rows:,} rows in {table.parts} parts"
        )


def _kills(report: Report) -> Iterator[str]:
    for kill in report.kills:
        times = (kill.first_owner_s, kill.all_owned_s, kill.caught_up_s)
        first, everything, caught_up = ("never" if at is None else f"{at:.1f} s" for at in times)
        yield (
            f"killed {kill.part} at {kill.at_s:.0f} s: its first partition owned after {first}, all after {everything},"
            f" lag at its earlier level after {caught_up}"
        )


HEAD = (
    f"{'GPUs':>8}{'ports':>9}{'workers':>9}{'port-samples/s':>16}{'cores used':>12}{'CPU s/M':>9}{'/load':>9}"
    f"{'row p99 s':>11}{'finding p99 s':>15}{'lag at end':>12}{'pass':>6}  CPU s of each worker"
)


def row(report: Report, speed: MachineSpeed) -> str:
    """Return a run as a line; the CPU of each worker shows the distribution of the partitions."""
    lag = sum(stage.lag_end for stage in report.stages)
    each = " + ".join(f"{part.cpu_s:.1f}" for part in report.parts if part.part.startswith("process"))
    return (
        f"{report.gpus:>8}{report.load.ports:>9}{report.workers:>9}{report.load.port_samples_per_s:>16,.0f}"
        f"{report.cpu_s / report.seconds:>12.2f}{report.cpu_s_per_million:>9.2f}"
        f"{report.cpu_s_per_million / speed.load_s:>9.2f}{_s(report.sample_to_row_s.p99):>11}"
        f"{_s(report.flap_to_finding_s.p99):>15}{lag:>12,.0f}"
        f"{'yes' if report.is_passed else 'NO':>6}  {each}{'  DISTURBED' if speed.disturbance else ''}"
    )


def _s(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f}"


def draw(reports: Sequence[Report], path: Path) -> None:
    """Draw one curve per number of workers to the file; its suffix selects the format."""
    # matplotlib logs every font that it considers, about a thousand lines.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, (cost, cores) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    by_workers = sorted(reports, key=lambda report: (report.workers, report.load.port_samples_per_s))
    for workers, own in groupby(by_workers, key=lambda report: report.workers):
        runs = list(own)
        loads = [run.load.port_samples_per_s for run in runs]
        label = f"{workers} worker{'s' if workers > 1 else ''}"
        cost.plot(loads, [run.cpu_s_per_million for run in runs], marker="o", label=label)
        cores.plot(loads, [run.cpu_s / run.seconds for run in runs], marker="o", label=label)
    for axes, title in ((cost, "CPU seconds per million port-samples"), (cores, "cores used")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("port-samples per second")
        axes.set_title(title)
        axes.grid(visible=True, which="both", alpha=0.3)
        axes.legend()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    finally:
        plt.close(figure)
