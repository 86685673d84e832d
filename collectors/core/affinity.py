"""Keeps a collector's process on one CPU, where its settings ask for it.

A stream of gRPC moves from thread to thread, and each wake-up across CPUs costs: left to the scheduler, reading gNMI
took up to twice the CPU of the same process held on one core (measured with grpcio 1.85 on 2 shared cores). The price
is that the process waits where that CPU is busy with something else: not for a host whose cores belong to a job.
"""

import contextlib
import os
from typing import Literal
from zlib import crc32

from streams.wire.errors import Misconfigured

Cpu = int | Literal["one"]


def pin_to_cpu(cpu: Cpu, name: str) -> int:
    """Keep this process and all that it will start on one CPU, and answer which; raises Misconfigured.

    `one` is any that the process may use, by the collector's name, so that several are spread over them.
    """
    allowed = sorted(os.sched_getaffinity(0))
    chosen = allowed[crc32(name.encode()) % len(allowed)] if cpu == "one" else cpu
    if chosen not in allowed:
        raise Misconfigured(f"cpu {chosen}: this process may use {', '.join(map(str, allowed))}")
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 — their numbers, not paths
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread), {chosen})
    return chosen
