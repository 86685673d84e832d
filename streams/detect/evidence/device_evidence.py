"""Defines the evidence on one device: silences of its sources, restarts, and links that other ends report lost."""

from dataclasses import dataclass, field, replace

from streams.detect.evidence.link_history import FOREVER
from streams.wire.models import Source, Subject
from streams.wire.symptoms import ClockOffset, SourceSilence

AGENTS = (Source.SOURCE_NIC, Source.SOURCE_HOST, Source.SOURCE_PROBE)
"""The sources that run on the device itself; they share its clock."""


@dataclass(frozen=True, slots=True)
class Silence:
    """One source of one device delivered no data in [since_ns, resumed_ns); the limit passed at `detected_ns`."""

    source: Source
    since_ns: int
    detected_ns: int
    resumed_ns: int = FOREVER
    boot_id: int = 0
    collector: str = ""
    collector_silent: bool = False
    collector_error: str = ""
    live_sources: int = 0
    """The number of the device's other sources that delivered data at `detected_ns`."""

    @property
    def is_of_collector(self) -> bool:
        """Return whether a collector elsewhere is silent; a host's own agents are silent if the host is down."""
        return self.collector_silent and self.source not in AGENTS


@dataclass(frozen=True, slots=True)
class Restart:
    """The device restarted in (since_ns, at_ns]; `boot_id` is the boot that ended, 0 if unknown."""

    since_ns: int
    at_ns: int
    boot_id: int = 0
    by_event: bool = False


@dataclass(frozen=True, slots=True)
class WrongClock:
    """The clock with which a source dates its samples was wrong in [since_ns, right_ns), as known at `detected_ns`."""

    source: Source
    since_ns: int
    detected_ns: int
    first_offset_ns: int
    """The first measured offset; negative means behind."""
    offset_ns: int
    """The largest offset."""
    is_constant: bool = False
    of_collector: bool = False
    """True if the statuses of a collector show it; the subject then has the collector's name."""
    right_ns: int = FOREVER


@dataclass(frozen=True, slots=True)
class LostLink:
    """A link of the device that its other end reported down from `down_ns` to `up_ns`, known at `reported_ns`."""

    link_id: str
    down_ns: int
    up_ns: int
    reported_ns: int
    is_intermittent: bool = False
    """True if the link went down and recovered repeatedly in that time."""


@dataclass(frozen=True, slots=True)
class DeviceEvidence:
    """All evidence on one device. `silences` are by source; `links` is the number of its links.

    `neighbor_silences` has the silences, by source, of each silent device at the other ends of its links.
    """

    subject: Subject
    silences: dict[str, list[Silence]]
    restarts: list[Restart]
    lost: list[LostLink]
    links: int
    neighbor_silences: tuple[dict[str, list[Silence]], ...] = ()
    clocks: list[WrongClock] = field(default_factory=list)


def update_silences(
    limit_ns: int, silences: list[Silence], source: Source, since_ns: int, at_ns: int, observed: SourceSilence
) -> list[Silence]:
    """Return the silences of a source after it became silent or resumed.

    A resumption may be the first report of a gap. A resumption within `limit_ns` fills the gap: there was no silence.
    """
    resumed = observed.has_resumed
    if resumed and at_ns - since_ns <= limit_ns:
        return [silence for silence in silences if silence.since_ns != since_ns]
    if any(silence.since_ns == since_ns for silence in silences):
        return [
            replace(silence, resumed_ns=at_ns) if resumed and silence.since_ns == since_ns else silence
            for silence in silences
        ]
    silence = Silence(
        source=source,
        since_ns=since_ns,
        detected_ns=min(at_ns, since_ns + limit_ns) if resumed else at_ns,
        resumed_ns=at_ns if resumed else FOREVER,
        boot_id=observed.boot_id,
        collector=observed.collector,
        collector_silent=observed.collector_silent,
        collector_error=observed.collector_error,
        live_sources=observed.live_sources,
    )
    return [*silences, silence]


def update_clocks(
    min_offset_ns: int, clocks: list[WrongClock], source: Source, since_ns: int, at_ns: int, observed: ClockOffset
) -> list[WrongClock]:
    """Return the wrong clocks of a device after a source's clock took another offset or became right again.

    A report belongs to the interval with its start, or to the open interval: an owner of `measure` after a loss of
    state, or another partition with devices of the same collector, dates the start later. An interval ends where the
    offset crosses `min_offset_ns`: a clock that is always 2 s ahead does not date its jump of an hour.
    """

    def is_of(clock: WrongClock) -> bool:
        return clock.source is source and (clock.since_ns <= since_ns < clock.right_ns or clock.right_ns == FOREVER)

    known = next((clock for clock in clocks if is_of(clock)), None)
    others = [clock for clock in clocks if clock is not known]
    offset_ns = observed.offset_ns
    was_off = known is not None and abs(known.offset_ns) >= min_offset_ns
    if known is not None and not observed.is_right and was_off is not (abs(offset_ns) >= min_offset_ns):
        clocks, known = [*others, replace(known, right_ns=max(known.since_ns, since_ns))], None
    if known is None:
        if observed.is_right:
            return clocks
        clock = WrongClock(source, since_ns, at_ns, offset_ns, offset_ns, observed.is_constant, observed.of_collector)
        return [*clocks, clock]
    if observed.is_right:
        return [*others, replace(known, right_ns=min(known.right_ns, at_ns))]
    largest_ns = max(known.offset_ns, offset_ns, key=abs)
    since_ns, at_ns = min(known.since_ns, since_ns), min(known.detected_ns, at_ns)
    return [*others, replace(known, since_ns=since_ns, detected_ns=at_ns, offset_ns=largest_ns)]
