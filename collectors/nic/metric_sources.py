"""Which file or statistic is the witness of each metric of a port, where several say the same. Lists; reads nothing."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from collectors.kernel import signals
from collectors.kernel.signals import Rank, Signal
from collectors.kernel.tree import Tree
from streams.fabric.catalogue import Metric

Slot = tuple[Metric, int]

COUNTERS, HW_COUNTERS, ETHTOOL, NETDEV = "counters", "hw_counters", "ethtool", "netdev"
"""Groups of files that one refusal speaks for; those of NETDEV the kernel knows without asking the device."""


class MetricSource(NamedTuple):
    """One file, or one statistic of ethtool where `path` is empty."""

    group: str
    name: str
    path: str
    signal: Signal

    @property
    def slot(self) -> Slot:
        """The metric that it tells, and of which lane or priority."""
        return self.signal.metric, self.signal.lane


def files(tree: Tree, rdma: str, net: str, *, tells_ethernet: bool) -> Iterator[MetricSource]:
    """The files that are there, in folders `rdma` of an RDMA port and `net` of a netdev; either may be empty."""
    if rdma:
        yield from _in(tree, COUNTERS, f"{rdma}/counters", signals.COUNTERS)
        yield from _in(tree, COUNTERS, f"{rdma}/counters_ext", signals.COUNTERS_EXT)
        yield from _in(tree, HW_COUNTERS, f"{rdma}/hw_counters", signals.HW_COUNTERS)
    if net and tells_ethernet:
        yield from _in(tree, NETDEV, net, signals.NETDEV)
        yield from _in(tree, NETDEV, f"{net}/statistics", signals.STATISTICS)


def _in(tree: Tree, group: str, folder: str, known: Mapping[str, Signal]) -> Iterator[MetricSource]:
    for name in tree.names(folder):
        if (signal := known.get(name)) is not None:
            yield MetricSource(group, name, f"{folder}/{name}", signal)


def statistics(names: Iterable[str], *, tells_ethernet: bool) -> Iterator[MetricSource]:
    """The statistics that mean something, each name once; of an IPoIB netdev only what is of the wire below it."""
    for name in dict.fromkeys(names):
        signal = signals.ethtool_signal(name)
        if signal is not None and (tells_ethernet or signal.rank is Rank.PHYSICAL):
            yield MetricSource(ETHTOOL, name, "", signal)


def best(available: Iterable[tuple[MetricSource, bool]]) -> list[MetricSource]:
    """The witness of each slot: of those that gave a value (if any did) the one of the lowest rank."""
    found: dict[Slot, tuple[tuple[bool, int], MetricSource]] = {}
    for witness, spoke in available:
        standing = (not spoke, witness.signal.rank)
        if witness.slot not in found or standing < found[witness.slot][0]:
            found[witness.slot] = standing, witness
    return [witness for _, witness in found.values()]
