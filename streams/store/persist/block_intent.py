"""Where a partition's blocks begin and end, as it is kept in the metadata of the group's offset.

`offset` is the first record not known to be stored. With an intent, the block from there to `last` may be stored in
part, and is stored again with the same bounds and the same token; without one, a new block begins there.
"""

from dataclasses import dataclass

import orjson

METADATA_VERSION = 1


@dataclass(frozen=True, slots=True)
class BlockIntent:
    """One block of one partition: `first` to `last`, both in it; `stamp_ms` is Kafka's time of its first record."""

    topic: str
    partition: int
    first: int
    last: int
    stamp_ms: int

    @property
    def token(self) -> str:
        """What ClickHouse knows the block by. The stamp tells a topic from one made anew under its name."""
        return f"{self.topic}/{self.partition}/{self.first}-{self.last}@{self.stamp_ms}"

    def metadata(self) -> str:
        """The metadata of the offset `first` while the block is being stored."""
        return orjson.dumps({"v": METADATA_VERSION, "last": self.last, "stamp": self.stamp_ms}).decode()


@dataclass(frozen=True, slots=True)
class Committed:
    """The metadata of an offset before which everything is stored; `newest_ms` is Kafka's time of the last record."""

    newest_ms: int

    def metadata(self) -> str:
        """As it is committed."""
        return orjson.dumps({"v": METADATA_VERSION, "newest": self.newest_ms}).decode()


def parse_metadata(topic: str, partition: int, offset: int, metadata: str) -> BlockIntent | Committed:
    """What a committed offset says; one that others wrote says that everything before it is stored."""
    try:
        said = orjson.loads(metadata)
        if said["v"] == METADATA_VERSION and "last" in said:
            return BlockIntent(topic, partition, offset, int(said["last"]), int(said["stamp"]))
        return Committed(int(said["newest"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return Committed(0)
