"""Reads each minute what takes a driver long: FEC statistics and the module of an uplink.

All modules of a host may take 48 s (scitix/sichek 98), so that no reading of the ports waits for them: the values of a
port are in the next of its rows.
"""

import contextlib
import errno
from collections import Counter, deque
from collections.abc import Callable, Iterable

from collectors.core.columns import RowReading
from collectors.kernel.ports import Port
from collectors.kernel.tree import Refusal, Tree
from collectors.nic.ethtool_netlink import EthtoolNetlink
from collectors.nic.module_values import Values, fec_values, module_values
from collectors.nic.polling import PollRounds
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import NO_INDEX

EVERY_S = 60.0
DEADLINE_S = 20.0
"""A module that answers takes up to 11 s (scitix/sichek 98); a card that exceeds this is left to itself."""
_REFUSALS = 3
_PAUSE = 60
"""Readings without a question after three refusals: each is a line in the kernel's log."""

_ABSENT = {errno.EOPNOTSUPP, errno.ENODEV}
_FEC, _MODULE = "FEC statistics", "module"
_TEMPERATURE = Metric.MODULE_TEMPERATURE_C, NO_INDEX


class MinuteReader:
    """Reads one uplink, in one thread at a time; `refused` counts refusals and invalid contents."""

    def __init__(self, tree: Tree, port: Port, opened: Callable[[], EthtoolNetlink] | None) -> None:
        self.port = port
        self.refused = 0
        self._tree = tree
        self._opened = opened
        self._in_a_row: Counter[str] = Counter()
        self._fresh: deque[Values] = deque(maxlen=1)

    def read(self) -> Values:
        """Return FEC and module, and store them for the next row; never raises for any answer."""
        found: Values = {}
        if self._opened is not None:
            try:
                with contextlib.closing(self._opened()) as link:
                    found = self._ask(link)
            except (OSError, Reject):  # a kernel without the family
                self.refused += 1
        if _TEMPERATURE not in found and (temperature := self._hwmon()) is not None:
            found[_TEMPERATURE] = temperature
        self._fresh.append(found)
        return found

    def take(self) -> Values:
        """Return the values that no row has yet."""
        return self._fresh.pop() if self._fresh else {}

    def _ask(self, link: EthtoolNetlink) -> Values:
        netdev = self.port.netdev
        module = self._part(
            _MODULE, lambda: module_values(lambda *place: link.module_memory(netdev, *place))
        )  # fmt: skip
        # FEC comes last, since its counters get the time of the next row.
        return module | self._part(_FEC, lambda: fec_values(link.fec_statistics(netdev)))

    def _part(self, name: str, read: Callable[[], Values]) -> Values:
        if self._in_a_row[name] >= _REFUSALS:
            self._in_a_row[name] = (self._in_a_row[name] + 1) % (_REFUSALS + _PAUSE)
            return {}
        try:
            found = read()
        except (OSError, Reject) as error:
            self.refused += not (isinstance(error, OSError) and error.errno in _ABSENT)
            self._in_a_row[name] += 1
            return {}
        self._in_a_row[name] = 0
        return found

    def _hwmon(self) -> float | None:
        """Return the module's temperature by the driver (mlx5 core/hwmon.c), if it has one module."""
        base = f"{self._tree.sys}/class/net/{self.port.netdev}/device/hwmon"
        found = [
            f"{base}/{chip}/{name.removesuffix('label')}input"
            for chip in self._tree.names(base)
            for name in self._tree.names(f"{base}/{chip}")
            if name.endswith("_label") and self._tree.read_proc(f"{base}/{chip}/{name}").startswith("Module")
        ]
        if len(found) != 1:
            return None
        try:
            return int(self._tree.read_text(found[0]) or "") / 1000
        except (Refusal, ValueError):
            return None


class MinuteReadings:
    """Reads the uplinks of a host, one after the other in a thread of its own; a card that hangs costs only itself."""

    def __init__(self, tree: Tree, opened: Callable[[], EthtoolNetlink] | None) -> None:
        self._tree = tree
        self._opened = opened
        self._rounds: PollRounds[Values] = PollRounds(DEADLINE_S)
        self._readers: dict[str, MinuteReader] = {}

    def set(self, ports: Iterable[Port]) -> None:
        """Set the present ports, of which those with an Ethernet netdev are read."""
        former, self._readers = self._readers, {}
        for port in ports:
            if port.has_ethernet_state and not port.is_virtual:
                known = former.get(port.identity)
                is_same = known is not None and port.is_same_device(known.port)
                self._readers[port.identity] = known if known and is_same else self._reader(port)

    def _reader(self, port: Port) -> MinuteReader:
        return MinuteReader(self._tree, port, self._opened)

    async def read(self) -> dict[str, int]:
        """Read every port; return the number of refusals and invalid contents by identity."""
        readers = dict(self._readers)
        await self._rounds.read(readers.values())
        refused = {identity: reader.refused for identity, reader in readers.items() if reader.refused}
        for identity in refused:
            readers[identity].refused = 0
        return refused

    def row(self, identity: str, row: RowReading) -> RowReading:
        """Return a port's row with what was read since its last one; values that the row has precede."""
        reader = self._readers.get(identity)
        if reader is None or not (values := reader.take()):
            return row
        added = {slot: value for slot, value in values.items() if slot not in row.slots}
        return row._replace(slots=(*row.slots, *added), values=[*row.values, *added.values()])
