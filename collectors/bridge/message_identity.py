"""Builds the messages of a fold's outputs, with identities from the source topic, so that repeats are equal. Pure.

The run is random, once for a partition, and is stored in the committed metadata; sequences increase within it, with
gaps, because a unit without values of a device takes a number too.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from collectors.bridge.fold import Gathered, NumberedEvent, Output, Position, Refused
from streams.wire.models import Event, Rejected, RowKind, Samples, Source
from streams.wire.topics import EVENTS, REJECTED, SAMPLES, Record, encode

_LONGEST_VALUE = 64 * 1024
_MARK = "railsight1"
_PATTERN = re.compile(rf"{_MARK} ([0-9a-f]{{1,16}}) (\d{{1,19}})((?: \d{{1,19}})*)")


class CommittedState(NamedTuple):
    """The metadata beside a committed offset: the partition's run, the next unit's number, and declared cuts."""

    run: int
    number: int
    cuts: tuple[int, ...] = ()

    def text(self) -> str:
        """Return the metadata text of a commit."""
        return " ".join([_MARK, f"{self.run:x}", str(self.number), *map(str, self.cuts)])


def committed_state(text: str | None) -> CommittedState | None:
    """Parse a commit's metadata; None if it is not the bridge's."""
    found = _PATTERN.fullmatch(text or "")
    if found is None or not (run := int(found[1], 16)):
        return None
    return CommittedState(run, int(found[2]), tuple(map(int, found[3].split())))


def state_at(position: Position, run: int, cuts: list[int]) -> str:
    """Return the metadata of a position, without the cuts before it, which were made."""
    return CommittedState(run, position.number, tuple(cut for cut in cuts if cut > position.offset)).text()


@dataclass(frozen=True, slots=True)
class MessageIdentity:
    """The identity of one partition's messages."""

    collector: str
    topic: str
    partition: int
    run: int

    def samples(self, gathered: Gathered) -> Samples:
        """Return the message of a reading."""
        reading = gathered.reading
        return Samples(
            gathered.device, Source.SOURCE_BRIDGE, self.collector, self.run, gathered.number, reading.sampled_at_ns,
            reading.received_at_ns, reading.boot_id, RowKind.ROW_KIND_PORT, reading.row, reading.rows_digest,
            reading.counters, reading.gauges, reading.row_delay_us,
        )  # fmt: skip

    def record(self, output: Output, now_ns: int) -> tuple[Record, int]:
        """Return the record of an output, and its rows of samples."""
        match output:
            case Gathered():
                return encode(SAMPLES, self.samples(output)), len(output.reading.row)
            case NumberedEvent(device, number, device_event, received_ns):
                event = Event(
                    device, device_event.port, device_event.kind, device_event.at_ns, received_ns, Source.SOURCE_BRIDGE,
                    self.collector, self.run, number, device_event.detail, device_event.code,
                )  # fmt: skip
                return encode(EVENTS, event), 0
            case Refused(offset, reason, value):
                refused = Rejected(
                    self.topic, self.partition, offset, "bridge", reason[:1000], now_ns, value[:_LONGEST_VALUE]
                )
                return encode(REJECTED, refused), 0
