"""One line per run of `railsight bench growth`: how cost grows with the fabric and divides over workers."""

from lab.bench.report import Report

HEAD = (
    f"{'GPUs':>8}{'ports':>9}{'workers':>9}{'port-samples/s':>16}{'cores used':>12}{'CPU s/M':>9}"
    f"{'row p99 s':>11}{'finding p99 s':>15}{'lag at end':>12}{'pass':>6}  CPU s of each worker"
)


def row(report: Report) -> str:
    """Return a run as a line; the CPU of each worker shows how the partitions divide the work."""
    lag = sum(stage.lag_end for stage in report.stages)
    each = " + ".join(f"{part.cpu_s:.1f}" for part in report.parts if part.part.startswith("process"))
    return (
        f"{report.gpus:>8}{report.load.ports:>9}{report.workers:>9}{report.load.port_samples_per_s:>16,.0f}"
        f"{report.cpu_s / report.seconds:>12.2f}{report.cpu_s_per_million:>9.2f}"
        f"{_s(report.sample_to_row_s.p99):>11}{_s(report.flap_to_finding_s.p99):>15}{lag:>12,.0f}"
        f"{'yes' if report.is_passed else 'NO':>6}  {each}"
    )


def _s(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3f}"
