"""Writes the sample recording of `deploy/examples/recording`: `python -m lab.bench.sample_recording`.

The recording has seven minutes of the benchmark's load for a fabric of two hosts, with its faults and their truth.
"""

import csv
import tempfile
from pathlib import Path

from lab.bench.recording import write_recording as generate
from streams.fabric.clos import GenerateParams
from streams.fabric.clos import generate as generate_clos
from streams.fabric.inventory import Inventory, write_folder
from streams.replay.recording import RejectedRows, read_events, read_lines, stream_samples
from streams.replay.recording_writer import write_recording
from streams.wire.models import CollectorStatus

FOLDER = Path(__file__).parents[2] / "deploy/examples/recording"
SECONDS, CADENCE_S, SEED = 300.0, 10.0, 1
TRUTH = ("start", "end", "condition", "device", "port")


def fabric() -> Inventory:
    """Return the generator's smallest fabric with two hosts of two rails."""
    return generate_clos(GenerateParams(gpus=8, radix=8, planes=1, rails=2, gpus_per_host=2))


def write(folder: Path) -> None:
    """Write the recording, its inventory and its truth."""
    inventory = fabric()
    with tempfile.TemporaryDirectory() as made:
        found = generate(inventory, Path(made), SECONDS, CADENCE_S, SEED)
        rejected = RejectedRows()
        write_recording(
            (
                *stream_samples([found.samples], rejected),
                *read_events([found.events], rejected),
                *read_lines(CollectorStatus, found.status, rejected),
            ),
            folder,
        )
        assert not rejected.reasons
    write_folder(inventory, folder / "inventory")
    with (folder / "truth.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(TRUTH)
        for truth in found.truths:
            writer.writerow((truth.start_ns, truth.end_ns, truth.condition.name.lower(), truth.device, truth.port))


if __name__ == "__main__":
    write(FOLDER)
