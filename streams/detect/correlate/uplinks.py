"""The switches of some pods whose uplinks may be uneven: which windows count, and when to look again."""

from collections.abc import Callable, Iterable

from streams.detect.detectors.congestion_imbalance import evaluate as congestion_imbalance
from streams.detect.detectors.congestion_imbalance.evaluate import SwitchUplinks, mark_of
from streams.detect.evidence.link_history import Interval
from streams.detect.evidence.subjects import device_subject
from streams.detect.params import DetectParams
from streams.fabric.ids import Port
from streams.fabric.intervals import closed, overlaps_any
from streams.fabric.topology import Topology
from streams.wire.models import Episode, PeerWindow

NAME = "uplinks of "
"""Before a switch's name, where what is due are its uplinks."""

Uneven = dict[str, SwitchUplinks]
"""Switch -> what is known; none, on a healthy fabric."""


def observe(
    params: DetectParams,
    uneven: Uneven,
    topology: Topology,
    unsettled_at: Callable[[Port], Iterable[Interval]],
    window: PeerWindow,
) -> dict[str, None]:
    """Take a window in, unless an uplink was down, trained or was shut in it; answers what to look at."""
    mark, switch = mark_of(params.imbalance, window), window.device
    own = uneven.get(switch)
    if own is None and not mark.is_bad:
        return {}
    uplinks = [cable.lower for cable in topology.uplinks_of.get(switch, ())]
    compared = closed(window.since_ns, window.end_ns)
    if any(overlaps_any(unsettled_at(port), compared) for port in uplinks):
        return {}
    if own is None:
        own = uneven[switch] = SwitchUplinks(device_subject(topology, switch))
    return {NAME + switch: None} if own.add(mark) else {}


def look(
    params: DetectParams, uneven: Uneven, switch: str, watermark_ns: int, *, is_read: bool
) -> tuple[list[Episode], int]:
    """Conclude on one switch, and let go of it when nothing is left."""
    own = uneven[switch]
    episodes, due_ns = congestion_imbalance.step(params, own, watermark_ns, is_read=is_read)
    if own.is_over:
        del uneven[switch]
    return episodes, due_ns
