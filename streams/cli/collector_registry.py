"""The collectors that are installed: whatever registers a Spec under the entry-point group `railsight.collectors`."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import BaseModel

from streams.wire.errors import Misconfigured

GROUP = "railsight.collectors"


def installed_collectors() -> dict[str, EntryPoint]:
    """The collectors by name, none of them imported."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def spec_of(kind: str) -> Any:
    """The Spec of one collector; raises Misconfigured where none has the name."""
    found = installed_collectors()
    if kind not in found:
        raise Misconfigured(f"no collector {kind}; there are {', '.join(sorted(found)) or 'none'}")
    return found[kind].load()


def collector_params() -> dict[str, type[BaseModel]]:
    """The Params of each installed collector, for the configuration to validate its section with."""
    return {name: entry.load().Params for name, entry in installed_collectors().items()}
