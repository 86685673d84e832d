"""Telegraf's `infiniband` input: the counters of `/sys/class/infiniband`, by the kernel's names.

Tags `device` (the RDMA device) and `port`; with `gather_rdma` the hw_counters too. collectors/kernel/signals.py has
their mapping.
"""

from collectors.bridge import values
from collectors.bridge.signals import Kind, Signal, counter
from collectors.kernel.signals import COUNTERS, HW_COUNTERS

FIELDS: dict[str, Signal] = {
    name: counter(signal.metric)
    if signal.factor == 1
    else Signal(Kind.VALUE, signal.metric, values.times(signal.factor))
    for name, signal in (COUNTERS | HW_COUNTERS).items()
}

DEVICE_KEYS = ("host",)
FIRST_PORT = "1"
"""A device's first port has the device's name alone, the usual name of a device with one port."""
