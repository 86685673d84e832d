"""One connection to one device: its notifications in, its readings and what happened out. Pure; time is an argument.

Samples are put together until the device falls quiet; a change of state is told at once. A state's first value on a
connection is how it stands and no change. What the device says of itself (facts, boot time) outlives connections, in
DeviceMemory.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from collectors.core.clock_skew import AHEAD_NS
from collectors.core.columns import Reading
from collectors.core.emitter import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi import values
from collectors.gnmi.device_identity import DeviceIdentity
from collectors.gnmi.message_templates import MessageTemplates
from collectors.gnmi.params import Params
from collectors.gnmi.path_index import SAMPLED, STATES, Node, OnChange, PathIndex, SlotTable
from collectors.gnmi.path_mapping import Kind, PathMapping, path_mapping
from collectors.gnmi.paths import Elem, from_bytes
from collectors.gnmi.v1 import gnmi_lite_pb2
from streams.fabric.catalogue import Metric
from streams.wire.errors import Reject
from streams.wire.models import ABSENT_COUNTER, EventKind

_MAX_DELAY_US = 2**31 - 1
_DEEPEST_JSON = 64
_MOST_IN_JSON = 200_000
"""Members and items of JSON that are read of one message."""
_DELETED_A_TURN = 16
"""So many slots looked at for a delete are reckoned as an update."""
_UNKNOWN = 2**31
_EVENTS = {
    (Metric.OPER_UP, 0.0): EventKind.LINK_DOWN,
    (Metric.OPER_UP, 1.0): EventKind.LINK_UP,
    (Metric.ADMIN_UP, 0.0): EventKind.ADMIN_DOWN,
    (Metric.ADMIN_UP, 1.0): EventKind.ADMIN_UP,
}

Output = Reading | DeviceEvent


@dataclass(slots=True)
class _Burst:
    """What came since the last reading was handed on; times of the device by row, and ours of the last message."""

    row_at_ns: dict[str, int] = field(default_factory=dict)
    first_at_ns: int = 0
    began_ns: int = 0
    received_ns: int = 0
    updates: int = 0


class Connection:
    """The fold. `on_change` says what is told as it changes, and not sampled: paths, or (True) all states."""

    def __init__(
        self, device: str, params: Params, memory: DeviceIdentity, metrics: CollectorMetrics, *,
        on_change: bool | OnChange,
        words: PathMapping | None = None,
    ) -> None:  # fmt: skip
        self._device = device
        self._memory = memory
        self._metrics = metrics
        told = (STATES if on_change else SAMPLED) if isinstance(on_change, bool) else on_change
        self._cadence_ns = int(params.cadence_s * 1e9)
        self._quiet_ns = int(params.quiet_s * 1e9)
        self._patience_ns = max(self._quiet_ns, self._cadence_ns // 4)
        self._expected = _UNKNOWN
        self._slots = SlotTable(params.max_ports)
        self._known = PathIndex(
            self._slots, params.max_paths, words or path_mapping(), told, lambda: metrics.add("out_of_bounds", device)
        )
        self._left = 0
        self.work = 0
        """What the last message cost, in updates: for who shares a process out among devices."""
        self._shapes = MessageTemplates(2 * params.max_ports)
        self._told: dict[int, float] = {}
        self._burst = _Burst()
        self._at_ns = 0
        self._received_ns = 0
        self._out: list[Output] = []
        self._unnamed: list[tuple[Node, gnmi_lite_pb2.TypedValue]] = []
        self._name = ""

    def take_known(self, message: bytes, received_ns: int) -> list[Output] | None:
        """Take a message as it came, where it is like one before; None where it is to be decoded."""
        seen = self._shapes.find(message)
        if seen is None:
            return None
        self._begin(seen.at_ns, received_ns)
        shape = seen.shape
        self._shapes.waiting.append(seen)
        for row in shape.rows:
            self._sampled(row)
        self._metrics.add("updates", self._device, shape.updates)
        self._burst.updates += shape.updates
        self.work = 1 + shape.updates
        return self._out

    def _begin(self, timestamp: int, received_ns: int) -> None:
        self._out = []
        self._received_ns = received_ns
        self._at_ns = self._device_time(timestamp)
        self._end_of_last_burst()

    def take(self, notification: gnmi_lite_pb2.Notification, received_ns: int, message: bytes = b"") -> list[Output]:
        """Take what the device sent; answer what there is to hand on now.

        `message` is what it came as: the next that is like it is then known.
        """
        self._begin(notification.timestamp, received_ns)
        self._left = _MOST_IN_JSON
        prefix = notification.prefix
        known = self._known.below(prefix)
        if deleted := notification.delete:
            self._delete_all(prefix, deleted)
        updates = notification.update
        self._take_updates(known, prefix, updates)
        count = len(updates)
        self._metrics.add("updates", self._device, count)
        if self._burst.received_ns == received_ns:
            self._burst.updates += count
        if self._unnamed or self._name:
            self._name_the_unnamed()
        self.work = 1 + count + len(deleted) + self._slots.asked // _DELETED_A_TURN + (_MOST_IN_JSON - self._left)
        self._slots.asked = 0
        if message:
            self._shapes.learn(message, notification, known)
        return self._out

    def _take_updates(self, known: dict[bytes, Node], prefix: bytes, updates: Iterable[gnmi_lite_pb2.Update]) -> None:
        slot_values = self._slots.values
        if self._shapes.waiting:
            self._shapes.settle(slot_values)
        row = ""
        for update in updates:
            path = update.path
            node = known.get(path)
            if node is None:
                node = self._known.add(known, prefix, path)
            # Most values are counters: those are read without asking which of all kinds they are.
            slot = node.counter
            value = update.val
            if slot < 0:
                self._other(node, value)
                continue
            slot_values[slot] = value.uint_val or (
                0 if value.HasField("uint_val") else self._counter(values.typed_value(value))
            )
            if node.row != row:
                row = node.row
                self._sampled(row)

    def synced(self) -> None:
        """The device has sent all that it has: the first reading is complete."""
        if self._expected == _UNKNOWN:
            self._expected = 0

    @property
    def is_bursting(self) -> bool:
        """Whether samples wait to be handed on by `flush`."""
        return bool(self._burst.row_at_ns)

    def flush(self, now_ns: int) -> Reading | None:
        """The reading that is complete, because the device has been quiet; None while there is none.

        While there is less in it than in the one before, the rest may only be late: this process or the device is
        busy. Then it is waited for longer, but not into the next sample.
        """
        burst = self._burst
        wait_ns = self._quiet_ns if burst.updates >= self._expected else self._patience_ns
        if not burst.row_at_ns or now_ns - burst.received_ns < wait_ns:
            return None
        return self._reading()

    def _device_time(self, timestamp: int) -> int:
        """The time at which the device read, in its own clock unless that is ahead of ours or not set."""
        if timestamp <= 0:
            return self._received_ns
        self._memory.skew.add(timestamp, self._received_ns)
        if timestamp > self._received_ns + AHEAD_NS:
            self._metrics.add("clock_replaced", self._device)
            return self._received_ns
        return timestamp

    def _end_of_last_burst(self) -> None:
        """A message of the next sample, or a device that never falls quiet, ends the burst too."""
        burst = self._burst
        if not burst.row_at_ns:
            return
        is_next = self._at_ns - burst.first_at_ns > self._cadence_ns // 2
        if is_next or self._received_ns - burst.began_ns > self._cadence_ns * 4 // 5:
            self._out.append(self._reading())

    def _sampled(self, row: str) -> None:
        burst = self._burst
        if not burst.row_at_ns:
            burst.first_at_ns, burst.began_ns = self._at_ns, self._received_ns
        burst.row_at_ns[row] = self._at_ns
        burst.received_ns = self._received_ns

    def _reading(self) -> Reading:
        burst, self._burst = self._burst, _Burst()
        self._expected = burst.updates
        slots = self._slots
        if self._shapes.waiting:
            self._shapes.settle(slots.values)
        slots.fill()
        layout, chosen = slots.layout()
        slot_values = slots.values
        counters, gauges = layout.tables([slot_values[slot] for slot in chosen])
        slots.pass_on()
        sampled_at_ns = min(burst.row_at_ns.values())
        delays = self._delays(layout.row, burst.row_at_ns, sampled_at_ns)
        self._memory.last_sample_at_ns = sampled_at_ns
        return Reading(
            sampled_at_ns, burst.received_ns, self._memory.boot_id, layout.row, layout.rows_digest, counters, gauges,
            delays,
        )  # fmt: skip

    def _delays(self, rows: Iterable[str], at_ns: dict[str, int], sampled_at_ns: int) -> tuple[int, ...]:
        """How much later than the first each row was read, in µs; nothing where all were read at once."""
        if self._slots.has_modules:
            # A module's values go to its port; the later of the two counts.
            told: dict[str, int] = {}
            for row, at in at_ns.items():
                port = self._slots.row_of(row)
                told[port] = max(told.get(port, at), at)
            at_ns = told
        if len(set(at_ns.values())) == 1:
            return ()
        delays = tuple(min((at_ns.get(row, sampled_at_ns) - sampled_at_ns) // 1000, _MAX_DELAY_US) for row in rows)
        return delays if any(delays) else ()

    def _counter(self, said: values.Json) -> float | None:
        """A counter that is no plain unsigned number: it came as text, JSON, a decimal or signed."""
        found = values.number(values.only(said))
        if found is None or not 0 <= found < ABSENT_COUNTER:
            self._metrics.add("unreadable", self._device)
            return None
        return int(found)

    def _gauge(self, node: Node, value: values.Scalar) -> float | None:
        assert node.leaf is not None
        found = node.leaf.read(value)
        if found is None and not values.is_blank(value):
            self._metrics.add("unreadable", self._device)
        return found if isinstance(found, int | float) else None

    def _other(self, node: Node, value: gnmi_lite_pb2.TypedValue) -> None:
        """What is no plain counter: states, facts, JSON of a whole container, or nothing to us."""
        leaf = node.leaf
        if not node.is_path:
            self._metrics.add("unreadable", self._device)
            return
        if leaf is None and not (value.json_ietf_val or value.json_val or value.string_val or value.ascii_val):
            return
        if leaf is not None and leaf.metric is not None and node.slot < 0:
            self._unnamed.append((node, value))
            return
        said = values.typed_value(value)
        if said is None and (value.json_ietf_val or value.json_val) not in (b"", b"null"):
            self._metrics.add("unreadable", self._device)
        elif leaf is None and isinstance(said, str):
            said = values.container(said)
        self._walk(node, said, _DEEPEST_JSON)

    def _walk(self, node: Node, value: values.Json, deepest: int) -> None:
        self._left -= 1
        if deepest < 0 or self._left < 0:
            self._metrics.add("out_of_bounds", self._device)
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                self._walk(self._known.child(node, key), inner, deepest - 1)
                if self._left < 0:
                    return
        elif isinstance(value, list) and node.leaf is None:
            for item in value:
                if isinstance(item, dict) and node.elems:
                    self._walk(self._known.entry(node, cast("dict[str, object]", item)), item, deepest - 1)
                if self._left < 0:
                    return
        elif node.leaf is not None:
            self._put(node, values.only(value))

    def _put(self, node: Node, value: values.Scalar) -> None:
        leaf = node.leaf
        assert leaf is not None
        match leaf.kind:
            case Kind.COUNTER | Kind.READING if node.slot >= 0:
                is_counter = leaf.kind is Kind.COUNTER
                self._slots.values[node.slot] = self._counter(value) if is_counter else self._gauge(node, value)
                if not leaf.beside:
                    self._sampled(node.row)
            case Kind.STATE if node.slot >= 0:
                self._state(node, value)
            case Kind.BOOT_TIME:
                if (told := self._memory.booted(cast("int | None", leaf.read(value)), self._at_ns)) is not None:
                    self._out.append(told)
            case Kind.FACT:
                self._memory.add_facts((leaf.fact, leaf.row), cast("str | None", leaf.read(value)))
            case Kind.NAME if not leaf.row:
                self._name = str(value or "")
            case Kind.MODULE if leaf.row and value:
                self._slots.holds_module(str(value), leaf.row)
                self._memory.add_facts(("module", str(value)), leaf.row)
            case _:
                pass

    def _state(self, node: Node, value: values.Scalar) -> None:
        assert node.leaf is not None and node.leaf.metric is not None
        now = self._gauge(node, value)
        self._slots.values[node.slot] = now
        before = self._told.get(node.slot)
        if not node.holds or before is None:
            # Also what is told on change is a reading once: of a device that has nothing else to say.
            self._sampled(node.row)
        if now is None or not node.holds:
            return
        self._told[node.slot] = now
        kind = _EVENTS.get((node.leaf.metric, now))
        if kind is not None and before is not None and before != now:
            detail = f"{node.elems[-1].name} {value!s}"
            self._out.append(DeviceEvent(kind, node.row, self._at_ns, detail))

    def _delete_all(self, prefix: bytes, deleted: Iterable[bytes]) -> None:
        if self._shapes.waiting:
            self._shapes.settle(self._slots.values)
        for path in deleted:
            if not prefix and not path:
                continue  # some devices send an empty path beside an update and mean nothing by it
            try:
                _, elems = from_bytes(prefix, path)
            except Reject:
                self._metrics.add("unreadable", self._device)
                continue
            if elems:
                self._slots.clear_below(elems)

    def _name_the_unnamed(self) -> None:
        """Values of an interface whose path lacks its key belong to the name that came with them."""
        unnamed, name = self._unnamed, self._name
        self._unnamed, self._name = [], ""
        if not name:
            self._metrics.add("unnamed", self._device, len(unnamed))
            return
        for node, value in unnamed:
            leaf = node.leaf
            assert leaf is not None
            if leaf.row or leaf.row_in is None:
                continue
            at, key = leaf.row_in
            elems = (*node.elems[:at], Elem(node.elems[at].name, ((key, name),)), *node.elems[at + 1 :])
            named = self._known.node(elems)
            if named.slot >= 0:
                self._walk(named, values.typed_value(value), _DEEPEST_JSON)
