"""The messages of what a fold says: their identity comes from the peers' topic, so that a repeat has the same. Pure.

The run is drawn once for a partition of a topic and kept with what is committed of it; sequences grow within it and
have holes: a unit in which a device says nothing takes a number too.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

from collectors.bridge.fold import Gathered, NumberedEvent, Output, Position, Refused
from streams.wire.models import Event, Rejected, RowKind, Samples, Source
from streams.wire.topics import EVENTS, REJECTED, SAMPLES, Record, encode

_LONGEST_VALUE = 64 * 1024
_MARK = "railsight1"
_KEPT = re.compile(rf"{_MARK} ([0-9a-f]{{1,16}}) (\d{{1,19}})((?: \d{{1,19}})*)")


class CommittedState(NamedTuple):
    """What is committed beside an offset: the partition's run, the next unit's number, and cuts that were declared."""

    run: int
    number: int
    cuts: tuple[int, ...] = ()

    def text(self) -> str:
        """As the metadata of a commit."""
        return " ".join([_MARK, f"{self.run:x}", str(self.number), *map(str, self.cuts)])


def committed_state(text: str | None) -> CommittedState | None:
    """What a commit's metadata says; None where it is not ours."""
    said = _KEPT.fullmatch(text or "")
    if said is None or not (run := int(said[1], 16)):
        return None
    return CommittedState(run, int(said[2]), tuple(map(int, said[3].split())))


def state_at(position: Position, run: int, cuts: list[int]) -> str:
    """The metadata of a position: declared cuts that lie before it were made."""
    return CommittedState(run, position.number, tuple(cut for cut in cuts if cut > position.offset)).text()


@dataclass(frozen=True, slots=True)
class MessageIdentity:
    """Whose messages they are."""

    collector: str
    topic: str
    partition: int
    run: int

    def samples(self, said: Gathered) -> Samples:
        """The message of a reading."""
        reading = said.reading
        return Samples(
            said.device, Source.SOURCE_BRIDGE, self.collector, self.run, said.number, reading.sampled_at_ns,
            reading.received_at_ns, reading.boot_id, RowKind.ROW_KIND_PORT, reading.row, reading.rows_digest,
            reading.counters, reading.gauges, reading.row_delay_us,
        )  # fmt: skip

    def record(self, said: Output, now_ns: int) -> tuple[Record, int]:
        """The record of what a fold said, and how many rows of samples it carries."""
        match said:
            case Gathered():
                return encode(SAMPLES, self.samples(said)), len(said.reading.row)
            case NumberedEvent(device, number, happening, received_ns):
                event = Event(
                    device, happening.port, happening.kind, happening.at_ns, received_ns, Source.SOURCE_BRIDGE,
                    self.collector, self.run, number, happening.detail, happening.code,
                )  # fmt: skip
                return encode(EVENTS, event), 0
            case Refused(offset, reason, value):
                refused = Rejected(
                    self.topic, self.partition, offset, "bridge", reason[:1000], now_ns, value[:_LONGEST_VALUE]
                )
                return encode(REJECTED, refused), 0
