"""Encodes the bounds of a partition's blocks as metadata of the consumer group's committed offset.

The committed offset is the first record that is not known to be stored. With an intent, the block from there to
`last` may be stored in part, and is stored again with the same bounds and token; without one, a new block starts there.
"""

from dataclasses import dataclass

import orjson

METADATA_VERSION = 1


@dataclass(frozen=True, slots=True)
class BlockIntent:
    """One block of one partition: `first` to `last`, both included; `stamp_ms` is Kafka's time of its first record."""

    topic: str
    partition: int
    first: int
    last: int
    stamp_ms: int

    @property
    def token(self) -> str:
        """ClickHouse's deduplication token of the block; the stamp distinguishes a topic from one recreated later."""
        return f"{self.topic}/{self.partition}/{self.first}-{self.last}@{self.stamp_ms}"

    def metadata(self) -> str:
        """Return the metadata of the offset `first` while the block is being stored."""
        return orjson.dumps({"v": METADATA_VERSION, "last": self.last, "stamp": self.stamp_ms}).decode()


@dataclass(frozen=True, slots=True)
class Committed:
    """An offset before which all records are stored; `newest_ms` is Kafka's time of the last record."""

    newest_ms: int

    def metadata(self) -> str:
        """Return the metadata of the offset."""
        return orjson.dumps({"v": METADATA_VERSION, "newest": self.newest_ms}).decode()


def parse_metadata(topic: str, partition: int, offset: int, metadata: str) -> BlockIntent | Committed:
    """Return the meaning of a committed offset; metadata of another writer means that all before it is stored."""
    try:
        fields = orjson.loads(metadata)
        if fields["v"] == METADATA_VERSION and "last" in fields:
            return BlockIntent(topic, partition, offset, int(fields["last"]), int(fields["stamp"]))
        return Committed(int(fields["newest"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return Committed(0)
