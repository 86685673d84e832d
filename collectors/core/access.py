"""The access of collectors to Kafka: they write telemetry, and share targets with others of their group."""

from pydantic import BaseModel

from streams.wire.access import Access
from streams.wire.topics import COLLECTOR_STATUS, EVENTS, FACTS, SAMPLES, TARGETS

GROUP_PREFIX = "railsight.collect."
"""Of the consumer groups of collectors that share targets."""

TELEMETRY = Access(reads=(TARGETS,), writes=(SAMPLES, EVENTS, FACTS, COLLECTOR_STATUS), group_prefixes=(GROUP_PREFIX,))


def telemetry(_: BaseModel | None) -> Access:
    """Return the access of a collector of devices, which its settings do not change."""
    return TELEMETRY
