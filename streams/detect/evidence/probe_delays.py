"""Finds periods in which active probes from and to one rail take longer than other flows of the same probers.

Windows within the lateness may still change, so they are retained by partition; older ones are merged into periods.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from streams.detect.detector import Context
from streams.detect.evidence.link_history import FOREVER
from streams.detect.thresholds import ns
from streams.fabric.intervals import Interval
from streams.wire.models import RailDelays

_GAP = 2
"""The allowed gap in widths of a window: a prober that stalls omits one window."""


@dataclass(frozen=True, slots=True, order=True)
class DelayPeriod:
    """Consecutive windows with nearly all flows from the rail delayed; the numbers are of one window."""

    begin_ns: int
    end_ns: int
    width_ns: int
    """The width of a window."""
    own_flows: int
    own_delayed: int
    peers: int
    """Other hosts whose flows to the rail are delayed: the maximum over the windows."""
    delay_ns: int
    """The largest median of a window."""

    @property
    def closes_ns(self) -> int:
        """Return the watermark from which no timely window can continue it."""
        return self.end_ns + _GAP * self.width_ns

    def last_ns(self, watermark_ns: int) -> int:
        """Return its end; FOREVER while another window may continue it."""
        return FOREVER if self.closes_ns > watermark_ns else self.end_ns

    def overlap_ns(self, span: Interval) -> int:
        """Return its duration within an interval; negative if it lies outside. A burst is short."""
        return min(self.end_ns, span[1]) - max(self.begin_ns, span[0])


@dataclass(frozen=True, slots=True)
class ProbeDelays:
    """All windows of one rail: final ones as periods, the others by their end and by partition."""

    windows: dict[str, dict[str, RailDelays]] = field(default_factory=dict)
    final: tuple[DelayPeriod, ...] = ()

    def observe(self, seen: RailDelays, final_ns: int) -> "ProbeDelays":
        """Return the delays with a window of one partition added or replaced; itself if nothing changes."""
        shards = self.windows.get(str(seen.end_ns), {})
        if seen.end_ns <= final_ns or shards.get(str(seen.shard)) == seen:
            return self
        return replace(self, windows=self.windows | {str(seen.end_ns): shards | {str(seen.shard): seen}})

    def periods(self, least_peers: int) -> list[DelayPeriod]:
        """Return, in order, the periods in which the flows of at least this number of other hosts are delayed too."""
        periods = _joined([*self.final, *_delayed(self.windows.values())])
        return [period for period in periods if period.peers >= least_peers]

    def settled(self, final_ns: int, since_ns: int) -> "ProbeDelays":
        """Return the delays with windows up to `final_ns` merged, and without those that ended before `since_ns`."""
        final = (own for end, own in self.windows.items() if int(end) <= final_ns)
        periods = _joined([*self.final, *_delayed(final)])
        left = {end: own for end, own in self.windows.items() if int(end) > final_ns}
        return ProbeDelays(left, tuple(period for period in periods if period.end_ns > since_ns))


def _delayed(windows: Iterable[dict[str, RailDelays]]) -> Iterator[DelayPeriod]:
    """Yield the windows in which nearly all flows from the rail are delayed."""
    for shards in windows:
        own = next((one for one in shards.values() if one.own_delayed), None)
        if own is not None:
            yield DelayPeriod(
                own.begin_ns, own.end_ns, own.end_ns - own.begin_ns, own.own_flows, own.own_delayed,
                sum(one.peers for one in shards.values()), own.delay_ns,
            )  # fmt: skip


def _joined(periods: Iterable[DelayPeriod]) -> list[DelayPeriod]:
    """Return the periods in order, joining those with less than a gap between them."""
    found: list[DelayPeriod] = []
    for one in sorted(periods):
        known = found[-1] if found else None
        if known is not None and one.begin_ns < known.closes_ns:
            worst = max(known, one, key=lambda period: (period.peers, period.delay_ns))
            found[-1] = replace(worst, begin_ns=known.begin_ns, end_ns=max(known.end_ns, one.end_ns))
        else:
            found.append(one)
    return found


def observe_delays(
    delays: dict[str, ProbeDelays], key: str, seen: RailDelays, context: Context
) -> dict[str, ProbeDelays]:
    """Return the delays by link after a window of the link `key`; the same object if nothing changes."""
    known = delays.get(key) or ProbeDelays()
    own = known.observe(seen, context.watermark_ns - ns(context.settings.lateness_s))
    return delays if own is known else delays | {key: own}


def prune_delays(
    delays: Mapping[str, ProbeDelays], since_ns: Mapping[str, int], old_ns: int, context: Context
) -> dict[str, ProbeDelays]:
    """Return the delays with final windows merged, without those that ended by `old_ns`, or by `since_ns` of a link."""
    final_ns = context.watermark_ns - ns(context.settings.lateness_s)
    left = {key: own.settled(final_ns, since_ns.get(key, old_ns)) for key, own in delays.items()}
    return {key: own for key, own in left.items() if own != ProbeDelays()}


def last_end_ns(delays: Mapping[str, ProbeDelays]) -> int:
    """Return the end of the last retained window; 0 if there is none."""
    windows = (int(end) for own in delays.values() for end in own.windows)
    return max((*windows, *(period.end_ns for own in delays.values() for period in own.final)), default=0)
