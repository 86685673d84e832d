"""Detects restarts of a device, by sysUpTime and snmpEngineBoots. Pure.

sysUpTime counts hundredths of a second in 32 bits: it wraps to zero after 497 days, which is no restart.
"""

from dataclasses import dataclass

_TICK_NS = 10_000_000
_WRAP = 1 << 32
_SLACK = 1000
"""10 s in ticks: agents answer from caches, and their clocks drift."""
_DRIFT = 0.01
_JITTER = 300
"""3 s in ticks: an agent of several processes may answer slightly out of order; none boots in so short a time."""
_QUANTUM_S = 64
"""Without a boot counter, the boot id is the boot time in units of 64 s, so that two runs mostly agree."""


@dataclass
class RestartDetection:
    """The restart detection of one device. `boot_id` is 0 until the device has sent its sysUpTime."""

    boot_id: int = 0
    booted_ns: int = 0
    _ticks: int | None = None
    _at_ns: int = 0
    _counted: int = 0

    def observe(self, ticks: int | None, counted: int | None, engine_s: int | None, at_ns: int) -> bool:
        """Record the device's present values; return True if it has restarted since the last ones.

        `counted` is snmpEngineBoots, `engine_s` snmpEngineTime: the seconds since the boot, which do not wrap.
        """
        if ticks is None or not 0 <= ticks < _WRAP:
            return False
        counted = counted if counted and counted > 0 else 0
        has_booted = self._is_reset(ticks, at_ns) or bool(self._counted and counted and counted != self._counted)
        is_first = self._ticks is None
        self._ticks, self._at_ns = ticks, at_ns
        if is_first or has_booted:
            up_ns = engine_s * 10**9 if engine_s and counted else ticks * _TICK_NS
            self.booted_ns = max(1, at_ns - up_ns)
            self.boot_id = self._number(counted, is_recount=has_booted and counted == self._counted)
            self._counted = counted
        return has_booted

    def _number(self, counted: int, *, is_recount: bool) -> int:
        """Return the agent's boot counter, equal in all runs; with the time if it did not change at a restart."""
        seconds = self.booted_ns // 10**9
        if not counted:
            return max(1, seconds // _QUANTUM_S)
        return counted << 34 | (seconds & 0x3FFFFFFFF if is_recount else 0)

    def _is_reset(self, ticks: int, at_ns: int) -> bool:
        if self._ticks is None or ticks >= self._ticks:
            return False
        if self._ticks - ticks <= _JITTER:
            return False
        passed = max(0, at_ns - self._at_ns) // _TICK_NS
        slack = _SLACK + int(passed * _DRIFT)
        return abs(ticks + _WRAP - self._ticks - passed) > slack
