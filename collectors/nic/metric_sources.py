"""Selects the best file or statistic for each metric of a port. Lists names; reads no value."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from collectors.kernel import signals
from collectors.kernel.signals import Rank, Signal
from collectors.kernel.tree import Tree
from streams.fabric.catalogue import Metric

Slot = tuple[Metric, int]

COUNTERS, HW_COUNTERS, ETHTOOL, NETDEV = "counters", "hw_counters", "ethtool", "netdev"
FUNCTIONS = "functions"
"""Groups of files that are disabled together; the kernel returns the NETDEV group without querying the device."""


class MetricSource(NamedTuple):
    """One file, or one statistic of ethtool if `path` is empty."""

    group: str
    name: str
    path: str
    signal: Signal

    @property
    def slot(self) -> Slot:
        """The source's metric, and its lane or priority."""
        return self.signal.metric, self.signal.lane


def files(tree: Tree, rdma: str, net: str, *, is_ethernet: bool) -> Iterator[MetricSource]:
    """Yield the existing files in the directories `rdma` of an RDMA port and `net` of a netdev; either may be empty."""
    if rdma:
        yield from _in(tree, COUNTERS, f"{rdma}/counters", signals.COUNTERS)
        yield from _in(tree, COUNTERS, f"{rdma}/counters_ext", signals.COUNTERS_EXT)
        yield from _in(tree, HW_COUNTERS, f"{rdma}/hw_counters", signals.HW_COUNTERS)
    if net and is_ethernet:
        yield from _in(tree, NETDEV, net, signals.NETDEV)
        yield from _in(tree, NETDEV, f"{net}/statistics", signals.STATISTICS)


def _in(tree: Tree, group: str, folder: str, known: Mapping[str, Signal]) -> Iterator[MetricSource]:
    for name in tree.names(folder):
        if (signal := known.get(name)) is not None:
            yield MetricSource(group, name, f"{folder}/{name}", signal)


def statistics(names: Iterable[str], *, is_ethernet: bool) -> Iterator[MetricSource]:
    """Yield the known statistics, each name once; for an IPoIB netdev only the statistics of the physical layer."""
    for name in dict.fromkeys(names):
        signal = signals.ethtool_signal(name)
        if signal is not None and (is_ethernet or signal.rank is Rank.PHYSICAL):
            yield MetricSource(ETHTOOL, name, "", signal)


def of_function(tree: Tree, rdma: str) -> Iterator[MetricSource]:
    """Yield what the virtual function with this directory of an RDMA port counts of its physical port's traffic."""
    return _in(tree, FUNCTIONS, f"{rdma}/hw_counters", signals.OF_FUNCTIONS)


def best(available: Iterable[tuple[MetricSource, bool]]) -> list[tuple[MetricSource, ...]]:
    """Return the source of each slot with the lowest rank, or the parts of its sum; sources with a value first."""
    found: dict[Slot, tuple[tuple[bool, int], tuple[MetricSource, ...]]] = {}
    for source, has_value in available:
        order = (not has_value, source.signal.rank)
        if source.slot not in found or order < found[source.slot][0]:
            found[source.slot] = order, (source,)
        elif source.signal.is_part and order == found[source.slot][0]:
            found[source.slot] = order, (*found[source.slot][1], source)
    return [sources for _, sources in found.values()]
