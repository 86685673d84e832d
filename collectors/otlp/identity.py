"""Assigns what a sender sends to devices. No I/O.

A device sends for itself: its resources and points may name no other one. A relay sends for the targets that its
resources name, or the points of a resource that names none. A point that contradicts its resource is refused.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.bridge.series import without_port
from collectors.dialout.params import Target
from collectors.otlp.device import OtlpDevice
from collectors.otlp.points import attributes, resource, split
from collectors.otlp.series import MetricSeries, Refused
from streams.wire.errors import Reject

_NODES = (
    "net.host.name", "host.name", "device", "target", "source", "device.address", "cisco.node_id", "server.address",
    "k8s.node.name",
)  # fmt: skip
"""The attributes of a resource or point that name its device, best first. Labels of a site do not name it."""
_ALSO_LABELS = ("device", "target")
"""Attributes that may name something else at a point whose device is known, such as `OC-YANG` of SONiC's gNMI."""


@dataclass(slots=True)
class Group:
    """A resource of a sender: its device, and its series by the name and temporality of their metric."""

    device: OtlpDevice | None
    why: str
    """The reason why the device is unknown."""
    is_named: bool = True
    """False if the resource names no device: then its points may."""
    series: dict[tuple[str, bool], MetricSeries] = field(default_factory=dict)


class Identity:
    """The targets that match a connection, and the devices that they may send for."""

    def __init__(
        self, targets: tuple[Target, ...], by_node: Mapping[str, str], devices: Mapping[str, OtlpDevice]
    ) -> None:
        """`by_node` has the name of each device by the names and addresses that it reports, in lower case."""
        self.targets = targets
        self.is_relay = any(target.relay for target in targets)
        self._by_node = by_node
        self._devices = devices

    def group(self, raw: bytes) -> Group:
        """Return the device of a resource, or the reason why it is unknown."""
        try:
            texts = resource(raw)
        except Reject as error:
            return Group(None, str(error))
        nodes = [texts[name] for name in _NODES if texts.get(name)]
        if nodes:
            return Group(*self._identified(nodes, "a resource"))
        if self.is_relay:
            why = f"neither a resource nor its point names the device ({', '.join(_NODES)})"
            return Group(None, why, is_named=False)
        if len(self.targets) > 1:
            return Group(None, self._expected("nothing"), is_named=False)
        return Group(self._devices.get(self.targets[0].name), "the device is being set up", is_named=False)

    def owner_of(self, group: Group, texts: Mapping[str, str], names: Sequence[str] = ()) -> OtlpDevice:
        """Return the device of a point by its attributes; raises Reject for none, or one that it may not name.

        `names` are the attributes that name the device in the metric's table. A relay's point with one of them need
        not agree with its resource, which names the exporter.
        """
        is_known = group.device is not None and group.is_named
        nodes = [
            node
            for name in names or _NODES
            if (node := texts.get(name)) and not (is_known and name in _ALSO_LABELS and self._named(node) is None)
        ]
        device, why = self._identified(nodes, "a point") if nodes else (group.device, group.why)
        if device is None:
            raise Reject(why)
        if group.device not in (None, device) and not (names and self.is_relay):
            raise Reject(f"a point names the device {nodes[0][:200]!r}, and its resource another")
        return device

    def _identified(self, nodes: Sequence[str], what: str) -> tuple[OtlpDevice | None, str]:
        """Return the device that a resource or point names, and the reason if there is none."""
        shown = repr(nodes[0][:200])
        if self.is_relay:
            device = next((one for node in nodes if (one := self._named(node)) is not None), None)
            return device, f"{what} names the device {shown}, which is no target"
        names = [self._by_node.get(node.lower()) for node in nodes]
        own = next((target for target in self.targets if target.name in names), None)
        if own is None:
            return None, self._expected(shown)
        return self._devices.get(own.name), "the device is being set up"

    def _expected(self, shown: str) -> str:
        expected = ", ".join(target.node_name for target in self.targets)[:200]
        return f"the sender names itself {shown}; expected: {expected}; set node, or relay if it is one"

    def _named(self, node: str) -> OtlpDevice | None:
        """Return the device of a name, with its port and domain, or without."""
        bare = without_port(node.lower())
        spellings = (node.lower(), bare, bare.partition(".")[0])
        name = next((name for one in spellings if (name := self._by_node.get(one))), None)
        return None if name is None else self._devices.get(name)


def by_owner(
    points: Sequence[bytes], owner_of: Callable[[Mapping[str, str]], OtlpDevice], refused: Refused
) -> Mapping[OtlpDevice, list[bytes]]:
    """Return the points of each device; those that cannot be read or are of none are refused."""
    found: defaultdict[OtlpDevice, list[bytes]] = defaultdict(list)
    for data in points:
        try:
            found[owner_of(attributes(split(data).rest)[0].texts)].append(data)
        except Reject as error:
            refused.add(str(error))
    return found
