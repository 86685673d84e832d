"""Writes a figure with panels to a file; the same results give the same bytes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streams.wire.errors import Misconfigured


@contextmanager
def save(path: Path, rows: int, columns: int) -> Iterator[list[Any]]:
    """Yield the panels row by row, then write the figure; its suffix selects the format.

    Raises Misconfigured if the file cannot be written.
    """
    # It logs every font that it considers, a thousand lines.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = path.name
    mpl.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot as plt

    size = (4.5 * columns + 0.5, 2.6 * rows + 0.5)
    figure, panels = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    try:
        yield list(panels.flat)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"{path}: {error}") from error
    finally:
        plt.close(figure)
