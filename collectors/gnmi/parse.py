"""Turns the notifications of one connection into readings and events. Pure; time is an argument.

Samples are gathered until the device falls quiet; a change of state is emitted at once. A state's first value on a
connection is its present state and no change. The device's facts and boot time outlive connections, in DeviceIdentity.
A large message is processed in slices, between which the caller lets other devices run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from collectors.core.clock import AHEAD_NS
from collectors.core.columns import Reading
from collectors.core.context import DeviceEvent
from collectors.core.metrics import CollectorMetrics
from collectors.gnmi import values
from collectors.gnmi.device_output import STATE_EVENTS, DeviceIdentity, Output
from collectors.gnmi.message_templates import MessageTemplates
from collectors.gnmi.params import StreamParams
from collectors.gnmi.path_index import SAMPLED, STATES, Node, OnChange, PathIndex, SlotTable, UnnamedValues
from collectors.gnmi.path_mapping import Kind, PathMapping, path_mapping
from collectors.gnmi.paths import LONGEST_PATH, from_bytes
from collectors.gnmi.sample_time import SampleTime
from collectors.gnmi.v1 import gnmi_lite_pb2
from streams.wire.errors import Reject
from streams.wire.models import ABSENT_COUNTER

_MAX_JSON_DEPTH = 64
_MAX_JSON_ITEMS = values.MOST_ELEMENTS
"""Limit of members and items of JSON that are read in one message."""
_SLOTS_PER_UPDATE = 16
"""The number of slots scanned for a delete that counts as one update."""
_SLICE_VALUES, _SLICE_BYTES = 500, 1 << 16
"""The work of one slice: some 5 ms (measured for JSON of new interfaces, the slowest)."""
_NEW_NODE = 25
"""The cost of a path that is new, in values: it is compared with the paths of the profiles (measured: 180 us)."""
_UNKNOWN = 2**31
_MAX_DELAY_US = 2**31 - 1


_NO_NODE = Node((), None, -1, is_path=False)


@dataclass(slots=True)
class Burst:
    """The samples since the last reading was emitted."""

    row_at_ns: dict[str, int] = field(default_factory=dict)
    present: set[str] = field(default_factory=set)
    """Rows with a first state that is sent on change: it holds at the time of the reading, whatever its own time."""
    first_at_ns: int = 0
    began_ns: int = 0
    received_ns: int = 0
    updates: int = 0


def _is_sampled() -> bool:
    """Return True: a message with a template has samples."""
    return True


def row_delays(
    rows: Iterable[str], at_ns: Mapping[str, int], sampled_at_ns: int, row_of: Callable[[str], str] | None
) -> tuple[int, ...]:
    """Return each row's delay after the first one in µs; empty if all were read at once.

    `row_of` returns the port of a module's row: a module's values go to its port, and the later time counts.
    """
    if row_of is not None:
        reported: dict[str, int] = {}
        for row, at in at_ns.items():
            port = row_of(row)
            reported[port] = max(reported.get(port, at), at)
        at_ns = reported
    if len(set(at_ns.values())) == 1:
        return ()
    delays = tuple(min((at_ns.get(row, sampled_at_ns) - sampled_at_ns) // 1000, _MAX_DELAY_US) for row in rows)
    return delays if any(delays) else ()


class Connection:
    """The state of one connection. `on_change` has the paths that the device sends on change; True means all states."""

    def __init__(
        self, device: str, params: StreamParams, identity: DeviceIdentity, metrics: CollectorMetrics, *,
        on_change: bool | OnChange,
        mapping: PathMapping | None = None,
    ) -> None:  # fmt: skip
        self._device = device
        self._identity = identity
        self._metrics = metrics
        if isinstance(on_change, bool):
            on_change = STATES if on_change else SAMPLED
        self._cadence_ns = int(params.cadence_s * 1e9)
        self._quiet_ns = int(params.quiet_s * 1e9)
        self._incomplete_quiet_ns = max(self._quiet_ns, self._cadence_ns // 4)
        self._expected = _UNKNOWN
        self._slots = SlotTable(params.max_ports)
        self._known = PathIndex(
            self._slots, params.max_paths, mapping or path_mapping(), on_change,
            lambda: metrics.add("out_of_bounds", device),
        )  # fmt: skip
        self._json_left = self._slice_left = 0
        self._stack: list[tuple[Iterator[tuple[Node, values.Json]], int]] = []
        """The containers of JSON that are being read, and the levels that may follow below each."""
        self._is_slicing = False
        self.work = 0
        """The cost of the last message in updates, for a rate limit per device."""
        self._templates = MessageTemplates(2 * params.max_ports)
        self._states: dict[int, float] = {}
        self._burst = Burst()
        self._times = SampleTime(self._cadence_ns)
        self._at_ns = self._sample_ns = 0
        """The time of the last message: of its events, and of its samples."""
        self._received_ns = 0
        self._outputs: list[Output] = []
        self._unnamed = UnnamedValues()

    def process_known(self, message: bytes, received_ns: int) -> list[Output] | None:
        """Process an undecoded message if it matches a template; return None if it must be decoded."""
        found = self._templates.find(message)
        if found is None:
            return None
        self._begin(found.at_ns, received_ns, _is_sampled)
        template = found.template
        self._templates.waiting.append(found)
        for row in template.rows:
            self._sampled(row)
        self._metrics.add("updates", self._device, template.updates)
        self._burst.updates += template.updates
        self.work = 1 + template.updates
        return self._outputs

    def _begin(self, timestamp: int, received_ns: int, is_sampled: Callable[[], bool]) -> None:
        self._outputs = []
        before_ns, self._received_ns = self._received_ns, received_ns
        # Most messages of a reading repeat its timestamp, and show nothing further.
        if timestamp != self._sample_ns or not self._times.is_settled(timestamp, before_ns, received_ns):
            self._date(timestamp, received_ns, is_sampled)
        self._end_last_burst()

    def _date(self, timestamp: int, received_ns: int, is_sampled: Callable[[], bool]) -> None:
        """Set the times of the message."""
        self._at_ns = self._device_time(timestamp)
        if timestamp > 0 and self._at_ns == timestamp and self._times.add(timestamp, received_ns, is_sampled):
            self._burst.row_at_ns = dict.fromkeys(self._burst.row_at_ns, received_ns)
            self._burst.first_at_ns = received_ns
        self._sample_ns = received_ns if self._times.is_of_change else self._at_ns

    def process(self, notification: gnmi_lite_pb2.Notification, received_ns: int, message: bytes = b"") -> list[Output]:
        """Process a notification at once; return the outputs that are complete now."""
        for _ in self.slices(notification, received_ns, message):
            pass
        return self._outputs

    @property
    def outputs(self) -> list[Output]:
        """The outputs of the last message."""
        return self._outputs

    def slices(
        self, notification: gnmi_lite_pb2.Notification, received_ns: int, message: bytes = b""
    ) -> Iterator[None]:  # fmt: skip
        """Process a notification, whose outputs are complete at the end; yield between slices of a large one.

        Process no other message before the end. `message` is the encoded form, from which a template for similar
        messages is made.
        """
        prefix = notification.prefix
        if len(prefix) > LONGEST_PATH:
            self._outputs = []
            self._metrics.add("out_of_bounds", self._device)
            return
        known = self._known.below(prefix)
        updates = notification.update
        self._begin(notification.timestamp, received_ns, lambda: self._has_samples(known, prefix, updates))
        self._json_left, self._slice_left = _MAX_JSON_ITEMS, _SLICE_VALUES
        self._is_slicing = True
        try:
            if deleted := notification.delete:
                yield from self._delete_all(prefix, deleted)
            count = len(updates)
            size = len(message) or notification.ByteSize()
            if count <= _SLICE_VALUES and size <= _SLICE_BYTES:
                self._process_updates(known, prefix, updates)
                if self._stack:
                    yield from self._rest_of_json()
            else:
                yield from self._update_slices(known, prefix, updates, _SLICE_BYTES * count // size)
            yield from self._end_message(count)
        finally:
            self._is_slicing = False
        self._charge(count + len(deleted))
        if message:
            self._templates.add(message, notification, known)

    def _charge(self, values_: int) -> None:
        scanned, self._slots.scanned = self._slots.scanned // _SLOTS_PER_UPDATE, 0
        created, self._known.created = _NEW_NODE * self._known.created, 0
        self.work = 1 + values_ + scanned + created + (_MAX_JSON_ITEMS - self._json_left)

    def _end_message(self, count: int) -> Iterator[None]:
        self._metrics.add("updates", self._device, count)
        if self._burst.received_ns == self._received_ns:
            self._burst.updates += count
        if self._unnamed.values or self._unnamed.name:
            yield from self._resolve_unnamed()

    def _update_slices(
        self, known: dict[bytes, Node], prefix: bytes, updates: Sequence[gnmi_lite_pb2.Update], at_once: int
    ) -> Iterator[None]:  # fmt: skip
        at_once = max(1, min(_SLICE_VALUES, at_once))
        for begin in range(0, len(updates), at_once):
            if begin:
                yield
            self._slice_left = _SLICE_VALUES
            self._process_updates(known, prefix, updates[begin : begin + at_once])
            yield from self._rest_of_json()

    def _has_samples(
        self, known: dict[bytes, Node], prefix: bytes, updates: Iterable[gnmi_lite_pb2.Update]
    ) -> bool:  # fmt: skip
        """Return True if a message has a value that is not sent on change."""
        for update in updates:
            node = known.get(update.path) or self._known.add(known, prefix, update.path)
            if node.is_path and not node.on_change:
                return True
        return False

    def _rest_of_json(self) -> Iterator[None]:
        """Read the JSON that was too large for its slice; yield before each further slice."""
        while self._stack:
            yield
            self._slice_left = _SLICE_VALUES
            self._read_json()

    def _process_updates(
        self, known: dict[bytes, Node], prefix: bytes, updates: Iterable[gnmi_lite_pb2.Update]
    ) -> None:
        slot_values = self._slots.values
        if self._templates.waiting:
            self._templates.store(slot_values)
        row = ""
        for update in updates:
            path = update.path
            node = known.get(path)
            if node is None:
                node = self._known.add(known, prefix, path)
            # Most values are counters: they are stored without checking for the other kinds.
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
        """Record that the device has sent all its values: the first reading is complete."""
        if self._expected == _UNKNOWN:
            self._expected = 0

    @property
    def is_bursting(self) -> bool:
        """True if samples wait to be returned by `flush`."""
        return bool(self._burst.row_at_ns or self._burst.present)

    def flush(self, now_ns: int) -> Reading | None:
        """Return the reading that is complete because the device has been quiet; None if there is none.

        If it has fewer updates than the previous reading, the rest may only be late, because this process or the device
        is busy. Then it waits longer, but not into the next sample.
        """
        burst = self._burst
        wait_ns = self._quiet_ns if burst.updates >= self._expected else self._incomplete_quiet_ns
        if not self.is_bursting or self._is_slicing or now_ns - burst.received_ns < wait_ns:
            return None
        return self._reading()

    def _device_time(self, timestamp: int) -> int:
        """Return the sample's time by the device's clock; the local time if that is in the future or not set."""
        if timestamp <= 0:
            return self._received_ns
        if not self._times.is_of_change or timestamp > self._received_ns:
            self._identity.skew.add(timestamp, self._received_ns)
        if timestamp > self._received_ns + AHEAD_NS:
            self._metrics.add("clock_replaced", self._device)
            return self._received_ns
        return timestamp

    def _end_last_burst(self) -> None:
        """End the burst at a message of the next sample, or if the device never falls quiet."""
        burst = self._burst
        if not burst.row_at_ns:
            return
        is_next = self._sample_ns - burst.first_at_ns > self._cadence_ns // 2
        if is_next or self._received_ns - burst.began_ns > self._cadence_ns * 4 // 5:
            self._outputs.append(self._reading())

    def _sampled(self, row: str) -> None:
        burst = self._burst
        if not burst.row_at_ns:
            burst.first_at_ns, burst.began_ns = self._sample_ns, self._received_ns
        burst.row_at_ns[row] = self._sample_ns
        burst.received_ns = self._received_ns

    def _reading(self) -> Reading:
        burst, self._burst = self._burst, Burst()
        self._expected = burst.updates
        self._times.end_reading()
        slots = self._slots
        if self._templates.waiting:
            self._templates.store(slots.values)
        layout, chosen = slots.layout()
        slot_values = slots.values
        counters, gauges = layout.tables([slot_values[slot] for slot in chosen])
        slots.clear_sampled()
        sampled_at_ns = min(burst.row_at_ns.values(), default=burst.received_ns)
        at_ns = dict.fromkeys(burst.present, sampled_at_ns) | burst.row_at_ns
        row_of = slots.row_of if slots.has_modules else None
        delays = row_delays(layout.row, at_ns, sampled_at_ns, row_of)
        reading = Reading(
            sampled_at_ns, burst.received_ns, 0, layout.row, layout.rows_digest, counters, gauges, delays
        )  # fmt: skip
        return replace(reading, boot_id=self._identity.add_sample(reading))

    def _counter(self, value: values.Json) -> float | None:
        """Return a counter that is not a plain unsigned number: text, JSON, a decimal or a signed number."""
        found = values.number(values.only(value))
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
        """Process a value that is not a plain counter: a state, a fact, JSON of a container, or one without a leaf."""
        leaf = node.leaf
        if not node.is_path:
            self._metrics.add("unreadable", self._device)
            return
        if leaf is None and not (value.json_ietf_val or value.json_val or value.string_val or value.ascii_val):
            return
        if leaf is not None and leaf.metric is not None and node.slot < 0:
            self._unnamed.values.append((node, value))
            return
        decoded = values.typed_value(value)
        if decoded is None and (value.json_ietf_val or value.json_val) not in (b"", b"null"):
            self._metrics.add("unreadable", self._device)
        elif leaf is None and isinstance(decoded, str):
            decoded = values.container(decoded)
        self._walk(node, decoded)

    def _walk(self, node: Node, value: values.Json) -> None:
        """Read a value with all values in it, up to the end of the slice; the rest stays on the stack."""
        self._stack.append((iter(((node, value),)), _MAX_JSON_DEPTH))
        if len(self._stack) == 1:
            self._read_json()

    def _read_json(self) -> None:
        while self._stack and self._slice_left > 0:
            items, depth_left = self._stack[-1]
            created = self._known.created
            found = next(items, None)
            self._slice_left -= _NEW_NODE * (self._known.created - created)
            if found is None:
                self._stack.pop()
                continue
            self._json_left -= 1
            self._slice_left -= 1
            if depth_left < 0 or self._json_left < 0:
                self._metrics.add("out_of_bounds", self._device)
                if self._json_left < 0:
                    self._stack.clear()
                continue
            node, value = found
            if isinstance(value, dict):
                self._stack.append((self._members(node, value), depth_left - 1))
            elif isinstance(value, list) and node.leaf is None:
                self._stack.append((self._entries(node, value), depth_left - 1))
            elif node.leaf is not None:
                self._put(node, values.only(value))

    def _members(self, node: Node, value: dict[str, values.Json]) -> Iterator[tuple[Node, values.Json]]:
        for key, inner in value.items():
            yield self._known.child(node, key), inner

    def _entries(self, node: Node, items: list[values.Json]) -> Iterator[tuple[Node, values.Json]]:
        """Yield the items of a list with their nodes; one that is no object has a node without a leaf."""
        for item in items:
            if isinstance(item, dict) and node.elems:
                yield self._known.entry(node, cast("dict[str, object]", item)), item
            else:
                yield _NO_NODE, None

    def _put(self, node: Node, value: values.Scalar) -> None:
        leaf = node.leaf
        assert leaf is not None
        match leaf.kind:
            case Kind.COUNTER | Kind.READING if node.slot >= 0:
                if leaf.kind is Kind.COUNTER:
                    found = self._counter(value)
                    if found is not None and leaf.scale != 1:
                        found = int(found * leaf.scale)
                    self._slots.values[node.slot] = found
                else:
                    self._slots.values[node.slot] = self._gauge(node, value)
                if not leaf.secondary:
                    self._sampled(node.row)
            case Kind.STATE if node.slot >= 0:
                self._state(node, value)
            case Kind.BOOT_TIME:
                reboot = self._identity.add_boot_time(value, self._at_ns)
                if reboot is not None:
                    self._outputs.append(reboot)
            case Kind.FACT:
                self._identity.add_facts((leaf.fact, leaf.row), cast("str | None", leaf.read(value)))
            case Kind.NAME if not leaf.row:
                self._unnamed.name = str(value or "")
            case Kind.MODULE if leaf.row and value:
                self._slots.assign_module(str(value), leaf.row)
                self._identity.add_facts(("module", str(value)), leaf.row)
            case _:
                pass

    def _state(self, node: Node, value: values.Scalar) -> None:
        assert node.leaf is not None and node.leaf.metric is not None
        state = self._gauge(node, value)
        self._slots.values[node.slot] = state
        previous = self._states.get(node.slot)
        if not node.on_change:
            self._sampled(node.row)
        elif previous is None:
            # A state sent on change counts as a sample once, for devices that send nothing else.
            burst = self._burst
            burst.present.add(node.row)
            burst.received_ns = self._received_ns
        if state is None or not node.on_change:
            return
        self._states[node.slot] = state
        kind = STATE_EVENTS.get((node.leaf.metric, state))
        if kind is not None and previous is not None and previous != state:
            detail = f"{node.elems[-1].name} {value!s}"
            self._outputs.append(DeviceEvent(kind, node.row, self._at_ns, detail))

    def _delete_all(self, prefix: bytes, deleted: Iterable[bytes]) -> Iterator[None]:
        if self._templates.waiting:
            self._templates.store(self._slots.values)
        for path in deleted:
            if not prefix and not path:
                continue  # some devices send an empty path without a meaning beside an update
            if len(path) > LONGEST_PATH:
                self._metrics.add("out_of_bounds", self._device)
                continue
            before = self._slots.scanned
            try:
                _, elems = from_bytes(prefix, path)
            except Reject:
                self._metrics.add("unreadable", self._device)
                continue
            if elems:
                self._slots.clear_below(elems)
            self._slice_left -= 1 + (self._slots.scanned - before) // _SLOTS_PER_UPDATE
            if self._slice_left <= 0:
                yield
                self._slice_left = _SLICE_VALUES

    def _resolve_unnamed(self) -> Iterator[None]:
        unnamed, self._unnamed = self._unnamed, UnnamedValues()
        if not unnamed.name:
            self._metrics.add("unnamed", self._device, len(unnamed.values))
            return
        for node, value in unnamed.resolve(self._known):
            self._walk(node, values.typed_value(value))
            if self._slice_left <= 0:
                yield
                self._slice_left = _SLICE_VALUES
            yield from self._rest_of_json()
