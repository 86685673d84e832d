"""Telegraf's `infiniband` input: the counters of `/sys/class/infiniband`, under the kernel's own names.

Tags `device` (the RDMA device) and `port`; with `gather_rdma` the hw_counters too. What each means is
collectors/kernel/signals.py's to say.
"""

from collectors.bridge import values
from collectors.bridge.signals import Kind, Signal, counter
from collectors.kernel.signals import COUNTERS, HW_COUNTERS

FIELDS: dict[str, Signal] = {
    name: counter(said.metric) if said.factor == 1 else Signal(Kind.VALUE, said.metric, values.times(said.factor))
    for name, said in (COUNTERS | HW_COUNTERS).items()
}

DEVICE_KEYS = ("host",)
FIRST_PORT = "1"
"""A device's first port goes by the device's name alone: that is what a device of one port is called everywhere."""
