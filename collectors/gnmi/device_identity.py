"""Holds what is known of a device beyond one connection: its facts, boot time and clock offset. Pure."""

from dataclasses import dataclass, field

from collectors.core.clock import ClockSkew
from collectors.core.context import DeviceEvent
from streams.wire.bounds import MAX_TIME_NS
from streams.wire.models import EventKind

_SAME_BOOT_NS = 2_000_000_000
"""Devices that compute their boot time from their uptime vary by up to a second or two between answers."""
_MOST_FACTS = 100_000


@dataclass
class DeviceIdentity:
    """The identity of one device. `facts` is keyed by (fact, subject)."""

    boot_id: int = 0
    boot_seen_ns: int = 0
    facts: dict[tuple[str, str], str] = field(default_factory=dict)
    facts_changed: bool = False
    skew: ClockSkew = field(default_factory=ClockSkew)
    last_sample_at_ns: int = 0

    def set_boot_time(self, boot_ns: int | None, at_ns: int) -> DeviceEvent | None:
        """Record a reported boot time; return a reboot event if it differs from the last one."""
        if boot_ns is None or not 0 <= boot_ns <= MAX_TIME_NS:
            return None  # no reader would accept the facts with it
        seen, self.boot_seen_ns = self.boot_seen_ns, boot_ns
        if self.boot_id and abs(boot_ns - seen) <= _SAME_BOOT_NS:
            return None
        is_first, self.boot_id, self.facts_changed = not self.boot_id, boot_ns, True
        if is_first:
            return None
        # Dated when it was observed: a switch takes minutes to boot, and an event dated then would be late.
        return DeviceEvent(EventKind.DEVICE_REBOOT, "", at_ns, f"boot-time {boot_ns}, was {seen}", boot_ns)

    def add_facts(self, key: tuple[str, str], value: str | None) -> None:
        """Record a fact; past the limit, new ones are ignored."""
        if value is not None and self.facts.get(key) != value and len(self.facts) < _MOST_FACTS:
            self.facts[key] = value
            self.facts_changed = True
