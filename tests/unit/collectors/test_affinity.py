"""Pinning of a collector's process to a CPU."""

import os
import subprocess
import sys

import pytest

from collectors.core.spec import pin_to_cpu
from streams.wire.errors import Misconfigured

RUN = """
import os, sys, threading
from collectors.core.params import CollectorParams
from collectors.core.spec import Spec

async def collect(params, context):
    ended = threading.Event()
    later = threading.Thread(target=ended.wait)
    later.start()
    print(sorted({cpu for task in os.listdir("/proc/self/task") for cpu in os.sched_getaffinity(int(task))}))
    ended.set()

waits = threading.Event()
earlier = threading.Thread(target=waits.wait, daemon=True)
earlier.start()
spec = Spec("tried", CollectorParams, collect, needs_kafka=False, may_end=lambda _: True)
spec.start(CollectorParams.model_validate({"cpu": sys.argv[1] or None}))
waits.set()
"""


def cpus_of_a_run(cpu: str) -> list[int]:
    """Return the CPUs that the threads of a collector with this setting may use."""
    ran = subprocess.run([sys.executable, "-c", RUN, cpu], capture_output=True, text=True, check=True, timeout=30)
    return [int(word) for word in ran.stdout.strip("[]\n").split(",")]


def test_a_collector_stays_on_the_configured_cpu() -> None:
    """With all present and future threads; without the setting it may use all."""
    allowed = sorted(os.sched_getaffinity(0))
    assert cpus_of_a_run("") == allowed
    assert cpus_of_a_run(str(allowed[-1])) == [allowed[-1]]
    assert len(cpus_of_a_run("one")) == 1


def test_an_unavailable_cpu_is_refused_by_name() -> None:
    """Before any work starts; the error lists the available ones."""
    with pytest.raises(Misconfigured, match="cpu 99999: this process may use"):
        pin_to_cpu(99999, "gnmi@a")
