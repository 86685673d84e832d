"""Where an effect can happen, drawn by chance: no two at one link at about the same time, unless one explains it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from streams.simulation.effects import Interval
from streams.simulation.fabric_arrays import FabricArrays
from streams.simulation.traffic import Traffic

_S = 10**9
SEPARATION_NS = 900 * _S
"""So long before and after it a link has nothing else: an episode ends ten minutes after its last sign."""
_EVER = Interval(0, 1 << 62)
_SETTLED_NS = 60 * _S
"""An uplink that trains is not compared in that window."""
_WINDOW_NS, _COMPARED = 60 * _S, 6
"""What is compared is windows of a minute (`detect.window`), and five in a row say so; one more for those cut."""
_UNEVEN_APART_NS = 480 * _S
"""A switch is even again after five windows of a minute that say so."""
_COLLAPSED_APART_NS, _OF_A_RAIL = 120 * _S, 0.55
"""A collapse is over after a minute without; and half of a group's hosts at least make one."""
_DRIFT_APART_NS = 240 * _S
"""Who changes a version says so within minutes."""
_TRIES = 4000


class NoRoom(RuntimeError):
    """The fabric is too small, or the time too short, for so much to happen apart from each other."""


class FaultPlacer:
    """Draws links, hosts and switches that are free for a time, and takes them."""

    def __init__(
        self, plant: FabricArrays, tiers: Sequence[str], traffic: Traffic, chance: np.random.Generator,
        pods: Mapping[str, str],
    ) -> None:  # fmt: skip
        """`tiers` are those of the plant's devices, `pods` by their names."""
        self.plant, self.traffic, self.chance = plant, traffic, chance
        self.tiers = tuple(tiers)
        self._pods = pods
        self._collapsed: dict[str, list[Interval]] = defaultdict(list)
        heights = [len(own) for own in plant.ports]
        self.owner = np.repeat(np.arange(len(plant.devices)), heights)
        self.ends: list[list[int]] = self.owner[plant.links].tolist()
        self.host_links = [i for i, (a, _) in enumerate(self.ends) if plant.is_host[a]]
        self.of_hosts = frozenset(self.host_links)
        self.fabric_links = [i for i, (a, _) in enumerate(self.ends) if not plant.is_host[a]]
        self._links_of: dict[int, list[int]] = defaultdict(list)
        for link, ends in enumerate(self.ends):
            for device in ends:
                self._links_of[device].append(link)
        self._taken: dict[int, list[Interval]] = defaultdict(list)
        self._gone: dict[int, list[Interval]] = defaultdict(list)
        self._dark: dict[int, list[Interval]] = defaultdict(list)
        """As `_gone`, but only where its links are dead meanwhile."""
        self._broken: set[int] = set()
        self._uneven: dict[int, list[Interval]] = defaultdict(list)
        self._drifting: dict[str, list[tuple[int, Interval]]] = defaultdict(list)
        self._host_number = {int(d): i for i, d in enumerate(np.flatnonzero(np.array(plant.is_host)))}

    def interval(self, within: Interval, lasting_s: tuple[float, float]) -> Interval:
        """A time within another, so long."""
        length_ns = round(self.chance.uniform(*lasting_s) * _S)
        start_ns = round(self.chance.uniform(within.start_ns, max(within.start_ns + 1, within.end_ns - length_ns)))
        return Interval(start_ns, start_ns + length_ns)

    def link(
        self, of: Sequence[int], within: Interval, lasting_s: tuple[float, float],
        fits: Callable[[int, Interval], bool] = lambda _link, _span: True,
    ) -> tuple[int, Interval]:  # fmt: skip
        """A link and a time at which it and both of its devices are free; raises Full."""
        for _ in range(_TRIES):
            link, span = of[int(self.chance.integers(len(of)))], self.interval(within, lasting_s)
            wide = span.widened(SEPARATION_NS)
            gone = any(_meets(self._gone[device], wide) for device in self.ends[link])
            if not gone and self._is_free(link, wide, span) and fits(link, span):
                self._taken[link].append(span)
                return link, span
        raise NoRoom("no link is free for another fault: a longer time or a larger fabric is needed")

    def device(
        self, of: Iterable[int], within: Interval, lasting_s: tuple[float, float], *, alone: bool = False
    ) -> tuple[int, Interval]:
        """A device and a time at which it and all of its links are free; raises Full.

        Its neighbours are to be there as well, but for what concerns it `alone`.
        """
        choices = list(of)
        for _ in range(_TRIES):
            device, span = choices[self.chance.integers(len(choices))], self.interval(within, lasting_s)
            wide = span.widened(SEPARATION_NS)
            neighbours = {d for link in self._links_of[device] for d in self.ends[link]}
            if any(_meets(self._gone[d], wide) for d in ({device} if alone else {device, *neighbours})):
                continue
            if not all(self._is_free(link, wide, span) for link in self._links_of[device]):
                continue
            self._gone[device].append(span)
            if not alone:
                self._dark[device].append(span)
            return device, span
        raise NoRoom("no device is free for another fault: a longer time or a larger fabric is needed")

    def host_for_gpu_fault(self, within: Interval, lasting_s: tuple[float, float]) -> tuple[int, Interval]:
        """A host whose GPUs are all well until then: one that broke stays so until the host restarts. Raises Full."""
        own, span = self.device(set(self.devices("host")) - self._broken, within, lasting_s, alone=True)
        self._broken.add(own)
        return own, span

    def host_for_maintenance(self, until_ns: int) -> int:
        """A host on which nothing else happens until then. Raises Full."""
        free = [host for host in self.devices("host") if not self._gone[host]]
        if not free:
            raise NoRoom("people work on all hosts: a larger fabric is needed")
        host = int(self.chance.choice(free))
        self._gone[host].append(Interval(0, until_ns))
        return host

    def collapsing_rail(self, within: Interval, lasting_s: tuple[float, float]) -> tuple[str, list[int], Interval]:
        """A pod, and enough links of busy hosts that end at one leaf of it. Raises Full.

        A pod collapses as a whole: another rail of it has to wait until that is over.
        """
        leaves = self.devices("T0")
        for _ in range(_TRIES if leaves else 0):
            leaf, span = leaves[self.chance.integers(len(leaves))], self.interval(within, lasting_s)
            pod = self._pods[self.plant.devices[leaf]]
            if _meets(self._collapsed[pod], span.widened(_COLLAPSED_APART_NS)):
                continue
            own = [link for link in self._links_of[leaf] if link in self.of_hosts]
            free = [link for link in own if self.is_busy(link, span) and self._can_take(link, span)]
            if len(free) >= _OF_A_RAIL * len(own):
                self._collapsed[pod].append(span)
                for link in free:
                    self._taken[link].append(span)
                return pod, free, span
        raise NoRoom("no rail is free to collapse: a longer time or a larger fabric is needed")

    def imbalanced_leaf(self, within: Interval, lasting_s: tuple[float, float]) -> tuple[int, Interval]:
        """A leaf with several uplinks, and of its time enough in which nothing else happens to them. Raises Full."""
        choices = [leaf for leaf in self.devices("T0") if len(self.uplinks_of(leaf)) > 1]
        for _ in range(_TRIES if choices else 0):
            leaf, span = choices[self.chance.integers(len(choices))], self.interval(within, lasting_s)
            if _meets(self._gone[leaf], span.widened(_SETTLED_NS)) or _meets(
                self._uneven[leaf], span.widened(_UNEVEN_APART_NS)
            ):
                continue
            if self._comparable(leaf, span) >= _COMPARED:
                self._uneven[leaf].append(span)
                return leaf, span
        raise NoRoom("no leaf is free to be uneven: a longer time or a larger fabric is needed")

    def _comparable(self, leaf: int, span: Interval) -> int:
        """The windows of a time in which all uplinks of a leaf are well."""
        near = span.widened(_SETTLED_NS)
        troubles = [
            own
            for link in self.uplinks_of(leaf)
            for own in (*self._taken[link], *self._dark[self.ends[link][1]])
            if own != _EVER and own.overlaps(near)
        ]
        first_ns = -(-span.start_ns // _WINDOW_NS) * _WINDOW_NS
        windows = (
            Interval(at_ns, at_ns + _WINDOW_NS) for at_ns in range(first_ns, span.end_ns - _WINDOW_NS, _WINDOW_NS)
        )
        return sum(not _meets(troubles, window.widened(_SETTLED_NS // 2)) for window in windows)

    def _is_free(self, link: int, wide: Interval, span: Interval) -> bool:
        """Whether it has nothing of its own then, nor is compared with the other uplinks of its leaf."""
        return not _meets(self._taken[link], wide) and not _meets(
            self._uneven.get(self.ends[link][0], ()), span.widened(_SETTLED_NS)
        )

    def drifting_devices(
        self, kind: str, of: Sequence[int], within: Interval, lasting_s: tuple[float, float]
    ) -> tuple[tuple[int, ...], Interval]:
        """One to three devices to run another version; of all no more than an eighth does at once. Raises Full.

        What a fifth does not run is no majority's any more (`detect.drift.majority`).
        """
        most = max(1, len(of) // 8, min(2, len(of) // 6))
        for _ in range(_TRIES if of else 0):
            span, count = self.interval(within, lasting_s), min(most, int(self.chance.integers(1, 4)))
            wide = span.widened(_DRIFT_APART_NS)
            others = {device for device, own in self._drifting[kind] if own.overlaps(wide)}
            chosen = self.chance.choice(of, count, replace=False).tolist()
            if len(others) + count > most or others & set(chosen):
                continue
            if not any(_meets(self._gone[device], wide) for device in chosen):
                self._drifting[kind] += [(device, span) for device in chosen]
                return tuple(sorted(chosen)), span
        raise NoRoom("too many devices run another version already: a longer time or a larger fabric is needed")

    def uplinks_of(self, device: int) -> list[int]:
        """Those of its links of which it is the lower end."""
        return [link for link in self._links_of[device] if self.ends[link][0] == device]

    def is_unused(self, link: int) -> bool:
        """Whether nothing ever happens to it."""
        return not self._taken[link]

    def reserve(self, link: int) -> None:
        """Nothing else happens to it any more: five downs within a day are a flap, however far apart (DETECTION 3)."""
        self._taken[link].append(_EVER)

    def claim(self, link: int, span: Interval) -> bool:
        """Take a link that hangs on what happens elsewhere; False where it has something of its own then."""
        if not self._can_take(link, span):
            return False
        self._taken[link].append(span)
        return True

    def _can_take(self, link: int, span: Interval) -> bool:
        wide = span.widened(SEPARATION_NS)
        return self._is_free(link, wide, span) and not any(_meets(self._gone[d], wide) for d in self.ends[link])

    def is_device_claimed(self, device: int, span: Interval) -> bool:
        """Whether something happens to the device as a whole at that time."""
        return _meets(self._gone[device], span)

    def devices(self, tier: str) -> list[int]:
        """All of a tier; "host" for hosts."""
        return [i for i, own in enumerate(self.tiers) if own == tier]

    def links_of(self, device: int) -> list[int]:
        """Those that end there."""
        return self._links_of[device]

    def is_busy(self, link: int, span: Interval) -> bool:
        """Whether a job runs for all of this time on the host of a host link; a fabric link always carries much."""
        host = self._host_number.get(self.ends[link][0])
        return host is None or self.traffic.is_busy(host, Interval(span.start_ns - 180 * _S, span.end_ns))

    def port_name(self, port: int) -> tuple[str, str]:
        """A port's device and name."""
        device = int(self.owner[port])
        return self.plant.devices[device], self.plant.ports[device][port - int(self.plant.first_port[device])]

    def ports(self, link: int) -> tuple[int, int]:
        """Those of both ends, the lower first."""
        a, z = self.plant.links[link].tolist()
        return int(a), int(z)


def _meets(spans: Sequence[Interval], own: Interval) -> bool:
    return any(span.overlaps(own) for span in spans)
