"""Where an effect can happen, drawn by chance: no two at one link at about the same time, unless one explains it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from streams.cli.bench.detection.effects import Span
from streams.cli.bench.detection.traffic import Traffic
from streams.cli.bench.load.plant import Plant

_S = 10**9
APART_NS = 900 * _S
"""So long before and after it a link has nothing else: an episode ends ten minutes after its last sign."""
_TRIES = 4000


class Full(RuntimeError):
    """The fabric is too small, or the time too short, for so much to happen apart from each other."""


class Places:
    """Draws links, hosts and switches that are free for a time, and takes them."""

    def __init__(self, plant: Plant, tiers: Sequence[str], traffic: Traffic, chance: np.random.Generator) -> None:
        """`tiers` are those of the plant's devices."""
        self.plant, self.traffic, self.chance = plant, traffic, chance
        self.tiers = tuple(tiers)
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
        self._taken: dict[int, list[Span]] = defaultdict(list)
        self._gone: dict[int, list[Span]] = defaultdict(list)
        self._broken: set[int] = set()
        self._host_number = {int(d): i for i, d in enumerate(np.flatnonzero(np.array(plant.is_host)))}

    def span(self, within: Span, lasting_s: tuple[float, float]) -> Span:
        """A time within another, so long."""
        length_ns = round(self.chance.uniform(*lasting_s) * _S)
        start_ns = round(self.chance.uniform(within.start_ns, max(within.start_ns + 1, within.end_ns - length_ns)))
        return Span(start_ns, start_ns + length_ns)

    def link(
        self, of: Sequence[int], within: Span, lasting_s: tuple[float, float],
        fits: Callable[[int, Span], bool] = lambda _link, _span: True,
    ) -> tuple[int, Span]:  # fmt: skip
        """A link and a time at which it and both of its devices are free; raises Full."""
        for _ in range(_TRIES):
            link, span = of[int(self.chance.integers(len(of)))], self.span(within, lasting_s)
            wide = span.wider(APART_NS)
            gone = any(_meets(self._gone[device], wide) for device in self.ends[link])
            if not gone and not _meets(self._taken[link], wide) and fits(link, span):
                self._taken[link].append(span)
                return link, span
        raise Full("no link is free for another fault: a longer time or a larger fabric is needed")

    def device(
        self, of: Iterable[int], within: Span, lasting_s: tuple[float, float], *, alone: bool = False
    ) -> tuple[int, Span]:
        """A device and a time at which it and all of its links are free; raises Full.

        Its neighbours are to be there as well, but for what concerns it `alone`.
        """
        choices = list(of)
        for _ in range(_TRIES):
            device, span = choices[self.chance.integers(len(choices))], self.span(within, lasting_s)
            wide = span.wider(APART_NS)
            neighbours = {d for link in self._links_of[device] for d in self.ends[link]}
            if any(_meets(self._gone[d], wide) for d in ({device} if alone else {device, *neighbours})):
                continue
            if any(_meets(self._taken[link], wide) for link in self._links_of[device]):
                continue
            self._gone[device].append(span)
            return device, span
        raise Full("no device is free for another fault: a longer time or a larger fabric is needed")

    def host_of_a_broken_gpu(self, within: Span, lasting_s: tuple[float, float]) -> tuple[int, Span]:
        """A host whose GPUs are all well until then: one that broke stays so until the host restarts. Raises Full."""
        own, span = self.device(set(self.devices("host")) - self._broken, within, lasting_s, alone=True)
        self._broken.add(own)
        return own, span

    def is_new(self, link: int) -> bool:
        """Whether nothing ever happens to it."""
        return not self._taken[link]

    def keep(self, link: int) -> None:
        """Nothing else happens to it any more: five downs within a day are a flap, however far apart (DETECTION 3)."""
        self._taken[link].append(Span(0, 1 << 62))

    def take(self, link: int, span: Span) -> bool:
        """Take a link that hangs on what happens elsewhere; False where it has something of its own then."""
        wide = span.wider(APART_NS)
        if _meets(self._taken[link], wide) or any(_meets(self._gone[device], wide) for device in self.ends[link]):
            return False
        self._taken[link].append(span)
        return True

    def is_gone(self, device: int, span: Span) -> bool:
        """Whether something happens to the device as a whole at that time."""
        return _meets(self._gone[device], span)

    def devices(self, tier: str) -> list[int]:
        """All of a tier; "host" for hosts."""
        return [i for i, own in enumerate(self.tiers) if own == tier]

    def links_of(self, device: int) -> list[int]:
        """Those that end there."""
        return self._links_of[device]

    def busy(self, link: int, span: Span) -> bool:
        """Whether a job runs for all of this time on the host of a host link; a fabric link always carries much."""
        host = self._host_number.get(self.ends[link][0])
        return host is None or self.traffic.busy(host, Span(span.start_ns - 180 * _S, span.end_ns))

    def name(self, port: int) -> tuple[str, str]:
        """A port's device and name."""
        device = int(self.owner[port])
        return self.plant.devices[device], self.plant.ports[device][port - int(self.plant.first_port[device])]

    def ports(self, link: int) -> tuple[int, int]:
        """Those of both ends, the lower first."""
        a, z = self.plant.links[link].tolist()
        return int(a), int(z)


def _meets(spans: Sequence[Span], own: Span) -> bool:
    return any(span.meets(own) for span in spans)
