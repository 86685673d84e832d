"""Bounds the SNMPv3 engines of which keys are retained for the traps of a device.

Anyone can send a datagram with a device's address and an engine id of its own. An engine retains its slot only once a
message of it was authenticated; the others replace each other, so that forged datagrams shut no trap out.
"""


class EngineSlots:
    """The engines of each device, those that were authenticated and those that were not."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._engines: dict[str, dict[bytes, bool]] = {}
        """Device -> engine id -> whether a message of it was authenticated; in the order of the last such message."""

    def add(self, device: str, engine_id: bytes) -> tuple[bool, bytes | None]:
        """Return whether the engine is new, and the engine whose keys it replaces, if no other device has it."""
        engines = self._engines.setdefault(device, {})
        if engine_id in engines:
            return False, None
        is_new = not self._is_known(engine_id)
        evicted = None
        if len(engines) >= self._capacity:
            evicted = next((one for one, is_verified in engines.items() if not is_verified), next(iter(engines)))
            del engines[evicted]
        engines[engine_id] = False
        return is_new, None if evicted is None or self._is_known(evicted) else evicted

    def verify(self, device: str, engine_id: bytes) -> None:
        """Record that a message of the engine was authenticated."""
        engines = self._engines.get(device, {})
        if engine_id in engines:
            del engines[engine_id]
            engines[engine_id] = True

    def _is_known(self, engine_id: bytes) -> bool:
        return any(engine_id in engines for engines in self._engines.values())
