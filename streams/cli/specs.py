"""The collectors that are installed: whatever registers a Spec under the entry-point group `railsight.collectors`."""

from importlib.metadata import entry_points
from typing import Any

from pydantic import BaseModel

GROUP = "railsight.collectors"


def specs() -> dict[str, Any]:
    """Each installed collector's Spec, by its name."""
    loaded = (entry.load() for entry in entry_points(group=GROUP))
    return {spec.name: spec for spec in loaded}


def params_of_collectors() -> dict[str, type[BaseModel]]:
    """The Params of each installed collector, for the configuration to validate its section with."""
    return {name: spec.Params for name, spec in specs().items()}
