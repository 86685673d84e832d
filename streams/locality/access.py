"""The topics from which the locality is put together, and the access of its service to Kafka."""

from streams.wire.access import Access
from streams.wire.topics import CONTROLS, FINDINGS_OPEN, INVENTORY, JOBS, REMEDIATIONS_OPEN, TOPOLOGY

READS = (INVENTORY, JOBS, FINDINGS_OPEN, REMEDIATIONS_OPEN, CONTROLS)
ACCESS = Access(reads=(*READS, TOPOLOGY), writes=(TOPOLOGY,))
"""It reads its own topic at the start, to write only what changed."""
