"""What a snapshot of `correlate` holds, and what of whole devices is kept in it: restarts, and sources that are silent.

Everything here is of the pods of one partition.
"""

from dataclasses import dataclass, field

import orjson
from pydantic import TypeAdapter, ValidationError

from streams.detect.correlate.crowds import Crowds
from streams.detect.correlate.links import Links
from streams.detect.correlate.parts import Parts
from streams.detect.correlate.pod_rails import PodRails
from streams.detect.correlate.senders import Slowed
from streams.detect.correlate.stifles import Stifles
from streams.detect.correlate.storms import Storms
from streams.detect.correlate.uplinks import Uneven
from streams.detect.correlate.wires import Wires
from streams.detect.evidence.link_history import Interval
from streams.wire.errors import Reject
from streams.wire.models import (
    Source,
    Symptom,
)
from streams.wire.symptoms import SymptomKind


@dataclass(slots=True)
class Kept:
    """Everything that outlives a process."""

    watermark_ns: int = 0
    links: Links = field(default_factory=dict)
    restarts: dict[str, list[Interval]] = field(default_factory=dict)
    rails: dict[str, PodRails] = field(default_factory=dict)
    held: Storms = field(default_factory=dict)
    uneven: Uneven = field(default_factory=dict)
    crowded: Crowds = field(default_factory=dict)
    stifled: Stifles = field(default_factory=dict)
    slowed: Slowed = field(default_factory=dict)
    silent: dict[str, list[Source]] = field(default_factory=dict)
    """Device -> its sources that are silent."""
    wired: Wires = field(default_factory=dict)
    parts: Parts = field(default_factory=Parts)

    def hear(self, symptom: Symptom) -> None:
        """A device's source fell silent, or was heard again."""
        silent = [source for source in self.silent.pop(symptom.device, []) if source is not symptom.source]
        if symptom.kind is SymptomKind.SOURCE_SILENT:
            silent.append(symptom.source)
        if silent:
            self.silent[symptom.device] = silent

    def restarted(self, symptom: Symptom, remember_ns: int) -> bool:
        """A device restarted; False where that was known."""
        spans = self.restarts.get(symptom.device, [])
        span = (symptom.since_ns or symptom.at_ns, symptom.at_ns)
        if span in spans:
            return False
        horizon = self.watermark_ns - remember_ns
        self.restarts[symptom.device] = [*(s for s in spans if s[1] >= horizon), span]
        return True


_KEPT = TypeAdapter(Kept)


def snapshot(kept: Kept) -> bytes:
    """JSON, as `restored` takes it."""
    return orjson.dumps(kept, option=orjson.OPT_NON_STR_KEYS)


def restored(data: bytes) -> Kept:
    """What a snapshot held; Reject where it is none."""
    try:
        return _KEPT.validate_json(data)
    except ValidationError as error:
        raise Reject(f"not a snapshot of correlate: {error}") from error
