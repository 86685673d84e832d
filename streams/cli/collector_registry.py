"""The installed collectors: each registers a Spec under the entry-point group `railsight.collectors`."""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import BaseModel

from streams.config.settings import Settings
from streams.wire.access import Access
from streams.wire.errors import Misconfigured

GROUP = "railsight.collectors"


def installed_collectors() -> dict[str, EntryPoint]:
    """Return the entry points of the collectors by name; imports none of them."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def spec_of(kind: str) -> Any:
    """Return the Spec of one collector; raise Misconfigured for an unknown name."""
    known = installed_collectors()
    if kind not in known:
        raise Misconfigured(f"unknown collector {kind}; installed: {', '.join(sorted(known)) or 'none'}")
    return known[kind].load()


def collector_access(settings: Settings) -> dict[str, Access]:
    """Return what the installed collectors do on Kafka with these settings, by the part that logs in."""
    found: dict[str, Access] = {}
    for name, entry in installed_collectors().items():
        spec = entry.load()
        found[spec.part] = found.get(spec.part, Access()) | spec.access(settings.collectors.get(name))
    return found


def collector_params() -> dict[str, type[BaseModel]]:
    """Return the Params of each installed collector, which validate its section of the configuration."""
    return {name: entry.load().Params for name, entry in installed_collectors().items()}
