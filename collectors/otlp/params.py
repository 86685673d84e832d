"""Settings of the OTLP collector: its addresses, its TLS, and the devices and relays that may send."""

from typing import ClassVar

from pydantic import TypeAdapter

from collectors.core.params import configured_targets
from collectors.dialout.params import PushParams, Target
from streams.wire.errors import Misconfigured


class Params(PushParams):
    """Settings of `[collect.otlp]`."""

    port: ClassVar[int] = 4317
    gap_s: ClassVar[float] = 0.5
    """Points that are further apart, by the device's time, belong to different readings."""
    span_s: ClassVar[float] = 0.9
    """The maximum length of a reading: less than the shortest interval of Cumulus, 1 s."""
    max_bytes: ClassVar[int] = 4 << 20
    """The largest request, also after decompression: gRPC's default, and that of OpenTelemetry's own receiver. One of
    64 MiB, all of empty messages, took the event loop for 4.8 s and 1.2 GB (measured)."""
    max_json_elements: ClassVar[int] = 200_000
    """The limit of members, items and containers of a request in JSON, which are some 15,000 points."""
    max_requests: ClassVar[int] = 4
    """The limit of concurrent requests of one device; further ones are answered as overload. A relay has four times as
    many: an OpenTelemetry Collector sends ten by default."""
    body_s: ClassVar[float] = 30.0
    """A request that is incomplete for this long is ended."""
    max_series: ClassVar[int] = 200_000
    """The limit of remembered series of one device; past it, all of a metric are looked up again."""

    def all_targets(self) -> dict[str, Target]:
        """Return the devices and relays by name; raises Misconfigured for none, duplicates, or one without identity."""
        targets = configured_targets("otlp", self, self.targets, self.targets_file, _TARGETS)
        has_relay = any(target.relay for target in targets)
        for target in targets:
            if target.zone:
                raise Misconfigured(f"collect.otlp: target {target.name}: zone is a setting of collect.syslog")
            if self.client_ca_file is None and not target.addresses and (target.relay or not has_relay):
                raise Misconfigured(
                    f"collect.otlp: target {target.name}: without client certificates (client_ca_file) a sender is "
                    "recognized by its addresses; set addresses, or `relay = true` at the target that sends for it"
                )
        return {target.name: target for target in targets}


_TARGETS = TypeAdapter(tuple[Target, ...])
