"""What looks like a fault and is none: the hard cases of DETECTION 5 that a healthy fabric has every day.

Each row of HARD makes one of them, with how many of them a fabric of 2,048 GPUs has an hour. Some more are in the
world itself: single errors, counters that stick or wrap, idle hosts, jobs that start, stop and slow as a whole.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from streams.fabric.catalogue import Metric
from streams.simulation.columns import PRIORITY
from streams.simulation.effects import (
    BitErrors,
    CollectorRestart,
    CounterIncrement,
    CounterReset,
    Effect,
    GaugeOverride,
    Interval,
    Rebooting,
    SignalLoss,
    TrafficReduction,
)
from streams.simulation.fault_placement import FaultPlacer
from streams.simulation.host_agents import GPUS_PER_HOST, gpu_address, xid_event
from streams.simulation.telemetry import COLLECTORS, collector_of

_S = 10**9


def single_down(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A link is away for some seconds, once or twice: no burst, and not for long."""
    link, span = places.link(places.host_links + places.fabric_links, within, (300, 301))
    downs = []
    for n in range(1 + int(places.chance.random() < 0.3)):
        at_ns = span.start_ns + n * 200 * _S
        downs.append(SignalLoss(link, Interval(at_ns, at_ns + round(places.chance.uniform(0.3, 15) * _S))))
    return [*downs]


def shut_port(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A person disables a port for some minutes; a module that was changed warms up and its light settles."""
    link, span = places.link(places.host_links + places.fabric_links, within, (60, 1200))
    port = places.ports(link)[int(places.chance.integers(2))]
    warm = Interval(span.end_ns, span.end_ns + 900 * _S)
    rises = places.chance.uniform(0.5, 1.5)
    return [
        SignalLoss(link, span, disabled_port=port),
        GaugeOverride(port, Metric.RX_POWER_DBM, warm, offset=rises, ramp_s=480),
        GaugeOverride(port, Metric.MODULE_TEMPERATURE_C, warm, offset=places.chance.uniform(5, 14), ramp_s=480),
    ]


def burst_of_errors(places: FaultPlacer, within: Interval) -> list[Effect]:
    """Some frames are lost within seconds, and never again."""
    link, span = places.link(places.host_links + places.fabric_links, within, (1, 8))
    port = places.ports(link)[int(places.chance.integers(2))]
    many = places.chance.uniform(3, 60)
    metrics = (Metric.RX_FCS_ERRORS, Metric.RX_ERRORS)
    return [CounterIncrement(port, metric, span, per_s=many / (span.end_ns - span.start_ns) * _S) for metric in metrics]


def high_ber(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A link has more raw errors for a while, still below what FEC minds."""
    link, span = places.link(places.host_links + places.fabric_links, within, (600, 2400))
    port = places.ports(link)[int(places.chance.integers(2))]
    return [BitErrors(port, span, 10 ** places.chance.uniform(-7, -5.7), None)]


def congestion_loss(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A busy port drops by its queue: it follows the load, and no frame is corrupt."""
    link, span = places.link(places.host_links + places.fabric_links, within, (300, 1500))
    port = places.ports(link)[1]
    share = 10 ** places.chance.uniform(-7, -4.5)
    return [
        CounterIncrement(port, Metric.TX_DISCARDS, span, share=share, of_metric=Metric.TX_PACKETS),
        CounterIncrement(port, Metric.RX_DISCARDS, span, share=share / 3, of_metric=Metric.RX_PACKETS),
    ]


def driver_reload(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A host's driver is loaded anew: its ports are away for some seconds and count from zero, in the same boot."""
    device, span = places.device(places.devices("host"), within, (4, 12))
    return [CounterReset(device, span), *(SignalLoss(link, span) for link in places.links_of(device))]


def slow_host(places: FaultPlacer, within: Interval) -> list[Effect]:
    """All rails of a host carry less: it waits for its storage."""
    device, span = places.device(places.devices("host"), within, (300, 1200), alone=True)
    share = places.chance.uniform(0.3, 0.8)
    return [TrafficReduction(link, span, share) for link in places.links_of(device)]


def short_slow_rail(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A rail carries less for a moment."""
    link, span = places.link(places.host_links, within, (10, 50))
    return [TrafficReduction(link, span, places.chance.uniform(0.3, 0.8))]


def short_pauses(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A receiver pauses its leaf now and then, as an all-reduce makes it: traffic goes on."""
    link, span = places.link(places.host_links, within, (120, 1200), places.is_busy)
    nic, leaf = places.ports(link)
    share = places.chance.uniform(0.005, 0.05)
    return [
        CounterIncrement(nic, Metric.PFC_TX_FRAMES, span, per_s=12_000 * share, index=PRIORITY),
        CounterIncrement(leaf, Metric.PFC_RX_FRAMES, span, per_s=12_000 * share, index=PRIORITY),
        CounterIncrement(nic, Metric.PFC_TX_PAUSE_USECONDS, span, per_s=1e6 * share, index=PRIORITY),
    ]


def xid_of_a_program(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A program dies by its own doing, and the driver says so."""
    host = places.plant.devices[int(places.chance.choice(places.devices("host")))]
    at_ns = places.interval(within, (1, 2)).start_ns
    code, pci = int(places.chance.choice((13, 31, 43, 45))), gpu_address(int(places.chance.integers(GPUS_PER_HOST)))
    return [xid_event(host, pci, code, at_ns, at_ns % 2**31)]


def collector_restart(places: FaultPlacer, within: Interval) -> list[Effect]:
    """A collector of switches starts anew within a cadence, while all are there: two readings less are silence."""
    number = int(places.chance.integers(COLLECTORS))
    switches = [d for tier in ("T0", "T1") for d in places.devices(tier)]
    own = [device for device in switches if device % COLLECTORS == number]
    for _ in range(100):
        span = places.interval(within, (4, 9))
        if not any(places.is_device_claimed(device, span.widened(60 * _S)) for device in own):
            return [CollectorRestart(collector_of(number), span)]
    return []


_HOSTS_A_MAINTAINED = 64
_MAINTAINED_S = (900, 2400)


def hosts_in_maintenance(places: FaultPlacer, within: Interval) -> tuple[dict[str, datetime], list[Effect]]:
    """Hosts on which people work, as the inventory says, and until when; they restart and their cables are pulled."""
    until: dict[str, datetime] = {}
    effects: list[Effect] = []
    chance, hosts = places.chance, places.devices("host")
    for _ in range(max(1, len(hosts) // _HOSTS_A_MAINTAINED)):
        own = places.host_for_maintenance(until_ns := within.start_ns + round(chance.uniform(*_MAINTAINED_S) * _S))
        until[places.plant.devices[own]] = datetime.fromtimestamp(until_ns // _S, UTC)
        effects.append(
            Rebooting(own, Interval(within.start_ns + 60 * _S, within.start_ns + round(chance.uniform(150, 400) * _S)))
        )
        pulled = places.links_of(own)[int(chance.integers(len(places.links_of(own))))]
        for n in range(4):
            at_ns = within.start_ns + (500 + 60 * n) * _S
            effects.append(SignalLoss(pulled, Interval(at_ns, at_ns + round(chance.uniform(2, 50) * _S))))
    return until, effects


NEGATIVE_CASES: tuple[tuple[Callable[[FaultPlacer, Interval], list[Effect]], float], ...] = (
    (driver_reload, 3.0),
    (slow_host, 2.0),
    (single_down, 8.0),
    (shut_port, 4.0),
    (burst_of_errors, 8.0),
    (high_ber, 6.0),
    (congestion_loss, 6.0),
    (short_slow_rail, 8.0),
    (short_pauses, 6.0),
    (xid_of_a_program, 4.0),
    (collector_restart, 1.0),
)
