"""Draws the curves of `railsight bench growth`: CPU seconds per million, and cores used, over the load."""

import logging
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from streams.wire.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.bench.report import Report


def refuse_without_matplotlib() -> None:
    """Raise Misconfigured before anything is measured."""
    if find_spec("matplotlib") is None:
        raise Misconfigured("a picture needs matplotlib: install railsight[bench]")


def draw(reports: "Sequence[Report]", path: Path) -> None:
    """Draw one curve per number of workers to the file; its suffix selects the format."""
    # It logs every font that it considers, a thousand lines.
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
