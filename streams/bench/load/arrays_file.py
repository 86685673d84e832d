"""Writes the arrays of a fabric to a file for the load generator's process, and reads them back."""

from pathlib import Path

import numpy as np
import orjson

from streams.simulation.fabric_arrays import FabricArrays


def save(plant: FabricArrays, path: Path) -> None:
    """Write it for the generator's process."""
    models = list(dict.fromkeys(plant.ports))
    model_of = {rows: i for i, rows in enumerate(models)}
    said = {
        "devices": plant.devices,
        "is_host": plant.is_host,
        "models": models,
        "model": [model_of[rows] for rows in plant.ports],
        "links": plant.links,
    }
    path.write_bytes(orjson.dumps(said, option=orjson.OPT_SERIALIZE_NUMPY))


def load(path: Path) -> FabricArrays:
    """The inverse of `save`."""
    said = orjson.loads(path.read_bytes())
    models = [tuple(rows) for rows in said["models"]]
    return FabricArrays(
        tuple(said["devices"]),
        tuple(said["is_host"]),
        tuple(models[i] for i in said["model"]),
        np.array(said["links"], np.int64).reshape(-1, 2),
    )
