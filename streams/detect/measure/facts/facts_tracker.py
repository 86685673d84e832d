"""Follows Facts: which neighbors a device has and which versions it runs; reports only what others need."""

from collections.abc import Iterable
from typing import Any

from streams.detect.measure.facts.lldp_tracker import LldpTracker
from streams.detect.measure.facts.version_census import VersionCounter
from streams.detect.params import DetectParams
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import CablingReport, Facts, Symptom, VersionCensus
from streams.wire.symptoms import SourceSilence


class FactsTracker:
    """The Facts of the devices of one partition."""

    def __init__(self, params: DetectParams, shard: int) -> None:
        self._topology = Topology(Inventory())
        self._neighbors = LldpTracker(params.miscabled)
        self.versions = VersionCounter(params.drift, params.lateness_s, shard)

    def on_facts(self, facts: Facts) -> list[CablingReport]:
        """Process the Facts of a device; its versions are sent with the next census."""
        self.versions.on_facts(facts, self._topology)
        return self._neighbors.on_facts(facts)

    def set_topology(self, topology: Topology, at_ns: int) -> list[CablingReport]:
        """Use another version of the inventory, or other jobs."""
        if topology.devices is not self._topology.devices:
            self.versions.set_topology(topology)
        self._topology = topology
        return self._neighbors.set_topology(topology, at_ns)

    def on_symptoms(self, outputs: Iterable[object], watermark_ns: int) -> list[CablingReport | VersionCensus]:
        """Return what is sent with these outputs: neighbors of sources that fell silent or resumed, and a due census.

        There is nothing without outputs unless `versions.has_pending`.
        """
        found: list[CablingReport | VersionCensus] = []
        for output in outputs:
            if isinstance(output, Symptom) and isinstance(output.payload, SourceSilence):
                change = self._neighbors.source_silent
                if output.payload.has_resumed:
                    change = self._neighbors.source_resumed
                found += change(output.device, output.source, output.at_ns)
        return [*found, *self.versions.due(watermark_ns)]

    def dump(self) -> dict[str, Any]:
        """Return the state for a snapshot, as JSON holds it."""
        return {"neighbors": self._neighbors.dump(), "versions": self.versions.dump()}

    def load(self, data: dict[str, Any]) -> None:
        """Restore what `dump` returned."""
        self._neighbors.load(data["neighbors"])
        self.versions.load(data["versions"])
