"""What follows from Facts: how a device is cabled and what it runs, told only where somebody has to know."""

from collections.abc import Iterable
from typing import Any

from streams.detect.measure.facts.lldp_tracker import LldpTracker
from streams.detect.measure.facts.version_census import VersionCounter
from streams.detect.params import DetectParams
from streams.fabric.inventory import Inventory
from streams.fabric.topology import Topology
from streams.wire.models import CablingReport, Facts, Symptom, VersionCensus
from streams.wire.symptoms import SymptomKind


class FactsTracker:
    """What devices say of themselves, in one partition."""

    def __init__(self, params: DetectParams, shard: int) -> None:
        self._topology = Topology(Inventory())
        self._cablings = LldpTracker(params.miscabled)
        self.counted = VersionCounter(params.drift, params.lateness_s, shard)

    def on_facts(self, facts: Facts) -> list[CablingReport]:
        """A device's word; what it runs is told with the next census."""
        self.counted.on_facts(facts, self._topology)
        return self._cablings.on_facts(facts)

    def set_topology(self, topology: Topology, at_ns: int) -> list[CablingReport]:
        """Another version of the inventory, or other jobs."""
        if topology.devices is not self._topology.devices:
            self.counted.set_topology(topology)
        self._topology = topology
        return self._cablings.set_topology(topology, at_ns)

    def on_symptoms(self, said: Iterable[object], watermark_ns: int) -> list[CablingReport | VersionCensus]:
        """What has to be told beside these symptoms: a silent source is no witness; and a census that is due.

        Where there are no symptoms and `counted` has no news, there is nothing.
        """
        found: list[CablingReport | VersionCensus] = []
        for symptom in said:
            if isinstance(symptom, Symptom) and not symptom.port:
                if symptom.kind is SymptomKind.SOURCE_SILENT:
                    found += self._cablings.source_silent(symptom.device, symptom.source, symptom.at_ns)
                elif symptom.kind is SymptomKind.SOURCE_RESUMED:
                    found += self._cablings.source_resumed(symptom.device, symptom.source, symptom.at_ns)
        return [*found, *self.counted.due(watermark_ns)]

    def dump(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"cablings": self._cablings.dump(), "census": self.counted.dump()}

    def load(self, data: dict[str, Any]) -> None:
        """Fill it from what `dump` gave."""
        self._cablings.load(data["cablings"])
        self.counted.load(data["census"])
