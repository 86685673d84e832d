"""Admits senders, reads what they send, and answers. No I/O. Which device it is of decides `identity`."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import structlog

from collectors.core.context import CollectorContext, Emitter
from collectors.core.device_share import DeviceShare, in_slices
from collectors.dialout.params import Peer, Target, candidates
from collectors.otlp.delivery import Delivery, Overload
from collectors.otlp.device import OtlpDevice
from collectors.otlp.identity import Group, Identity, by_owner
from collectors.otlp.params import Params
from collectors.otlp.paths import PathRule, path_rule
from collectors.otlp.series import Batches, MetricSeries, Refused, new_batches
from collectors.otlp.tables import NEIGHBORS, TableRule, rules, units
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.v1 import otlp_pb2 as otlp

_log = structlog.get_logger("railsight.otlp")

BYTES_PER_POINT = 20
"""The bytes that a request is charged for as one point: a time, a value and their tags."""
_RELAY_FACTOR = 4
"""The limits of a relay are those of this many devices."""
_SLICE = 4096
"""Points that are read before other tasks run."""
_MOST_RESOURCES = 4096
"""Limit of remembered resources of one sender."""
_DELTA = 1
_KINDS = ("gauge", "sum")
_REFUSED = "unknown senders"
_MOST_PEERS = 4096
_LONGEST_REASON = 500
_SILENCE_S = 1.0
"""The interval at which devices without samples are looked for."""
_BUSY_S = 1.0


class Forbidden(Exception):
    """The sender is none of the targets."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request that was read: the points that are not stored, and the reason."""

    rejected: int = 0
    message: str = ""

    def response(self) -> otlp.ExportResponse:
        """Return the message, which is empty if all points are stored."""
        if not (self.rejected or self.message):
            return otlp.ExportResponse()
        partial = otlp.PartialSuccess(rejected=self.rejected, error_message=self.message)
        return otlp.ExportResponse(partial_success=partial)


class Sender:
    """The targets that match a connection; their connections share their limits."""

    def __init__(self, identity: Identity, params: Params, share: DeviceShare) -> None:
        self.identity = identity
        self.name = identity.targets[0].name
        self.share = share
        self.max_requests = (_RELAY_FACTOR if identity.is_relay else 1) * params.max_requests
        self.requests = 0
        self.groups: dict[bytes, Group] = {}


class Receiver:
    """The senders and devices of one process."""

    def __init__(self, params: Params, context: CollectorContext, emitter: Emitter, delivery: Delivery) -> None:
        """`delivery` is the publisher of `emitter`."""
        self.devices: dict[str, OtlpDevice] = {}
        self._params = params
        self._context = context
        self._metrics = context.metrics
        self._emitter = emitter
        self._delivery = delivery
        self._targets: tuple[Target, ...] = ()
        self._by_node: dict[str, str] = {}
        self._device_count = 0
        self._senders: dict[tuple[str, ...], Sender] = {}
        self._by_peer: dict[Peer, Sender] = {}
        self._shares: dict[tuple[str, bool], DeviceShare] = {}

    def _share(self, target: Target) -> DeviceShare:
        """Return the share of a sender, which outlives changes of the targets and is in the status of a device."""
        most = self._params.max_updates_per_s * (_RELAY_FACTOR if target.relay else 1)
        key = target.name, target.relay
        return self._shares.setdefault(key, DeviceShare(target.name, most, self._metrics))

    def configure(self, targets: Mapping[str, Target]) -> None:
        """Set the targets."""
        self._targets = tuple(targets.values())
        self._senders.clear()
        self._by_peer.clear()
        devices = [target for target in self._targets if not target.relay]
        self._device_count = len(devices)
        self._by_node = {
            node: target.name
            for target in reversed(devices)
            for node in (*target.addresses, target.name.lower(), target.node_name.lower())
        }

    async def run(self) -> None:
        """Publish the readings that senders wait for, and the silence of devices, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._delivery.run(self._publish))
            tasks.create_task(self._report_silence())

    def _publish(self) -> None:
        for device in self.devices.values():
            device.end()

    async def _report_silence(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SILENCE_S)
            for device in self.devices.values():
                device.report_silence(loop.time())

    async def run_device(self, target: Target) -> None:
        """Receive the points of a device until cancelled, and publish its status and facts."""
        device = self.devices[target.name] = OtlpDevice(
            target.name, self._params, self._context, self._emitter, self._share(target)
        )
        self._forget_groups()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(device.output.report_status(self._context.rng.random()))
                tasks.create_task(device.report_facts())
        finally:
            device.end()
            del self.devices[target.name]
            self._forget_groups()

    def _forget_groups(self) -> None:
        for sender in self._senders.values():
            sender.groups.clear()

    def sender(self, peer: Peer) -> Sender:
        """Return the sender at the other end of a connection; raises Forbidden if it is no target."""
        found = self._by_peer.get(peer)
        if found is None:
            by_certificate = self._params.client_ca_file is not None
            possible = candidates(self._targets, peer, by_certificate=by_certificate)
            if not possible:
                self._refuse(peer, by_certificate=by_certificate)
            key = tuple(target.name for target in possible)
            found = self._senders.get(key)
            if found is None:
                found = self._senders[key] = Sender(
                    Identity(possible, self._by_node, self.devices), self._params, self._share(possible[0])
                )
            if len(self._by_peer) >= _MOST_PEERS:
                self._by_peer.clear()
            self._by_peer[peer] = found
        return found

    def _refuse(self, peer: Peer, *, by_certificate: bool) -> NoReturn:
        names = f" with a certificate of {', '.join(sorted(peer.names))[:200]}" if by_certificate else ""
        why = f"{peer.address}{names} is none of the targets"
        self._metrics.add("not_admitted", _REFUSED)
        if (count := self._metrics.value("not_admitted", _REFUSED)).bit_count() == 1:
            _log.warning("sender refused", why=why, count=count, next="see collect.otlp targets")
        raise Forbidden(why)

    @contextlib.contextmanager
    def request(self, sender: Sender) -> Iterator[None]:
        """Admit a request before its body is read; raises Overload."""
        if len(self.devices) < self._device_count:  # its points would be rejected, and not repeated
            raise Overload("the devices are being set up", _BUSY_S)
        self._delivery.check()
        wait_s = sender.share.delay_s(0, asyncio.get_running_loop().time())
        if wait_s > 0:
            raise Overload("more points than the limit of a second", wait_s)
        if sender.requests >= sender.max_requests:
            sender.share.throttled(asyncio.get_running_loop().time())
            raise Overload(f"more than {sender.max_requests} requests at once", _BUSY_S)
        sender.requests += 1
        try:
            yield
        finally:
            sender.requests -= 1

    async def process(
        self, sender: Sender, body: bytes, parse: Callable[[bytes], otlp.ExportMetricsServiceRequest]
    ) -> Answer:
        """Store the points of a decompressed request, and return when they are delivered.

        Raises Reject if it cannot be read, and Undelivered.
        """
        refused = self._delivery.refused
        answer, has_values = await self._store(sender, body, parse)
        del body  # a request that waits has no more memory than its readings
        if has_values:
            await self._delivery.wait(refused)
        return answer

    async def _store(
        self, sender: Sender, body: bytes, parse: Callable[[bytes], otlp.ExportMetricsServiceRequest]
    ) -> tuple[Answer, bool]:
        """Add the points of a request to the readings of their devices; also return whether there were any."""
        has_values = False
        loop = asyncio.get_running_loop()
        sender.share.delay_s(len(body) // BYTES_PER_POINT, loop.time())
        received_ns = self._context.clock.now_ns()
        refused, values = Refused(), new_batches()
        await in_slices(self._slices(sender, parse(body), values, refused))
        for readings, times in values.items():
            for at_ns in [at_ns for at_ns in times if not 0 < at_ns <= MAX_TIME_NS]:
                refused.add("a point has no valid time", len(times.pop(at_ns)))
            if (device := self.devices.get(readings.device)) is not None:
                has_values |= device.add(readings, times, received_ns, loop.time())
        if refused.count:
            self._metrics.add("unreadable", sender.name, refused.count)
        return Answer(refused.count, refused.reason[:_LONGEST_REASON]), has_values

    def _slices(
        self, sender: Sender, request: otlp.ExportMetricsServiceRequest, values: Batches, refused: Refused
    ) -> Iterator[None]:
        """Read a request into `values`; yield between the pieces of a large one."""
        count = 0
        for of_resource in request.resource_metrics:
            group = self._group(sender, of_resource.resource)
            for scope in of_resource.scope_metrics:
                for metric in scope.metrics:
                    which = metric.WhichOneof("data")
                    if which is None:
                        continue
                    data = getattr(metric, which)
                    points = data.data_points
                    if which not in _KINDS:
                        self._metrics.add("passed_over", "histograms and summaries", len(points))
                        continue
                    is_delta = data.aggregation_temporality == _DELTA
                    for begin in range(0, len(points), _SLICE):
                        some = points[begin : begin + _SLICE] if len(points) > _SLICE else points
                        self._add(sender, group, metric.name, some, values, refused, is_delta=is_delta)
                        count += len(some)
                        if count >= _SLICE:
                            count = 0
                            yield

    def _add(
        self, sender: Sender, group: Group, raw_name: bytes, points: Sequence[bytes], values: Batches,
        refused: Refused, *, is_delta: bool,
    ) -> None:  # fmt: skip
        name = raw_name.decode(errors="replace")
        series = group.series.get((name, is_delta))
        if series is None:
            found: tuple[TableRule | PathRule, ...] = rules().get(name, ())
            if not found and (path := path_rule(name)) is not None:
                found = (path,)
            if group.device is None and group.is_named:
                # A relay's resource that names no target is of an exporter, if in its table points name theirs.
                found = tuple(rule for rule in found if rule.device and sender.identity.is_relay)
                if not found:
                    refused.add(group.why, len(points))
                    return
            owner_of = partial(sender.identity.owner_of, group)
            if name in units() or name == NEIGHBORS:
                for device, some in by_owner(points, owner_of, refused).items():
                    if name == NEIGHBORS:
                        device.add_neighbors(some, asyncio.get_running_loop().time())
                    else:
                        device.add_unit(name, some)
                return
            if not found:
                self._metrics.add("unknown", sender.name, len(points))
                return
            series = group.series[name, is_delta] = MetricSeries(found, group.device, owner_of, is_delta=is_delta)
        if left_out := series.add(points, values, refused):
            self._metrics.add("unknown", sender.name, left_out)

    def _group(self, sender: Sender, raw: bytes) -> Group:
        found = sender.groups.get(raw)
        if found is None:
            if len(sender.groups) >= _MOST_RESOURCES:
                sender.groups.clear()
            found = sender.groups[raw] = sender.identity.group(raw)
        return found
