"""A chunk: what one fetch brought of one partition, as it came; the unit in which Faust hands records to a stage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Fetched(Protocol):
    """What of aiokafka's ConsumerRecord a stage's runner looks at."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """When the broker took it, in ms."""
        ...

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


@dataclass(frozen=True, slots=True)
class Chunk:
    """All that the partition holds from offset `start` up to, not including, `end`.

    Offsets between them may lack a record: compaction took it. `highwater` is where the partition ended then.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: Sequence[Fetched]
    highwater: int
