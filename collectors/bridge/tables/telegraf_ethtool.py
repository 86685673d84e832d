"""Telegraf's `ethtool` input: the drivers' statistics, and fields that the plugin adds.

Tags `interface`, `driver` and `host`. collectors/kernel/signals.py has the mapping of the drivers' statistics.
`interface_up`, `link` and `speed` (Mb/s; -1 or 2^32-1 for none) are added by the plugin.
"""

from collectors.bridge import values
from collectors.bridge.signals import Signal, counter, gauge
from collectors.kernel.signals import Rank, ethtool_signal
from streams.fabric.catalogue import Metric

ADDED: dict[str, Signal] = {
    "link": gauge(Metric.OPER_UP, values.is_set),
    "interface_up": gauge(Metric.ADMIN_UP, values.is_set),
    "speed": gauge(Metric.SPEED_BPS, values.scaled(1e6)),
}
"""The fields that the plugin adds."""

ROW_KEYS = ("interface",)
DEVICE_KEYS = ("host",)


def signal(name: str) -> Signal | None:
    """Return the signal of a statistic, None if it is not collected."""
    if (added := ADDED.get(name)) is not None:
        return added
    found = ethtool_signal(name)
    # Here the highest rank is used, there the lowest.
    return None if found is None else counter(found.metric, max(Rank) - found.rank, found.lane)
