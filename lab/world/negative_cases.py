"""Declares the negative cases: events that look like a fault and are none (DETECTION 5).

A healthy fabric has them every day. The world itself has more: single errors, counters that stick or wrap, idle hosts,
jobs that start, stop and slow down as a whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from lab.world.columns import PRIORITY
from lab.world.effects import (
    AgentRestart,
    BitErrors,
    CachedCounters,
    ClockShift,
    CollectorRestart,
    CounterIncrement,
    CounterReset,
    Effect,
    EmitEvent,
    GaugeOverride,
    Interval,
    LastChangeTimes,
    Rebooting,
    SignalLoss,
    TrafficReduction,
    TruncatedWalk,
)
from lab.world.fault_placement import FaultPlacer
from lab.world.host_agents import GPUS_PER_HOST, gpu_address, xid_event
from lab.world.telemetry import COLLECTORS, collector_of
from streams.fabric.catalogue import Metric
from streams.wire.models import Event, EventKind, Source

_S = 10**9
_PAUSE_FRAMES_PER_S = 12_000
_APPLICATION_XIDS = (13, 31, 43, 45)
_TRIES = 100
_STEP_S = 3.0
"""A clock that is 5 s off is the fault device/clock-skew, and some are off by seconds anyway."""
_ODD_S = (3600, 14_400)
_CACHE_S = (20.0, 90.0)
"""Refresh periods: Junos refreshes after up to 60 s; some line cards need longer."""
_MOST_CARDS = 4


def single_down(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Take a link down for some seconds, once or twice: too few for a flap, too short for a link down."""
    link, interval = placer.link(_all_links(placer), within, (300, 301))
    losses: list[Effect] = []
    for number in range(1 + int(placer.rng.random() < 0.3)):
        at_ns = interval.start_ns + number * 200 * _S
        losses.append(SignalLoss(link, Interval(at_ns, at_ns + round(placer.rng.uniform(0.3, 15) * _S))))
    return losses


def shut_port(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Disable a port for some minutes; afterwards its replaced module warms up and its light settles."""
    link, interval = placer.link(_all_links(placer), within, (60, 1200))
    port = _random_end(placer, link)
    warm_up = Interval(interval.end_ns, interval.end_ns + 900 * _S)
    power_db = placer.rng.uniform(0.5, 1.5)
    return [
        SignalLoss(link, interval, disabled_port=port),
        GaugeOverride(port, Metric.RX_POWER_DBM, warm_up, offset=power_db, ramp_s=480),
        GaugeOverride(port, Metric.MODULE_TEMPERATURE_C, warm_up, offset=placer.rng.uniform(5, 14), ramp_s=480),
    ]


def burst_of_errors(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Lose some frames within seconds, once."""
    link, interval = placer.link(_all_links(placer), within, (1, 8))
    port = _random_end(placer, link)
    count = placer.rng.uniform(3, 60)
    per_s = count / (interval.end_ns - interval.start_ns) * _S
    return [CounterIncrement(port, m, interval, per_s=per_s) for m in (Metric.RX_FCS_ERRORS, Metric.RX_ERRORS)]


def high_ber(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Raise the raw error rate of a link for a while, to a rate that FEC still corrects."""
    link, interval = placer.link(_all_links(placer), within, (600, 2400))
    port = _random_end(placer, link)
    return [BitErrors(port, interval, 10 ** placer.rng.uniform(-7, -5.7), None)]


def congestion_loss(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Drop packets of a full queue: the drops follow the load, and no frame is corrupt."""
    link, interval = placer.link(_all_links(placer), within, (300, 1500))
    port = placer.ports(link)[1]
    share = 10 ** placer.rng.uniform(-7, -4.5)
    return [
        CounterIncrement(port, Metric.TX_DISCARDS, interval, share=share, of_metric=Metric.TX_PACKETS),
        CounterIncrement(port, Metric.RX_DISCARDS, interval, share=share / 3, of_metric=Metric.RX_PACKETS),
    ]


def driver_reload(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Reload a host's driver: its ports are down for some seconds and count from zero within the same boot."""
    device, interval = placer.device(placer.devices("host"), within, (4, 12))
    return [CounterReset(device, interval), *(SignalLoss(link, interval) for link in placer.links_of(device))]


def slow_host(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Reduce the traffic of all rails of a host, which waits for its storage."""
    device, interval = placer.device(placer.devices("host"), within, (300, 1200), alone=True)
    share = placer.rng.uniform(0.3, 0.8)
    return [TrafficReduction(link, interval, share) for link in placer.links_of(device)]


def short_slow_rail(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Reduce the traffic of one rail for less than a minute."""
    link, interval = placer.link(placer.host_links, within, (10, 50))
    return [TrafficReduction(link, interval, placer.rng.uniform(0.3, 0.8))]


def short_pauses(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Let a receiver pause its leaf occasionally, as an all-reduce does; traffic continues."""
    link, interval = placer.link(placer.host_links, within, (120, 1200), placer.is_busy)
    nic, leaf_port = placer.ports(link)
    share = placer.rng.uniform(0.005, 0.05)
    frames_per_s = _PAUSE_FRAMES_PER_S * share
    return [
        CounterIncrement(nic, Metric.PFC_TX_FRAMES, interval, per_s=frames_per_s, index=PRIORITY),
        CounterIncrement(leaf_port, Metric.PFC_RX_FRAMES, interval, per_s=frames_per_s, index=PRIORITY),
        CounterIncrement(nic, Metric.PFC_TX_PAUSE_USECONDS, interval, per_s=1e6 * share, index=PRIORITY),
    ]


def xid_of_a_program(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Report an Xid that a program's own error causes."""
    host = placer.fabric.devices[int(placer.rng.choice(placer.devices("host")))]
    at_ns = placer.interval(within, (1, 2)).start_ns
    code, gpu = int(placer.rng.choice(_APPLICATION_XIDS)), gpu_address(int(placer.rng.integers(GPUS_PER_HOST)))
    return [xid_event(host, gpu, code, at_ns, at_ns % 2**31)]


def collector_restart(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Restart a collector of switches within a cadence, while all its switches answer: two missing polls are stale."""
    number = int(placer.rng.integers(COLLECTORS))
    switches = [device for tier in ("T0", "T1") for device in placer.devices(tier)]
    polled = [device for device in switches if device % COLLECTORS == number]
    for _ in range(_TRIES):
        interval = placer.interval(within, (4, 9))
        if not any(placer.is_device_claimed(device, interval.widened(60 * _S)) for device in polled):
            return [CollectorRestart(collector_of(number), interval)]
    return []


def agent_restart(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Restart the agent of a switch, which then reports a boot of the device; all counters and links go on."""
    device, interval = _switch(placer), placer.interval(within, (2, 8))
    return [AgentRestart(device, interval), _reported_boot(placer, device, interval.end_ns)]


def clock_step(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Step the clock of a switch by some seconds and later back; its boot time is its clock minus its uptime."""
    device, interval = _switch(placer), placer.interval(within, (600, 7200))
    offset_s = float(placer.rng.choice([-1, 1]) * placer.rng.uniform(1, _STEP_S))
    steps: list[Effect] = [ClockShift(device, interval, offset_s)]
    for at_ns in interval:
        steps += [AgentRestart(device, Interval(at_ns, at_ns)), _reported_boot(placer, device, at_ns)]
    return steps


def cached_counters(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Refresh the traffic counters of a switch, card by card, more slowly than it is read, beside fresh pause."""
    device, interval = _switch(placer), placer.interval(within, _ODD_S)
    period_s, cards = placer.rng.uniform(*_CACHE_S), int(placer.rng.integers(1, _MOST_CARDS + 1))
    return [CachedCounters(device, interval, period_s, cards)]


def last_change_times(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """Date each sampled leaf of a switch by its last change: those of idle ports are days old."""
    return [LastChangeTimes(_switch(placer), placer.interval(within, _ODD_S))]


def truncated_walk(placer: FaultPlacer, within: Interval) -> list[Effect]:
    """End the walks of a switch's counters at one of its ports."""
    device, interval = _switch(placer), placer.interval(within, _ODD_S)
    return [TruncatedWalk(device, interval, int(placer.rng.integers(len(placer.fabric.ports[device]))))]


def _switch(placer: FaultPlacer) -> int:
    return int(placer.rng.choice([device for tier in ("T0", "T1") for device in placer.devices(tier)]))


def _reported_boot(placer: FaultPlacer, device: int, at_ns: int) -> EmitEvent:
    collector, at = collector_of(device), Interval(at_ns, at_ns + 1)
    boot = Event(
        placer.fabric.devices[device], "", EventKind.DEVICE_REBOOT, at_ns, at_ns, Source.SOURCE_GNMI, collector, 1,
        at_ns % 2**31,
    )  # fmt: skip
    return EmitEvent(at, boot, Source.SOURCE_GNMI)


def _all_links(placer: FaultPlacer) -> list[int]:
    return placer.host_links + placer.fabric_links


def _random_end(placer: FaultPlacer, link: int) -> int:
    return placer.ports(link)[int(placer.rng.integers(2))]


_HOSTS_PER_MAINTENANCE = 64
_MAINTENANCE_S = (900, 2400)


def hosts_in_maintenance(placer: FaultPlacer, within: Interval) -> tuple[dict[str, datetime], list[Effect]]:
    """Put hosts into maintenance: return its end by host name, and their restarts and unplugged cables."""
    until: dict[str, datetime] = {}
    effects: list[Effect] = []
    rng, hosts, start_ns = placer.rng, placer.devices("host"), within.start_ns
    for _ in range(max(1, len(hosts) // _HOSTS_PER_MAINTENANCE)):
        until_ns = start_ns + round(rng.uniform(*_MAINTENANCE_S) * _S)
        host = placer.host_for_maintenance(until_ns)
        until[placer.fabric.devices[host]] = datetime.fromtimestamp(until_ns // _S, UTC)
        effects.append(Rebooting(host, Interval(start_ns + 60 * _S, start_ns + round(rng.uniform(150, 400) * _S))))
        unplugged = placer.links_of(host)[int(rng.integers(len(placer.links_of(host))))]
        for number in range(4):
            at_ns = start_ns + (500 + 60 * number) * _S
            effects.append(SignalLoss(unplugged, Interval(at_ns, at_ns + round(rng.uniform(2, 50) * _S))))
    return until, effects


@dataclass(frozen=True, slots=True)
class NegativeCase:
    """One kind of negative case. `inject` raises NoRoom."""

    inject: Callable[[FaultPlacer, Interval], list[Effect]]
    rate: float
    """The number per hour in a fabric of 2,048 GPUs; of an odd agent, the number per day of each switch."""

    @property
    def name(self) -> str:
        """Return the name for reports."""
        return self.inject.__name__.replace("_", "-")


NEGATIVE_CASES: tuple[NegativeCase, ...] = (
    NegativeCase(driver_reload, 3.0),
    NegativeCase(slow_host, 2.0),
    NegativeCase(single_down, 8.0),
    NegativeCase(shut_port, 4.0),
    NegativeCase(burst_of_errors, 8.0),
    NegativeCase(high_ber, 6.0),
    NegativeCase(congestion_loss, 6.0),
    NegativeCase(short_slow_rail, 8.0),
    NegativeCase(short_pauses, 6.0),
    NegativeCase(xid_of_a_program, 4.0),
    NegativeCase(collector_restart, 1.0),
)
ODD_AGENTS: tuple[NegativeCase, ...] = (
    NegativeCase(agent_restart, 2.0),
    NegativeCase(clock_step, 2.0),
    NegativeCase(cached_counters, 2.0),
    NegativeCase(last_change_times, 2.0),
    NegativeCase(truncated_walk, 2.0),
)
"""Agents of switches that report a healthy device oddly, over days; a fault at the same place is still one."""
