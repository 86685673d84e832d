"""Reads one port: its state, and for every metric the best available source.

The selection is made at the first reading and does not change: two counters of one metric differ, and a change would
look like a burst. A metric that appears later is added.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from collectors.core.columns import RowReading
from collectors.kernel import values
from collectors.kernel.ports import Port
from collectors.kernel.signals import SATURATES
from collectors.kernel.tree import Refusal, Tree
from collectors.nic.ethtool import Source, Statistics
from collectors.nic.function_totals import FunctionTotals
from collectors.nic.metric_sources import (
    COUNTERS,
    ETHTOOL,
    FUNCTIONS,
    HW_COUNTERS,
    MetricSource,
    Slot,
    best,
    files,
    statistics,
)
from streams.fabric.catalogue import Metric
from streams.instrument.clock import Clock
from streams.wire.errors import Reject
from streams.wire.models import NO_INDEX

REFUSALS = 3


class RefusalBreaker:
    """The circuit breaker of one port, which disables files that the kernel refuses."""

    def __init__(self) -> None:
        self._in_a_row: Counter[str] = Counter()
        self._of_file: Counter[str] = Counter()
        self._closed: set[str] = set()

    def allows(self, group: str, path: str) -> bool:
        """Return True if this file of this group is still read."""
        return group not in self._closed and self._of_file[path] < REFUSALS

    def is_closed(self, group: str) -> bool:
        """Return True if the whole group is disabled."""
        return group in self._closed

    def on_success(self, group: str, path: str) -> None:
        """Record a file that was read, whatever its content."""
        self._in_a_row[group] = 0
        if self._of_file[path]:
            self._of_file[path] = 0

    def on_refusal(self, group: str, path: str, *, lasting: bool) -> None:
        """Record a refused file; a temporary shortage is ignored."""
        if not lasting:
            return
        self._of_file[path] += 1
        self._in_a_row[group] += 1
        if self._in_a_row[group] >= REFUSALS:
            self._closed.add(group)


_STATE: tuple[Slot, ...] = tuple((metric, NO_INDEX) for metric in (Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS))
_MS = 1_000_000


class PortReading(NamedTuple):
    """One reading of a port; absent values are None.

    `refused` counts refused files and invalid contents; `saturated` names the counters at the limit of old hardware.
    """

    row: RowReading
    ended_ns: int
    refused: int
    saturated: frozenset[str]

    @property
    def has_values(self) -> bool:
        """True if any value was read."""
        return any(value is not None for value in self.row.values)


class PortReader:
    """Reads one port for the life of its device. Used by one thread at a time; may block with the driver."""

    def __init__(self, tree: Tree, port: Port, source: Source, clock: Clock) -> None:
        self.port = port
        self._tree = tree
        self._source = source
        self._clock = clock
        self._breaker = RefusalBreaker()
        self._rdma = f"{tree.sys}/class/infiniband/{port.rdma}/ports/{port.number}" if port.rdma else ""
        self._net = f"{tree.sys}/class/net/{port.netdev}" if port.netdev else ""
        self._slots: tuple[Slot, ...] = _STATE
        self._files: list[tuple[int, MetricSource]] = []
        self._sums: list[tuple[int, tuple[MetricSource, ...]]] = []
        self._functions = FunctionTotals(tree)
        self._statistic: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        self._picked: list[tuple[int, int]] = []
        self._looks = True
        self._hw_read_ns: int | None = None
        self._refused = 0
        self._is_wanting = False
        self._saturated: set[str] = set()

    @property
    def is_restricted(self) -> bool:
        """True if only the kernel's own state is read, without querying the device."""
        return self.port.is_restricted or self._breaker.is_closed(COUNTERS)

    def close(self) -> None:
        """Release the resources."""
        self._source.close()

    def rediscover(self, functions: Iterable[Port] = ()) -> None:
        """At the next reading, add metrics that have appeared, and the counters of these virtual functions."""
        self._looks = True
        self._functions.set(functions)

    def read(self) -> PortReading:
        """Return one reading; never raises for any content of the tree."""
        began_ns = self._clock.now_ns()
        self._refused = 0
        self._saturated = set()
        if self._looks:
            self._looks = False
            self._choose()
            began_ns = self._clock.now_ns()
        found: list[Any] = [None] * len(self._slots)
        found[: len(_STATE)] = self._state()
        is_hw_due = self._is_hw_due(began_ns)
        for slot, source in self._files:
            if source.group != HW_COUNTERS or is_hw_due:
                found[slot] = self._counter(source)
        if is_hw_due:
            self._add_sums(found)
        if (driver := self._statistics()) is not None:
            for slot, place in self._picked:
                found[slot] = driver.values[place]
        ended_ns = self._clock.now_ns()
        row = RowReading((began_ns + ended_ns) // 2, self._slots, found)
        return PortReading(row, ended_ns, self._refused, frozenset(self._saturated))

    def _choose(self) -> None:
        """Try every source of each metric that has no source yet, and select the best."""
        ethernet = self.port.has_ethernet_state
        known = set(self._slots)
        self._is_wanting = False
        tried: list[tuple[MetricSource, bool]] = []
        there = files(self._tree, self._rdma, self._net, is_ethernet=ethernet)
        tried += [(source, self._counter(source) is not None) for source in there if source.slot not in known]
        if (driver := self._statistics()) is not None:
            named = statistics(driver.names, is_ethernet=ethernet)
            tried += [(source, True) for source in named if source.slot not in known]
        self._names = ()
        if self._is_wanting:  # a source that failed temporarily may be the best: select at the next reading
            self._looks = True
            return
        for source, *others in best(tried):
            slot = len(self._slots)
            self._slots = (*self._slots, source.slot)
            if others:
                self._sums.append((slot, (source, *others)))
            elif source.path:
                self._files.append((slot, source))
            else:
                self._statistic[source.name] = slot
        # A port's physical layer and its driver count the traffic of all functions, its `hw_counters` do not.
        own = {self._slots[slot] for slot, source in self._files if source.group == HW_COUNTERS}
        own |= {self._slots[slot] for slot, _ in self._sums}
        self._slots = (*self._slots, *self._functions.choose(own, frozenset(self._slots) - own))

    def _add_sums(self, found: list[Any]) -> None:
        """Set the metrics of several files, absent without one of them, and add what virtual functions count."""
        for slot, sources in self._sums:
            found[slot] = values.total([self._counter(source) for source in sources])
        if totals := self._functions.read(self._counter):
            alone = self._functions.alone
            for place, metric in enumerate(self._slots):
                if metric in totals:
                    found[place] = values.total([0 if metric in alone else found[place], totals[metric]])

    def _is_hw_due(self, now_ns: int) -> bool:
        """Return False within `lifespan`: the kernel repeats its last values, which are absent then, not unchanged."""
        text = self._read_text(f"{self._rdma}/hw_counters/lifespan") if self._rdma and not self.is_restricted else None
        span_ms = (self._parsed(text, values.counter) or 0) if text is not None else 0
        if self._hw_read_ns is not None and 0 <= now_ns - self._hw_read_ns < span_ms * _MS:
            return False
        self._hw_read_ns = now_ns
        return True

    def _counter(self, source: MetricSource) -> int | None:
        if not self._allows(source.group, source.path):
            return None
        try:
            text = self._tree.read_text(source.path)
        except Refusal as refusal:
            self._refuse(source.group, source.path, refusal)
            return None
        if text is None:
            return None
        self._breaker.on_success(source.group, source.path)
        try:
            value = values.counter(text)
        except Reject:
            self._refused += 1
            return None
        if value is not None and value == SATURATES.get(source.name):
            self._saturated.add(source.name)
        return values.times(value, source.signal.factor)

    def _refuse(self, group: str, path: str, refusal: Refusal) -> None:
        self._refused += 1
        self._is_wanting |= not refusal.lasting
        self._breaker.on_refusal(group, path, lasting=refusal.lasting)

    def _allows(self, group: str, path: str) -> bool:
        if self.port.is_restricted and group in {COUNTERS, HW_COUNTERS, ETHTOOL, FUNCTIONS}:
            return False
        if group in {HW_COUNTERS, ETHTOOL, FUNCTIONS} and self._breaker.is_closed(COUNTERS):
            return False
        return self._breaker.allows(group, path)

    def _statistics(self) -> Statistics | None:
        if not self._net or not self._allows(ETHTOOL, ""):
            return None
        try:
            driver = self._source.read()
        except Refusal as refusal:
            self._refuse(ETHTOOL, "", refusal)
            return None
        if driver is not None:
            self._breaker.on_success(ETHTOOL, "")
            if driver.names is not self._names:
                self._names = driver.names
                place_of = {name: place for place, name in reversed(list(enumerate(driver.names)))}
                chosen = self._statistic.items()
                self._picked = [(slot, place_of[name]) for name, slot in chosen if name in place_of]
        return driver

    def _state(self) -> tuple[float | None, float | None, float | None]:
        """Return (oper, admin, speed); the speed of a port that is down is absent, whatever its driver reports."""
        oper: float | None = None
        admin: float | None = None
        if self.port.has_ethernet_state or not self._rdma:
            oper, admin = self._netdev_state()
        # The state of a LAG's RDMA device is that of the bond: up with one leg.
        asks_rdma = bool(self._rdma) and self.port.has_link_state and not self.is_restricted and not self.port.lag
        if asks_rdma and oper is None:
            oper = self._parsed(self._read_text(f"{self._rdma}/state"), values.port_is_up)
        if asks_rdma and admin is None:
            admin = self._parsed(self._read_text(f"{self._rdma}/phys_state"), values.port_is_enabled)
        if not oper or self.is_restricted:
            return oper, admin, None
        speed = None
        if self.port.has_ethernet_state or not self._rdma:
            speed = self._parsed(self._read_text(f"{self._net}/speed", may_refuse=True), values.speed_bps)
        if asks_rdma and speed is None:
            speed = self._parsed(self._read_text(f"{self._rdma}/rate", may_refuse=True), values.rate_bps)
        return oper, admin, speed

    def _netdev_state(self) -> tuple[float | None, float | None]:
        oper = self._parsed(self._read_text(f"{self._net}/operstate"), values.operstate_is_up)
        admin = self._parsed(self._read_text(f"{self._net}/flags"), values.is_enabled)
        if oper is None:  # `carrier` is refused while a netdev is disabled
            oper = self._parsed(self._read_text(f"{self._net}/carrier", may_refuse=True), values.carrier)
        return oper, admin

    def _read_text(self, path: str, *, may_refuse: bool = False) -> str | None:
        try:
            return self._tree.read_text(path)
        except Refusal:
            self._refused += not may_refuse
            return None

    def _parsed(self, text: str | None, parse: Callable[[str], float | None]) -> float | None:
        if text is None:
            return None
        try:
            return parse(text)
        except Reject:
            self._refused += 1
            return None
