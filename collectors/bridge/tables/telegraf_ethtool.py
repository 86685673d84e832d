"""Telegraf's `ethtool` input: the drivers' own statistics, and what the plugin adds of itself.

Tags `interface`, `driver` and `host`. What a driver's statistic means is collectors/kernel/signals.py's to say.
`interface_up`, `link` and `speed` (Mb/s; -1 or 2^32-1 for none) are the plugin's own.
"""

from collectors.bridge import values
from collectors.bridge.signals import Signal, counter, gauge
from collectors.kernel.signals import Rank, ethtool_signal
from streams.fabric.catalogue import Metric

OWN: dict[str, Signal] = {
    "link": gauge(Metric.OPER_UP, values.is_set),
    "interface_up": gauge(Metric.ADMIN_UP, values.is_set),
    "speed": gauge(Metric.SPEED_BPS, values.scaled(1e6)),
}
"""What the plugin adds."""

ROW_KEYS = ("interface",)
DEVICE_KEYS = ("host",)


def signal(name: str) -> Signal | None:
    """What a statistic is to us, None where it is nothing."""
    if (own := OWN.get(name)) is not None:
        return own
    said = ethtool_signal(name)
    # Here the highest rank is taken, there the lowest.
    return None if said is None else counter(said.metric, max(Rank) - said.rank, said.lane)
