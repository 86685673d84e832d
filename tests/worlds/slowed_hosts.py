"""Readings of the NICs of hosts that receive an incast, or that congestion control, pause or losses slow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from streams.fabric.catalogue import Metric
from streams.wire.models import Samples
from tests.worlds.observations import NIC, Cells, samples

FULL = 400e9 / 8


@dataclass(frozen=True)
class Does:
    """The state of a host's port during `span_s`."""

    incast: bool = False
    cnp_throttled: float = 0
    """Congestion notifications a second."""
    throttled: bool = False
    """It sends a fifth."""
    paused: bool = True
    """While it is throttled; else only CNPs throttle it."""
    port: str = "mlx5_3"
    repeated: float = 0
    """Lost packets a second that it sends again."""
    span_s: tuple[float, float] = (120, 420)


CNP_THROTTLED = Does(cnp_throttled=5000)


def readings(hosts: Sequence[str], own: Mapping[str, Does], last_s: float = 900) -> Iterator[Samples]:
    """Yield the readings of these hosts, every 10 s; `own` are their states by host."""
    for turn in range(int(last_s / 10)):
        for number, host in enumerate(hosts):
            does, t = own.get(host, Does()), turn * 10 + number % 10
            during = max(0.0, min(t, does.span_s[1]) - does.span_s[0])
            into = 1e13 + FULL * 0.5 * t + FULL * 0.47 * during * does.incast
            counts = {
                (Metric.RX_BYTES, -1): into, (Metric.RX_PACKETS, -1): into / 4096,
                (Metric.ROCE_ECN_MARKED_PACKETS, -1): 0.4 * FULL / 4096 * during * does.incast,
                (Metric.CNP_HANDLED, -1): 20 * t + does.cnp_throttled * during,
                (Metric.PFC_RX_PAUSE_USECONDS, 3): 6e5 * during * (does.throttled and does.paused),
                (Metric.TX_BYTES, -1): 1e13 + FULL * (0.5 * t - 0.4 * during * does.throttled),
                (Metric.PACKET_SEQUENCE_ERRORS, -1): does.repeated * during,
                (Metric.SPEED_BPS, -1): 400e9,
            }  # fmt: skip
            cells: Cells = {column: {does.port: value} for column, value in counts.items()}
            yield samples(host, t, {}, source=NIC, indexed=cells, sequence=turn)
