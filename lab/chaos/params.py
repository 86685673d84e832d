"""Options of one run, and the shortened settings under which it runs."""

from dataclasses import dataclass

SESSION_S = 6.0
"""The shortest session that brokers accept by default, so that a takeover is quick."""
PAUSE_S = SESSION_S + 2.0
"""A process that is paused this long has lost its partitions when it resumes."""
TELEMETRY_PARTITIONS = 4
POD_PARTITIONS = 2

SETTINGS = """\
[persist]
linger_s = 0.5
linger_max_s = 2
linger_background_s = 3
retry_backoff_max_s = 2
session_timeout_s = 6
[detect]
lateness_s = 10
[detect.down]
open_after_s = 4
hold_up_s = 2
[detect.stale]
loss_s = 30
[detect.flap]
presets = ["switch-errdisable"]
[runtime]
session_s = 6
snapshot_s = 1
quiet_snapshot_s = 3
measure_snapshot_s = 3
"""
"""Intervals of a run: shorter than the defaults, so that a run of half a minute contains takeovers and snapshots.

Of link/flap only the preset of five outages in ten seconds: in a night each link goes down twenty times by intent.
"""


@dataclass(frozen=True, slots=True)
class ChaosParams:
    """One sequence. The same seed, faults and seconds give the same sequence."""

    seed: int
    faults: tuple[str, ...]
    seconds: float
