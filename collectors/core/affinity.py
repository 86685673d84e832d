"""Pins a collector's process to one CPU if its settings ask for it.

A gRPC stream moves between threads, and each wake-up on another CPU costs: under the default scheduler, reading gNMI
took up to twice the CPU of the same process on one core (measured with grpcio 1.85 on 2 shared cores). The price is
that the process waits while other work occupies that CPU: not for a host whose cores belong to a job.
"""

import contextlib
import os
from typing import Literal
from zlib import crc32

from streams.wire.errors import Misconfigured

Cpu = int | Literal["one"]


def pin_to_cpu(cpu: Cpu, name: str) -> int:
    """Pin this process and its future threads to one CPU and return its number; raises Misconfigured.

    `one` selects a permitted CPU by the collector's name, so that several collectors are spread over the CPUs.
    """
    allowed = sorted(os.sched_getaffinity(0))
    chosen = allowed[crc32(name.encode()) % len(allowed)] if cpu == "one" else cpu
    if chosen not in allowed:
        raise Misconfigured(
            f"cpu {chosen}: this process may use {', '.join(map(str, allowed))}; set `cpu` to one of these"
        )
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 — thread numbers, not paths
        with contextlib.suppress(ProcessLookupError):  # the thread has ended since the listing
            os.sched_setaffinity(int(thread), {chosen})
    return chosen
