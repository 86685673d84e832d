"""Writes the arrays of a fabric to a file for the load generator's process, and reads them back."""

from pathlib import Path

import numpy as np
import orjson

from lab.world.fabric_arrays import FabricArrays


def save(fabric: FabricArrays, path: Path) -> None:
    """Write the arrays for the load generator's process."""
    models = list(dict.fromkeys(fabric.ports))
    model_of = {rows: i for i, rows in enumerate(models)}
    content = {
        "devices": fabric.devices,
        "is_host": fabric.is_host,
        "models": models,
        "model": [model_of[rows] for rows in fabric.ports],
        "links": fabric.links,
    }
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY))


def load(path: Path) -> FabricArrays:
    """Read arrays that `save` wrote."""
    content = orjson.loads(path.read_bytes())
    models = [tuple(rows) for rows in content["models"]]
    return FabricArrays(
        tuple(content["devices"]),
        tuple(content["is_host"]),
        tuple(models[i] for i in content["model"]),
        np.array(content["links"], np.int64).reshape(-1, 2),
    )
