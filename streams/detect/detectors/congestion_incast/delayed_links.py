"""Finds the incasts that no counter shows: a host's link is full while active probes of and to its rail are delayed.

A full link alone is load, and delayed probes alone may be a queue elsewhere. Both at once are a queue before the port.
"""

from collections.abc import Iterator
from dataclasses import replace

from streams.detect.detectors.congestion_incast.params import IncastParams
from streams.detect.evidence.congestion_spells import LinkSpells, Spell
from streams.detect.evidence.probe_delays import DelayPeriod, ProbeDelays
from streams.detect.thresholds import ns
from streams.wire.symptoms import IncastBegan, IncastReason, LinkFullBegan

FullLinks = dict[str, LinkSpells[LinkFullBegan]]
"""By subject id, when hosts' links were full."""


def delay_periods(params: IncastParams, delays: ProbeDelays | None) -> list[DelayPeriod]:
    """Return when probes of and to a rail were delayed."""
    return delays.periods(params.delay_peers) if delays is not None else []


def delayed_spells(
    params: IncastParams, full: LinkSpells[LinkFullBegan] | None, delays: ProbeDelays | None, watermark_ns: int
) -> Iterator[Spell[IncastBegan]]:
    """Yield the time in which a link was full and its probes were delayed, where that is long enough."""
    for spell in full.spells if full is not None else ():
        for period in delay_periods(params, delays):
            begin_ns, enough_ns = max(spell.begin_ns, period.begin_ns), ns(params.sustained_s)
            if period.overlap_ns((spell.begin_ns, spell.end_ns)) >= enough_ns:
                began = IncastBegan(begin_ns, spell.began.load_ratio, IncastReason.DELAYED)
                reported_ns = max(spell.reported_ns, begin_ns + enough_ns)
                end_ns = min(spell.end_ns, period.last_ns(watermark_ns))
                yield Spell(spell.reporter, spell.source, began, begin_ns, reported_ns, end_ns)


def prune_full(full: FullLinks, since_ns: dict[str, int], old_ns: int) -> FullLinks:
    """Return the full links without those that ended up to a time, which is another for some links."""
    left = {
        key: replace(link, spells=tuple(s for s in link.spells if s.end_ns > since_ns.get(key, old_ns)))
        for key, link in full.items()
    }
    return {key: link for key, link in left.items() if link.spells}
